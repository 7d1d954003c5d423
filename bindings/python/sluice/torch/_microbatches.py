"""A step's work on one rank: what the engine calls for each task, in whatever order it decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.pipelining.stage import _normalize_model_output_as_tuple, _PipelineStageBase

from sluice.torch._tensors import give, take

Loss = Callable[[Any, Any, dict[str, Any] | None], torch.Tensor]


class Microbatches:
    """The code of a rank's stages for the microbatches of one step.

    Outputs and losses are filed by microbatch; torch's own lists are filled in order when the step has ended.
    """

    def __init__(
        self,
        stages: Sequence[_PipelineStageBase],
        args: Sequence[tuple[Any, ...]],
        kwargs: Sequence[dict[str, Any]],
        targets: Sequence[Any] | None,
        compute_loss: Loss | None,
        loss_kwargs: dict[str, Any] | None,
        keep_outputs: bool,
    ) -> None:
        self._stages = {stage.stage_index: stage for stage in stages}
        self._args = args
        self._kwargs = kwargs
        self._targets = targets
        self._compute_loss = compute_loss
        self._loss_kwargs = loss_kwargs
        self._keep_outputs = keep_outputs
        self._ended = dict.fromkeys(self._stages, 0)
        self.outputs: dict[int, Any] = {}
        self.losses: dict[int, torch.Tensor] = {}

    def forward(self, chunk: int, microbatch: int, inputs: list[list[Any]]) -> list[list[Any]]:
        stage = self._stages[chunk]
        if not stage.is_first:
            infos = stage.args_recv_info[microbatch]
            tensors = take(inputs[0], [info.tensor_meta.dtype for info in infos])
            stage.set_local_fwd_input(tuple(tensors), microbatch)
        output = stage.forward_one_chunk(
            microbatch, self._args[microbatch], self._kwargs[microbatch], save_forward_output=False
        )
        if stage.is_last:
            self._end_forward(output, microbatch)
            return []
        if not stage.has_backward:
            stage.fwd_cache.pop(microbatch)
            drop_buffers(stage.args_recv_info[microbatch])
        return [give(_normalize_model_output_as_tuple(output))]

    def backward(self, chunk: int, microbatch: int, output_grads: list[list[Any]], whole: bool) -> list[list[Any]]:
        stage = self._stages[chunk]
        if not stage.is_last:
            self._file_gradients(stage, microbatch, output_grads[0])
        stage.backward_one_chunk(
            microbatch,
            loss=self.losses.get(microbatch) if stage.is_last else None,
            full_backward=whole,
            last_backward=whole and self._is_last(chunk),
        )
        drop_buffers(stage.grad_recv_info.get(microbatch, ()))
        if whole:
            drop_buffers(stage.args_recv_info[microbatch])
        if stage.is_first:
            stage.bwd_cache.pop(microbatch, None)
            return []
        return [give(stage.get_local_bwd_output(microbatch))]

    def weight_grad(self, chunk: int, microbatch: int) -> None:
        stage = self._stages[chunk]
        stage.backward_weight_one_chunk(microbatch, last_backward=self._is_last(chunk))
        drop_buffers(stage.args_recv_info[microbatch])

    def _end_forward(self, output: Any, microbatch: int) -> None:
        if self._keep_outputs:
            self.outputs[microbatch] = output
        if self._compute_loss is not None:
            target = self._targets[microbatch] if self._targets is not None else None
            self.losses[microbatch] = self._compute_loss(output, target, self._loss_kwargs)

    def _file_gradients(self, stage: _PipelineStageBase, microbatch: int, capsules: list[Any]) -> None:
        infos = stage.grad_recv_info[microbatch]
        gradients = take(capsules, [info.tensor_meta.dtype if info.tensor_meta else None for info in infos])
        for place, info in enumerate(infos):
            if gradients[place] is None and info.tensor_meta is not None:
                gradients[place] = torch.zeros(info.tensor_meta.shape, dtype=info.tensor_meta.dtype, device=stage.device)
        stage.set_local_bwd_input(tuple(gradients), microbatch)

    def _is_last(self, chunk: int) -> bool:
        """Counts what accumulates weight gradients: the last to run, whichever microbatch it is of."""
        self._ended[chunk] += 1
        return self._ended[chunk] == len(self._args)


def drop_buffers(infos: Sequence[Any]) -> None:
    """Lets go of what was received, or of what torch allocated ahead for it."""
    for info in infos:
        if not info.is_root_arg and info.buffer is not None:
            info.buffer = torch.empty(0, dtype=info.buffer.dtype, device=info.buffer.device)
