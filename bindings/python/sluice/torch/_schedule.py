"""`ReadinessSchedule`: a schedule for torch's pipeline stages that runs whatever is ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle
from torch.distributed.pipelining.stage import _PipelineStageBase

from sluice import Hint, Pipeline, Schedule
from sluice._engine import ProcessRank
from sluice.torch._meeting import all_gather, host_of_rank_zero
from sluice.torch._microbatches import Microbatches, drop_buffers

_PLACEMENTS = ("loop", "v")
_WHOLE_BACKWARDS = ("bf", "fb", "b-priority", "f-priority")



class _Readiness:
    """What both classes share: `_stages`, torch's schedule state, and this."""

    _run: ProcessRank | None = None
    _broken: str | None = None

    def _set_up(
        self,
        stages: Sequence[_PipelineStageBase],
        hint: str | Hint | Schedule,
        limit: int,
        placement: str,
        delays: str,
        seed: int,
        stall_timeout: float,
    ) -> None:
        if placement not in _PLACEMENTS:
            raise ValueError(f"placement: must be one of {', '.join(_PLACEMENTS)}, not {placement!r}")
        first = stages[0]
        ranks, chunks = first.group_size, first.num_stages
        if chunks % ranks != 0:
            raise ValueError(f"stages: {chunks} stages cannot be divided among {ranks} ranks")
        mapping = generate_stage_to_rank_mapping(ranks, chunks, style=placement)
        mine = [stage.stage_index for stage in stages]
        expected = [chunk for chunk in range(chunks) if mapping[chunk] == first.group_rank]
        if mine != expected:
            raise ValueError(
                f"stages: rank {first.group_rank} of {ranks} was given stages {mine}; with placement={placement!r} it "
                f"has {expected}"
            )
        self._hint = hint
        self._limit = limit
        self._stage_map = mapping
        self._engine_options = {"delays": delays, "seed": seed, "stall_timeout": stall_timeout}
        self._pipeline = Pipeline(
            [mapping[chunk] for chunk in range(chunks)],
            [(chunk, chunk + 1) for chunk in range(chunks - 1)],
            self._n_microbatches,
            # The first stage has no input whose gradient anybody waits for: it is split only where all are.
            unsplittable=[0] if hint in _WHOLE_BACKWARDS else [],
        )

    def _own_stages(self) -> list[_PipelineStageBase]:
        raise NotImplementedError

    def _initialize(self, args: Any, kwargs: Any, target: Any, loss_kwargs: Any) -> None:
        raise NotImplementedError

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[torch.Tensor] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        arg_mbs: list[Any] | None = None,
        kwarg_mbs: list[Any] | None = None,
        target_mbs: list[Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """As torch's `step`; or with the microbatches themselves as `arg_mbs`, `kwarg_mbs`, `target_mbs`."""
        if arg_mbs is None and kwarg_mbs is None and target_mbs is None:
            return super().step(
                *args,
                target=target,
                losses=losses,
                return_outputs=return_outputs,
                loss_kwargs=loss_kwargs,
                **kwargs,
            )
        if args or kwargs or target is not None:
            raise TypeError("step: give either whole batches or arg_mbs, kwarg_mbs and target_mbs, not both")
        stages = self._own_stages()
        for stage in stages:
            stage.has_backward = self._has_backward
            stage.clear_runtime_states()
        self._step_microbatches(arg_mbs, kwarg_mbs, target_mbs, losses, return_outputs, loss_kwargs=loss_kwargs)
        if not stages[-1].is_last or not return_outputs:
            return None
        return self._merge_outputs(stages[-1].output_chunks)

    def _step_microbatches(
        self,
        arg_mbs: list[Any] | None = None,
        kwarg_mbs: list[Any] | None = None,
        target_mbs: list[Any] | None = None,
        losses: list[torch.Tensor] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if self._broken is not None:
            raise RuntimeError(f"an earlier step failed, and this schedule ended with it: {self._broken}")
        try:
            self._run_step(arg_mbs, kwarg_mbs, target_mbs, losses, return_outputs, loss_kwargs)
        except BaseException as error:
            self._broken = f"{type(error).__name__}: {error}"
            if self._run is not None:
                self._run.give_up(self._broken)
            raise

    def _run_step(
        self,
        arg_mbs: list[Any] | None,
        kwarg_mbs: list[Any] | None,
        target_mbs: list[Any] | None,
        losses: list[torch.Tensor] | None,
        return_outputs: bool,
        loss_kwargs: dict[str, Any] | None,
    ) -> None:
        arg_mbs, kwarg_mbs = self._check_inputs(arg_mbs, kwarg_mbs, target_mbs, losses)
        _refuse_ragged(arg_mbs, kwarg_mbs, target_mbs)
        self._initialize(arg_mbs[0], kwarg_mbs[0], target_mbs[0] if target_mbs is not None else None, loss_kwargs)
        stages = self._own_stages()
        for stage in stages:
            for infos in (*stage.args_recv_info.values(), *getattr(stage, "grad_recv_info", {}).values()):
                drop_buffers(infos)
        work = Microbatches(
            stages,
            arg_mbs,
            kwarg_mbs,
            target_mbs,
            self._compute_loss if self._loss_fn is not None and self._has_loss(target_mbs) else None,
            loss_kwargs,
            return_outputs,
        )
        self.last_step = self._engine().step(work, forward_only=not self._has_backward)
        self._finish(stages, work, losses)

    def _has_loss(self, target_mbs: list[Any] | None) -> bool:
        return self._has_backward or target_mbs is not None

    def _finish(self, stages: list[_PipelineStageBase], work: Microbatches, losses: list[torch.Tensor] | None) -> None:
        for stage in stages:
            if self._has_backward:
                stage.perform_reduce_grad(self._n_microbatches if self.scale_grads else 1)
            if stage.is_last:
                stage.output_chunks[:] = [work.outputs[m] for m in sorted(work.outputs)]
        self._internal_losses[:] = [work.losses[m] for m in sorted(work.losses)]
        self._update_losses(stages, losses)

    def _engine(self) -> ProcessRank:
        if self._run is None:
            first = self._own_stages()[0]
            gather = all_gather(first.group if first.group is not None else torch.distributed.group.WORLD)
            self._run = ProcessRank(
                first.group_rank,
                first.group_size,
                host_of_rank_zero(gather),
                gather,
                self._pipeline,
                self._hint,
                limit=self._limit,
                configuration=[
                    ("n_microbatches", str(self._n_microbatches)),
                    ("hint", str(self._hint)),
                    ("limit", str(self._limit)),
                    ("stages", str(self._pipeline.placement)),
                ],
                **self._engine_options,
            )
        return self._run

    def close(self) -> None:
        """Leaves the other ranks in order; all ranks do. Done by itself when the schedule is deleted."""
        if self._run is not None:
            self._run.close()
            self._run = None
            self._broken = "it was closed"


class ReadinessSchedule(_Readiness, PipelineScheduleMulti):
    """Runs one or more stages a rank readiness-first.

    stages: a `PipelineStage`, or the list of this rank's, in ascending order.
    n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads,
    backward_requires_autograd: as torch's multi-stage schedules take them.
    hint: ranks what is ready: 'bf', 'fb', 'bfw', 'b-priority', 'f-priority', a `sluice.Hint`, or a
    `sluice.Schedule`, whose order is then kept.
    limit: most microbatches in flight on a rank.
    placement: 'loop' (stage s on rank s mod ranks) or 'v'.
    delays: adds to the latency of messages, as `sluice.simulate` takes them; for experiments.
    stall_timeout: seconds without progress on any rank after which all raise.
    Raises ValueError naming the argument.
    """

    def __init__(
        self,
        stages: _PipelineStageBase | Sequence[_PipelineStageBase],
        n_microbatches: int,
        loss_fn: Callable[..., torch.Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        use_full_backward: bool | None = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        *,
        hint: str | Hint | Schedule = "bf",
        limit: int = 32,
        placement: str = "loop",
        delays: str = "j0",
        seed: int = 0,
        stall_timeout: float = 60.0,
    ) -> None:
        own = [stages] if isinstance(stages, _PipelineStageBase) else list(stages)
        if not own:
            raise ValueError("stages: a rank needs at least one")
        super().__init__(
            own,
            n_microbatches,
            loss_fn,
            args_chunk_spec,
            kwargs_chunk_spec,
            output_merge_spec,
            use_full_backward,
            scale_grads,
            backward_requires_autograd,
        )
        self._set_up(own, hint, limit, placement, delays, seed, stall_timeout)
        self.stage_index_to_group_rank = self._stage_map
        for stage in own:
            stage.stage_index_to_group_rank = self._stage_map

    def _own_stages(self) -> list[_PipelineStageBase]:
        return self._stages

    def _initialize(self, args: Any, kwargs: Any, target: Any, loss_kwargs: Any) -> None:
        self._initialize_stages(args, kwargs, target, loss_kwargs)


class ReadinessScheduleSingle(_Readiness, PipelineScheduleSingle):
    """`ReadinessSchedule` with one stage a rank, for trainers that test for torch's single-stage base class."""

    def __init__(
        self,
        stage: _PipelineStageBase,
        n_microbatches: int,
        loss_fn: Callable[..., torch.Tensor] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        *,
        hint: str | Hint | Schedule = "bf",
        limit: int = 32,
        delays: str = "j0",
        seed: int = 0,
        stall_timeout: float = 60.0,
    ) -> None:
        super().__init__(
            stage, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        self._set_up([stage], hint, limit, "loop", delays, seed, stall_timeout)

    def _own_stages(self) -> list[_PipelineStageBase]:
        return [self._stage]

    def _initialize(self, args: Any, kwargs: Any, target: Any, loss_kwargs: Any) -> None:
        self._initialize_stage(args, kwargs, target, loss_kwargs)


def _refuse_ragged(*microbatches: list[Any] | None) -> None:
    """torch would fill the smaller ones up with whatever is there."""
    for what, chunks in zip(("args", "kwargs", "target"), microbatches):
        if not chunks:
            continue
        shapes = [_shapes(chunk) for chunk in chunks]
        for microbatch, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise ValueError(
                    f"{what}: microbatch {microbatch} has shapes {shape}, microbatch 0 has {shapes[0]}; the batch must be "
                    f"divisible by n_microbatches={len(chunks)}"
                )


def _shapes(value: Any) -> list[tuple[int, ...]]:
    leaves = torch.utils._pytree.tree_leaves(value)
    return [tuple(leaf.shape) for leaf in leaves if isinstance(leaf, torch.Tensor)]
