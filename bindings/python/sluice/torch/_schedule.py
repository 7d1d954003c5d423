"""`ReadinessSchedule`: a schedule for torch's pipeline stages that runs whatever is ready."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.pipelining.schedules import (
    PipelineScheduleMulti,
    PipelineScheduleSingle,
    _PipelineSchedule,
)
from torch.distributed.pipelining.stage import _PipelineStageBase

from sluice._engine import ProcessRank
from sluice._process.meeting import host_of_rank_zero
from sluice.torch._arguments import Arguments, check_given, check_split, refuse_ragged
from sluice.torch._backward import SplitChoice
from sluice.torch._hint import HintArgument
from sluice.torch._initialization import drop_buffers, metadata_through, spread, vote
from sluice.torch._meeting import Meeting, MeetingPlace
from sluice.torch._microbatches import Microbatches
from sluice.torch._replicas import gathered, reduce_gradients, refuse_unfit, unsynchronized


class _Readiness(_PipelineSchedule):
    """What both classes share: torch's schedule state, and this.

    An exception on one rank is raised on all of them, once each; the ranks then meet anew. After the death of
    a rank there is nobody to meet.
    """

    _n_microbatches: int
    _run: ProcessRank | None = None
    _meeting: Meeting
    _over: str | None = None
    _stepping = False
    _given: tuple[Any, Any, Any] | None = None

    def _set_up(self, stages: Sequence[_PipelineStageBase], arguments: Arguments) -> None:
        first = stages[0]
        self._place = MeetingPlace(getattr(first, "group", None), arguments.join_timeout)
        try:
            self._plan = arguments.plan(stages, self._n_microbatches)
            refuse_unfit(stages, splits=self._plan.ranking.splits)
        except Exception as error:
            self._place.refuse(_text(error))
            raise
        self._splits = {stage.stage_index: SplitChoice(stage, self._plan.ranking.splits) for stage in stages}
        self._prepared: dict[int, Any] = {}

    def _own_stages(self) -> list[_PipelineStageBase]:
        raise NotImplementedError

    def _initialize(self, args: Any, kwargs: Any, target: Any, loss_kwargs: Any) -> None:
        raise NotImplementedError

    def _forget_initialization(self) -> None:
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
        """As torch's `step`; or with the microbatches themselves as `arg_mbs`, `kwarg_mbs`, `target_mbs`.

        Raises what a task raised on this rank, Aborted naming the rank at fault on the others, StallError if
        nothing happens on any rank for `stall_timeout`; ValueError naming the argument for microbatches that
        differ in shape. After that all ranks may step again, but for a rank that has died; gradients hold
        some of the step's. RuntimeError if called within a step of this schedule, by a module or the loss.
        """
        self._refuse_within_step("step")
        if self._over is not None:
            raise RuntimeError(f"this schedule cannot be used any more: {self._over}")
        self._stepping = True
        try:
            if arg_mbs is not None or kwarg_mbs is not None or target_mbs is not None:
                if args or kwargs or target is not None:
                    raise TypeError(
                        "step: give either whole batches or arg_mbs, kwarg_mbs and target_mbs, not both"
                    )
                self._given = (arg_mbs, kwarg_mbs, target_mbs)
            return super().step(
                *args,
                target=target,
                losses=losses,
                return_outputs=return_outputs,
                loss_kwargs=loss_kwargs,
                **kwargs,
            )
        except BaseException as error:
            self._leave(_text(error))
            raise
        finally:
            self._stepping = False
            self._given = None

    def _step_microbatches(
        self,
        arg_mbs: list[Any] | None = None,
        kwarg_mbs: list[Any] | None = None,
        target_mbs: list[Any] | None = None,
        losses: list[torch.Tensor] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if self._given is not None:
            arg_mbs, kwarg_mbs, target_mbs = self._given
            check_given(arg_mbs, kwarg_mbs)
        else:
            check_split(arg_mbs or (), self._n_microbatches)
        arg_mbs, kwarg_mbs = self._check_inputs(arg_mbs, kwarg_mbs, target_mbs, losses)
        refuse_ragged(arg_mbs, kwarg_mbs, target_mbs)
        run = self._join()
        self._prepare(
            arg_mbs[0], kwarg_mbs[0], target_mbs[0] if target_mbs is not None else None, loss_kwargs
        )
        stages = self._own_stages()
        has_loss = self._loss_fn is not None and (self._has_backward or target_mbs is not None)
        work = Microbatches(
            stages,
            self._splits,
            arg_mbs,
            kwarg_mbs,
            target_mbs,
            self._compute_loss if has_loss else None,
            loss_kwargs,
            return_outputs,
        )
        with gathered(stages):
            self.last_step = run.step(work, forward_only=not self._has_backward)
            if self._has_backward:
                reduce_gradients(stages, self._n_microbatches if self.scale_grads else 1)
        self._finish(stages, work, losses)

    def _finish(
        self, stages: list[_PipelineStageBase], work: Microbatches, losses: list[torch.Tensor] | None
    ) -> None:
        for stage in stages:
            if stage.is_last:
                stage.output_chunks[:] = [work.outputs[m] for m in sorted(work.outputs)]
        self._internal_losses[:] = [work.losses[m] for m in sorted(work.losses)]
        self._update_losses(stages, losses)

    def _join(self) -> ProcessRank:
        if self._run is None:
            self._meeting = self._place.meeting()
            gather = self._meeting.all_gather
            self._run = ProcessRank(
                self._meeting.rank,
                self._meeting.ranks,
                host_of_rank_zero(gather),
                gather,
                self._plan.pipeline,
                self._plan.ranking.hint(),
                limit=self._plan.limit,
                configuration=[
                    *self._plan.configuration,
                    ("loss_fn", "None" if self._loss_fn is None else "given"),
                ],
                **self._plan.engine_options,
            )
            self._meeting.failure = functools.partial(_cause, self._run)
        return self._run

    def _prepare(self, args: Any, kwargs: Any, target: Any, loss_kwargs: Any) -> None:
        """torch's initialisation, for one microbatch, as what is received needs no memory ahead."""
        stages = self._own_stages()
        microbatches, self._n_microbatches = self._n_microbatches, 1
        try:
            with metadata_through(self._meeting, stages), unsynchronized(stages):
                self._initialize(args, kwargs, target, loss_kwargs)
        finally:
            self._n_microbatches = microbatches
        for stage in stages:
            if self._prepared.get(stage.stage_index) is not stage.args_recv_info[0]:
                spread(stage, microbatches)
                self._prepared[stage.stage_index] = stage.args_recv_info[0]

    def _warmup_p2p(self, stages: list[_PipelineStageBase], has_backward: bool, p2p_done: bool) -> None:
        vote(stages, has_backward, self._meeting)

    def _leave(self, cause: str) -> None:
        """Ends the run on all ranks, and forgets what is left of the step."""
        run, self._run = self._run, None
        if run is None:
            self._place.leave(cause)
        else:
            run.give_up(cause)
            kind, _, known = run.failure() or ("failed", 0, cause)
            if kind != "failed":
                self._over = known
            run.close()
            self._place.leave(None)
        self._forget_initialization()
        self._internal_losses.clear()
        for stage in self._own_stages():
            stage.clear_runtime_states()
            for state in (stage.bwd_cache, stage.backward_state, stage.dw_runner):
                state.clear()
            for infos in (*stage.args_recv_info.values(), *stage.grad_recv_info.values()):
                drop_buffers(infos)

    def close(self) -> None:
        """Leaves the other ranks; who steps on is told. Done by itself when the schedule is deleted."""
        self._refuse_within_step("close")
        if self._run is not None:
            self._run.give_up("closed its schedule")
            self._run.close()
            self._run = None
        self._over = "it was closed"

    def _refuse_within_step(self, call: str) -> None:
        if self._stepping:
            raise RuntimeError(f"{call}: called within a step of the same schedule")


class ReadinessSchedule(_Readiness, PipelineScheduleMulti):
    """Runs one or more stages a rank readiness-first.

    stages: a `PipelineStage`, or the list of this rank's, in ascending order.
    n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads,
    backward_requires_autograd: as torch's multi-stage schedules take them.
    hint: ranks what is ready: 'bf', 'fb', 'bfw', 'b-priority', 'f-priority', 'pace', a `sluice.Hint`; or a
    `sluice.Schedule` or the path of a CSV file as torch's schedules write it, whose order then is a ranking:
    nothing waits for its turn in it.
    limit: most microbatches in flight on a rank, so most received activations; with several stages a rank,
    each may have one more.
    placement: 'loop' (stage s on rank s mod ranks), 'v', or the rank of each stage.
    delays: adds to the latency of messages, as `sluice.simulate` takes them; seed: of their draws. For
    experiments.
    stall_timeout: seconds without progress on any rank after which all raise StallError, and the schedule is
    of no use any more. A rank that is late with its step, for it writes a checkpoint or compiles, lets the
    others wait.
    join_timeout: seconds that a rank waits, at the first step and where steps and evaluations alternate, for
    the others; it then raises TimeoutError naming those that did not come.

    Gradients are accumulated in the order of microbatches, whatever order they run in. Where a stage's
    backward cannot be split, a hint that splits warns once and runs it whole.
    Raises ValueError or TypeError naming the argument.
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
        hint: HintArgument = "bf",
        limit: int = 32,
        placement: str | Sequence[int] = "loop",
        delays: str = "j0",
        seed: int = 0,
        stall_timeout: float = 600.0,
        join_timeout: float = 300.0,
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
        self._set_up(own, Arguments(hint, limit, placement, delays, seed, stall_timeout, join_timeout))
        self.stage_index_to_group_rank = self._plan.placement
        for stage in own:
            stage.stage_index_to_group_rank = self._plan.placement

    def _own_stages(self) -> list[_PipelineStageBase]:
        return self._stages

    def _initialize(self, args: Any, kwargs: Any, target: Any, loss_kwargs: Any) -> None:
        self._initialize_stages(args, kwargs, target, loss_kwargs)

    def _forget_initialization(self) -> None:
        self._stages_forward_initialized = self._stages_backward_initialized = False


class ReadinessScheduleSingle(_Readiness, PipelineScheduleSingle):
    """`ReadinessSchedule` for one stage a rank, for trainers that test for torch's single-stage class."""

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
        hint: HintArgument = "bf",
        limit: int = 32,
        delays: str = "j0",
        seed: int = 0,
        stall_timeout: float = 600.0,
        join_timeout: float = 300.0,
    ) -> None:
        super().__init__(
            stage, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        self._set_up([stage], Arguments(hint, limit, "loop", delays, seed, stall_timeout, join_timeout))

    def _own_stages(self) -> list[_PipelineStageBase]:
        return [self._stage]

    def _initialize(self, args: Any, kwargs: Any, target: Any, loss_kwargs: Any) -> None:
        self._initialize_stage(args, kwargs, target, loss_kwargs)

    def _forget_initialization(self) -> None:
        self._stage_forward_initialized = self._stage_backward_initialized = False


def _cause(run: ProcessRank) -> str | None:
    failure = run.failure()
    return None if failure is None else failure[2]


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
