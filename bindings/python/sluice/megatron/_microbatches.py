"""A call's work on one rank: what the engine calls for each task, in whatever order it decides."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from megatron.core.pipeline_parallel import schedules

from sluice._process.tensors import give, take
from sluice.megatron._data import FiledData
from sluice.megatron._groups import Groups
from sluice.megatron._parameter_sync import ParameterSync
from sluice.megatron._shapes import Expected

# Gone since 0.17.
_BACKWARD_TAKES_MODEL_TYPE = "model_type" in inspect.signature(schedules.backward_step).parameters


@dataclass
class Call:
    """The arguments of one call that its tasks need."""

    forward_step_func: Any
    config: Any
    models: list[torch.nn.Module]
    data: list[FiledData]
    num_microbatches: int
    groups: Groups
    forward_only: bool
    collect_non_loss_data: bool
    first_val_step: bool | None
    expected: Expected
    device: torch.device


@dataclass
class _InFlight:
    """Between a microbatch's forward and its backward."""

    inputs: list[torch.Tensor | None]
    outputs: list[Any]
    shape: torch.Size
    partly_checkpointed: bool


@dataclass
class Microbatches:
    """Megatron's own code for the passes of one call, and what came out of them by microbatch."""

    call: Call
    sync: ParameterSync
    tokens: torch.Tensor
    data_store: dict[int, Any] = field(default_factory=dict)
    _in_flight: dict[tuple[int, int], _InFlight] = field(default_factory=dict)
    _synchronize: int | None = None

    def forward(self, chunk: int, microbatch: int, inputs: list[list[Any]]) -> list[list[Any]]:
        call = self.call
        own = chunk // call.groups.stages
        is_last = self._is_last(chunk)
        received = take(inputs[0], [None], call.device) if inputs else [None]
        for tensor in received:
            if tensor is not None and (tensor.is_floating_point() or tensor.is_complex()):
                tensor.requires_grad_()
        checkpoints = self._checkpoints_all()
        store: list[Any] = []
        outputs, tokens = schedules.forward_step(
            call.forward_step_func,
            call.data[own].of(microbatch),
            call.models[own],
            call.num_microbatches,
            received,
            store,
            call.config,
            call.groups.cp.size(),
            collect_non_loss_data=call.collect_non_loss_data,
            checkpoint_activations_microbatch=checkpoints,
            is_first_microbatch=self._starts_chunk(own),
            current_microbatch=microbatch,
            vp_stage=own if call.config.virtual_pipeline_model_parallel_size is not None else None,
            is_last_stage=is_last,
        )
        self.tokens += tokens
        if is_last:
            self.data_store[microbatch] = store[0]
        else:
            call.expected.check(outputs[0], f"pipeline rank {call.groups.stage}, model chunk {own}")
        capsules = [] if is_last else [give(outputs)]
        if not call.forward_only:
            shape = outputs[0].shape if isinstance(outputs[0], torch.Tensor) else torch.Size()
            self._in_flight[own, microbatch] = _InFlight(received, outputs, shape, checkpoints is False)
            if not is_last:
                # What was given is the engine's until it is sent: only this reference to it goes.
                schedules.deallocate_output_tensor(outputs[0], call.config.deallocate_pipeline_outputs)
        return capsules

    def backward(
        self, chunk: int, microbatch: int, output_grads: list[list[Any]], whole: bool
    ) -> list[list[Any]]:
        call = self.call
        own = chunk // call.groups.stages
        kept = self._in_flight.pop((own, microbatch))
        gradients = [None] if self._is_last(chunk) else self._gradients(output_grads[0], kept)
        self.sync.before_backward(own)
        model_type = [None] if _BACKWARD_TAKES_MODEL_TYPE else []
        input_grads = schedules.backward_step(kept.inputs, kept.outputs, gradients, *model_type, call.config)
        self._synchronize = own
        return [] if chunk == 0 else [give(input_grads)]

    def after_task(self) -> None:
        if self._synchronize is not None:
            own, self._synchronize = self._synchronize, None
            self.sync.after_backward(own)

    def _gradients(self, capsules: list[Any], kept: _InFlight) -> list[torch.Tensor | None]:
        """A gradient that is not there is none; to Megatron, None would mean the loss."""
        (gradient,) = take(capsules, [None], self.call.device)
        if gradient is None:
            gradient = torch.zeros(kept.shape, dtype=kept.outputs[0].dtype, device=self.call.device)
        return [gradient]

    def _is_last(self, chunk: int) -> bool:
        return chunk == self.call.groups.stages * len(self.call.models) - 1

    def _starts_chunk(self, own: int) -> bool:
        first = self.sync.before_forward(own)
        if self.call.forward_only and self.call.first_val_step is not None:
            return first and self.call.first_val_step
        return first

    def _checkpoints_all(self) -> bool | None:
        """Holds to Megatron's limit on microbatches in flight that keep some activations, in any order."""
        most = self.call.config.num_microbatches_with_partial_activation_checkpoints
        if most is None:
            return None
        return sum(each.partly_checkpointed for each in self._in_flight.values()) >= most
