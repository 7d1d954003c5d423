"""A step's work on one rank: what the engine calls for each task, in whatever order it decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.pipelining._utils import to_local_if_dtensor
from torch.distributed.pipelining.stage import _normalize_model_output_as_tuple, _PipelineStageBase
from torch.utils._pytree import tree_map_only

from sluice._process.tensors import give, take
from sluice.torch._backward import Backwards, SplitChoice
from sluice.torch._initialization import drop_buffers, sent_outputs

Loss = Callable[[Any, Any, dict[str, Any] | None], torch.Tensor]


class Microbatches:
    """The code of a rank's stages for the microbatches of one step.

    Outputs and losses are filed by microbatch; torch's own lists are filled in order when the step has ended.
    """

    def __init__(
        self,
        stages: Sequence[_PipelineStageBase],
        splits: Mapping[int, SplitChoice],
        args: Sequence[tuple[Any, ...]],
        kwargs: Sequence[dict[str, Any]],
        targets: Sequence[Any] | None,
        compute_loss: Loss | None,
        loss_kwargs: dict[str, Any] | None,
        keep_outputs: bool,
    ) -> None:
        self._stages = {stage.stage_index: stage for stage in stages}
        self._backwards = {stage.stage_index: Backwards(stage, splits[stage.stage_index]) for stage in stages}
        self._sent = {stage.stage_index: sent_outputs(stage) for stage in stages}
        self._args = args
        self._kwargs = kwargs
        self._targets = targets
        self._compute_loss = compute_loss
        self._loss_kwargs = loss_kwargs
        self._keep_outputs = keep_outputs
        self.outputs: dict[int, Any] = {}
        self.losses: dict[int, torch.Tensor] = {}

    def forward(self, chunk: int, microbatch: int, inputs: list[list[Any]]) -> list[list[Any]]:
        stage = self._stages[chunk]
        if not stage.is_first:
            self._file_inputs(stage, microbatch, inputs[0])
        output = stage.forward_one_chunk(
            microbatch, self._args[microbatch], self._kwargs[microbatch], save_forward_output=False
        )
        if stage.is_last:
            self._end_forward(output, microbatch)
        sent = [] if stage.is_last else [give(self._for_the_next(stage, output))]
        if not stage.has_backward:
            stage.fwd_cache.pop(microbatch)
            self._let_go(stage, microbatch)
        return sent

    def backward(
        self, chunk: int, microbatch: int, output_grads: list[list[Any]], whole: bool
    ) -> list[list[Any]]:
        stage, backwards = self._stages[chunk], self._backwards[chunk]
        if not stage.is_last:
            self._file_gradients(stage, microbatch, output_grads[0])
        run = backwards.whole if whole else backwards.first_half
        run(microbatch, self._loss_of(stage, microbatch))
        if not backwards.keeps_gradients(microbatch):
            drop_buffers(stage.grad_recv_info.get(microbatch, ()))
        if not backwards.keeps_inputs(microbatch):
            self._let_go(stage, microbatch)
        if stage.is_first:
            stage.bwd_cache.pop(microbatch, None)
            return []
        gradients = stage.get_local_bwd_output(microbatch)
        return [give(None if each is None else to_local_if_dtensor(each) for each in gradients)]

    def weight_grad(self, chunk: int, microbatch: int) -> None:
        stage = self._stages[chunk]
        self._backwards[chunk].second_half(microbatch, self._loss_of(stage, microbatch))
        drop_buffers(stage.grad_recv_info.get(microbatch, ()))
        self._let_go(stage, microbatch)

    def _loss_of(self, stage: _PipelineStageBase, microbatch: int) -> torch.Tensor | None:
        return self.losses.get(microbatch) if stage.is_last else None

    def _let_go(self, stage: _PipelineStageBase, microbatch: int) -> None:
        """What is kept of the microbatch no longer holds its graph, and so what was received for it."""
        drop_buffers(stage.args_recv_info[microbatch])
        if not stage.is_last or stage.is_first:
            return
        if microbatch in self.losses:
            self.losses[microbatch] = self.losses[microbatch].detach()
        if microbatch in self.outputs:
            self.outputs[microbatch] = tree_map_only(
                torch.Tensor, torch.Tensor.detach, self.outputs[microbatch]
            )

    def _end_forward(self, output: Any, microbatch: int) -> None:
        if self._keep_outputs:
            self.outputs[microbatch] = output
        if self._compute_loss is not None:
            target = self._targets[microbatch] if self._targets is not None else None
            self.losses[microbatch] = self._compute_loss(output, target, self._loss_kwargs)

    def _for_the_next(self, stage: _PipelineStageBase, output: Any) -> list[torch.Tensor]:
        outputs = _normalize_model_output_as_tuple(output)
        for place, each in enumerate(outputs):
            if not isinstance(each, torch.Tensor):
                raise TypeError(
                    f"stage {stage.stage_index}: output {place} is a {type(each).__name__}; a stage gives the next "
                    "one a Tensor, or a tuple or list of Tensors"
                )
        sent = self._sent[stage.stage_index]
        if sent and max(sent) >= len(outputs):
            raise ValueError(
                f"stage {stage.stage_index}: has {len(outputs)} outputs, had {max(sent) + 1} when its shapes were "
                "found out"
            )
        return [to_local_if_dtensor(outputs[place], detach=True) for place in sent]

    def _file_inputs(self, stage: _PipelineStageBase, microbatch: int, capsules: list[Any]) -> None:
        dtypes = [info.tensor_meta.dtype for info in stage.args_recv_info[microbatch]]
        tensors = take(capsules, dtypes, stage.device, maybe_absent=False)
        stage.set_local_fwd_input(tuple(tensors), microbatch)

    def _file_gradients(self, stage: _PipelineStageBase, microbatch: int, capsules: list[Any]) -> None:
        """As torch, takes zeros where the next stage has no gradient for what needs one."""
        infos = stage.grad_recv_info[microbatch]
        outputs = stage.fwd_cache[microbatch][0]
        places = self._sent[stage.stage_index]
        metas = [infos[place].tensor_meta for place in places]
        taken = take(capsules, [meta.dtype if meta is not None else None for meta in metas], stage.device)
        gradients: list[torch.Tensor | None] = [None] * len(infos)
        for place, meta, gradient in zip(places, metas, taken):
            if gradient is None and meta is not None:
                gradient = torch.zeros_like(to_local_if_dtensor(outputs[place], detach=True))
            gradients[place] = gradient
        stage.set_local_bwd_input(tuple(gradients), microbatch)
