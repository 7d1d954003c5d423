"""The backwards of a stage in one step: whole, or an input gradient now and the weight gradients in turn.

The halves are torch's own where they save work. Where they cannot, a backward runs whole; should weight
gradients of earlier microbatches be still to come, what it adds to the parameters is kept apart until then.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node
from torch.distributed.pipelining._backward import (
    _get_grad_fn_or_grad_acc,
    construct_reverse_graph,
    get_param_groups,
    reverse_closure,
)
from torch.distributed.pipelining.stage import _PipelineStageBase

from sluice.torch._replicas import settle, sums_of

_REENTRANT_CHECKPOINT = "CheckpointFunctionBackward"


class Halves(enum.Enum):
    """What becomes of a backward that the engine wants in two."""

    TORCHS = enum.auto()
    # No input needs a gradient: all the work is in the second half.
    SECOND_ONLY = enum.auto()
    # All the work is in the first half.
    FIRST_ONLY = enum.auto()


class SplitChoice:
    """How a stage's backwards are split, found out from the first graph that is to be."""

    def __init__(self, stage: _PipelineStageBase, says_so: bool) -> None:
        """says_so: warns, once, where a split is of no use."""
        self._stage = stage
        self._says_so = says_so
        # torch leaves the whole backward of the first stage to the second half; a dw_builder splits itself.
        self._found = Halves.TORCHS if stage.is_first or stage.dw_builder is not None else None

    def of(self, outputs: Sequence[torch.Tensor], inputs: Sequence[Any]) -> Halves:
        if self._found is None:
            self._found, reason = _look(outputs, inputs, list(self._stage.submod.parameters()))
            if reason and self._says_so:
                warnings.warn(
                    f"stage {self._stage.stage_index}: its backwards run whole, as a split would save nothing: "
                    f"{reason}",
                    stacklevel=2,
                )
        return self._found


class Backwards:
    """A stage's backwards in one step. Weight gradients are accumulated in the order of microbatches."""

    def __init__(self, stage: _PipelineStageBase, choice: SplitChoice) -> None:
        self._stage = stage
        self._choice = choice
        self._halves: dict[int, Halves] = {}
        self._kept: dict[int, list[torch.Tensor | None]] = {}
        self._accumulated = 0

    def whole(self, microbatch: int, loss: torch.Tensor | None) -> None:
        self._stage.backward_one_chunk(microbatch, loss=loss, full_backward=True)
        self._accumulated += 1

    def first_half(self, microbatch: int, loss: torch.Tensor | None) -> None:
        """Leaves the gradients of the inputs where torch's backwards do."""
        outputs, inputs = self._stage.fwd_cache[microbatch]
        halves = self._halves[microbatch] = self._choice.of(outputs if loss is None else (loss,), inputs)
        if halves is Halves.TORCHS:
            self._stage.fwd_cache[microbatch] = tuple(map(_detachable, outputs)), inputs
            loss = None if loss is None else _detachable(loss)
            self._stage.backward_one_chunk(microbatch, loss=loss, full_backward=False)
        elif halves is Halves.SECOND_ONLY:
            self._stage.bwd_cache[microbatch] = (None,) * len(self._stage.args_recv_info[microbatch])
        elif microbatch == self._accumulated:
            self.whole(microbatch, loss)
            while self._accumulated in self._kept:
                self._add(self._kept.pop(self._accumulated))
        else:
            self._run_apart(microbatch, loss)

    def second_half(self, microbatch: int, loss: torch.Tensor | None) -> None:
        halves = self._halves.pop(microbatch)
        if halves is Halves.TORCHS:
            self._stage.backward_weight_one_chunk(microbatch)
            settle(self._stage)
            self._accumulated += 1
        elif halves is Halves.SECOND_ONLY:
            self.whole(microbatch, loss)
            self._stage.bwd_cache.pop(microbatch)
        elif microbatch in self._kept:
            self._add(self._kept.pop(microbatch))

    def keeps_inputs(self, microbatch: int) -> bool:
        """Whether the second half still needs what the forward left."""
        return self._halves.get(microbatch) in (Halves.TORCHS, Halves.SECOND_ONLY)

    def keeps_gradients(self, microbatch: int) -> bool:
        """Whether the second half still needs the gradients of the outputs."""
        return self._halves.get(microbatch) is Halves.SECOND_ONLY

    def _run_apart(self, microbatch: int, loss: torch.Tensor | None) -> None:
        sums = sums_of(self._stage)
        before = [getattr(*each) for each in sums]
        for each in sums:
            setattr(*each, None)
        try:
            self._stage.backward_one_chunk(microbatch, loss=loss, full_backward=True)
            self._kept[microbatch] = [getattr(*each) for each in sums]
        finally:
            for each, gradient in zip(sums, before):
                setattr(*each, gradient)

    def _add(self, gradients: list[torch.Tensor | None]) -> None:
        for each, gradient in zip(sums_of(self._stage), gradients):
            if gradient is None:
                continue
            total = getattr(*each)
            if total is None:
                setattr(*each, gradient)
            else:
                total += gradient
        self._accumulated += 1


class _Alias(torch.autograd.Function):
    """The same elements in a tensor of its own, as views cannot be detached in place."""

    @staticmethod
    def forward(ctx: Any, view: torch.Tensor) -> torch.Tensor:
        return view.detach()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def _detachable(output: torch.Tensor) -> torch.Tensor:
    """For torch's first half, which detaches the outputs."""
    return _Alias.apply(output) if output._is_view() else output


def _look(
    outputs: Sequence[torch.Tensor], inputs: Sequence[Any], parameters: Sequence[torch.Tensor]
) -> tuple[Halves, str]:
    """How to split, and why not as torch does.

    torch's second half starts at the nodes where the ways from the parameters meet those from the inputs.
    """
    ends = [node for node in map(_node_of, outputs) if node is not None]
    starts = [node for node in map(_node_of, inputs) if node is not None]
    if not starts:
        return Halves.SECOND_ONLY, ""
    edges = construct_reverse_graph(ends)
    if any(node.name() == _REENTRANT_CHECKPOINT for node in (*ends, *edges)):
        return Halves.FIRST_ONLY, "a reentrant checkpoint runs its own backward"
    weights = [node for node in map(_node_of, parameters) if node is not None]
    from_inputs, _ = reverse_closure(starts, set(), edges)
    for weight in weights:
        beside, _ = reverse_closure([weight], from_inputs, edges)
        if weight in edges and not beside.isdisjoint(ends):
            return (
                Halves.FIRST_ONLY,
                "a parameter reaches an output beside the inputs, where torch's split loses it",
            )
    meet = {node for group in get_param_groups(starts, weights, edges) for node in group["intermediates"]}
    if all(isinstance(node, BackwardCFunction) for node in meet):
        names = ", ".join(sorted({node.name() for node in meet}))
        reason = (
            f"what computes one half computes the other too ({names})"
            if meet
            else "it has no weight gradients"
        )
        return Halves.FIRST_ONLY, reason
    return Halves.TORCHS, ""


def _node_of(value: Any) -> Node | None:
    """Where the gradient of the value arrives; None if it needs none."""
    return (
        _get_grad_fn_or_grad_acc(value) if isinstance(value, torch.Tensor) and value.requires_grad else None
    )
