"""Stages that let time pass as a device would: no core is busy while a task runs."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_PR_SET_TIMERSLACK = 29
WIDTH = 64
ROWS = 16


def sharpen_sleeps() -> None:
    """Sleeps of this thread, and of those it starts, end when they should: the default slack is 50 us."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


class Device:
    """One rank's. A forward takes `seconds`, and so does each half of a backward; real times are noted."""

    def __init__(self) -> None:
        self.start(0.0)

    def start(self, seconds: float) -> None:
        """seconds: of the forward of one chunk."""
        self._seconds = seconds
        self._slept = 0.0
        self.forwards: list[float] = []
        self.halves: list[float] = []
        self.passes: list[float] = []
        """What the code that runs a pass took beside."""

    def forward(self) -> None:
        self._pass(self.forwards, 1)

    def half_backward(self) -> None:
        self._pass(self.halves, 1)

    def whole_backward(self) -> None:
        self._pass(self.halves, 2)

    def _pass(self, noted: list[float], parts: int) -> None:
        if self._seconds == 0:
            return
        began = time.monotonic()
        time.sleep(parts * self._seconds)  # until a deadline, not for a number of ticks
        slept = time.monotonic() - began
        self._slept += slept
        noted.append(slept / parts)

    def timed(self, run_pass: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, which notes its own time without that of the emulated task."""

        def timed_pass(*args: Any, **kwargs: Any) -> Any:
            slept, began = self._slept, time.monotonic()
            result = run_pass(*args, **kwargs)
            self.passes.append(time.monotonic() - began - (self._slept - slept))
            return result

        return timed_pass


class _Pause(torch.autograd.Function):
    """Passes its input on; its backward takes time."""

    @staticmethod
    def forward(ctx, tensor, pause):
        ctx.pause = pause
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        ctx.pause()
        return gradient, None


class Chunk(nn.Module):
    """A linear layer whose input and weight gradients take time in nodes of their own: a split splits it.

    The first chunk has no input gradient: all of its backward is in the weight's.
    """

    def __init__(self, index: int, device: Device) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(index)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=generator) / WIDTH**0.5)
        self._device = device
        self._of_weight: Callable[[], None] = device.half_backward if index > 0 else device.whole_backward

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self._device.forward()
        if inputs.requires_grad:
            inputs = _Pause.apply(inputs, self._device.half_backward)
        return nn.functional.linear(inputs, _Pause.apply(self.weight, self._of_weight))


def batch(microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets, the same on all ranks: microbatches x ROWS x WIDTH."""
    generator = torch.Generator().manual_seed(1000)
    shape = (microbatches, ROWS, WIDTH)
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((output - target) ** 2).mean()
