"""When gradients are reduced and parameters gathered among data-parallel replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch


class ParameterSync:
    """Calls the configuration's no_sync_func, grad_sync_func and param_sync_func, by counting passes a chunk.

    Whatever order microbatches run in, a chunk's last backward follows that of the rank's next chunk, and its
    first forward that of the chunk before. So reductions start with the last chunk and gathers with the
    first, in the same order on all replicas.
    """

    def __init__(
        self,
        config: Any,
        models: Sequence[torch.nn.Module],
        microbatches: int,
        is_first_rank: bool,
        forward_only: bool,
    ) -> None:
        self._models = models
        self._microbatches = microbatches
        self._interleaved = len(models) > 1
        self._no_sync_func = config.no_sync_func
        self._grad_sync = None if forward_only else _by_chunk(config.grad_sync_func, models)
        has_gathers = self._interleaved and not forward_only
        self._param_sync = _by_chunk(config.param_sync_func, models) if has_gathers else None
        self._is_first_rank = is_first_rank
        self._forwards = [0] * len(models)
        self._backwards = [0] * len(models)
        self._no_sync: contextlib.ExitStack | None = None

    def begin(self) -> None:
        self._disable()
        for chunk in range(min(2, len(self._models))):
            self._gather(chunk)

    def before_forward(self, chunk: int) -> bool:
        """Whether it is the chunk's first."""
        self._forwards[chunk] += 1
        first = self._forwards[chunk] == 1
        if first and 1 < chunk + 1 < len(self._models):
            self._gather(chunk + 1)
        return first

    def before_backward(self, chunk: int) -> None:
        self._backwards[chunk] += 1
        if self._is_last(chunk) and self._reduces_within_backward():
            self._enable()

    def after_backward(self, chunk: int) -> None:
        """The input gradient is on its way."""
        if not self._is_last(chunk):
            return
        if self._grad_sync is not None and not self._reduces_within_backward():
            self._enable()
            self._grad_sync[chunk](self._models[chunk].parameters())
        if self._interleaved:
            self._disable()

    def end(self) -> None:
        self._enable()

    def _reduces_within_backward(self) -> bool:
        """The first rank has no bubble to reduce in: with one chunk its backward does it, as in Megatron."""
        return self._grad_sync is None or (self._is_first_rank and not self._interleaved)

    def _is_last(self, chunk: int) -> bool:
        return self._backwards[chunk] == self._microbatches

    def _gather(self, chunk: int) -> None:
        if self._param_sync is not None:
            self._param_sync[chunk](self._models[chunk].parameters())

    def _disable(self) -> None:
        if self._no_sync is not None or self._no_sync_func is None:
            return
        several = isinstance(self._no_sync_func, (list, tuple))
        self._no_sync = contextlib.ExitStack()
        for enter in self._no_sync_func if several else [self._no_sync_func]:
            self._no_sync.enter_context(enter())

    def _enable(self) -> None:
        if self._no_sync is not None:
            self._no_sync.close()
            self._no_sync = None


def _by_chunk(sync: Any, models: Sequence[torch.nn.Module]) -> list[Callable[[Any], None]] | None:
    if sync is None:
        return None
    several = list(sync) if isinstance(sync, (list, tuple)) else [sync] * len(models)
    if len(several) != len(models):
        raise ValueError(f"config: {len(several)} functions to synchronize {len(models)} model chunks")
    return several
