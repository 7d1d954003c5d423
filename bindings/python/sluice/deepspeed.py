"""Readiness-first training steps for DeepSpeed's pipeline engine.

>>> engine, *_ = deepspeed.initialize(model=PipelineModule(...), ...)
>>> sluice.deepspeed.install(engine, hint="bf")

After that, `engine.train_batch()` runs whatever is ready. DeepSpeed's own instructions run each pass, reduce
the gradients and step the optimizer; `eval_batch()` is left as it is.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
import torch.distributed as dist
from deepspeed.runtime.pipe.engine import PipelineEngine
from deepspeed.runtime.pipe.schedule import OptimizerStep, ReduceGrads, ReduceTiedGrads, TrainSchedule

from sluice import Hint, Pipeline, Schedule
from sluice._engine import ProcessRank
from sluice._process.arguments import check_limit, whole_backwards
from sluice._process.meeting import all_gather_among, host_of_rank_zero
from sluice._process.tensors import give, take


def install(
    engine: Any,
    *,
    hint: str | Hint | Schedule = "bf",
    limit: int = 32,
    delays: str = "j0",
    seed: int = 0,
    stall_timeout: float = 600.0,
    join_timeout: float = 300.0,
) -> None:
    """Runs the training steps of this engine readiness-first. All ranks of the pipeline call it.

    engine: a `PipelineEngine`, as `deepspeed.initialize` makes it of a `PipelineModule`.
    hint: ranks what is ready: 'bf', 'fb', 'b-priority', 'f-priority' or a `sluice.Hint`; or a
    `sluice.Schedule`, whose order is then kept.
    limit: most microbatches in flight on a rank.
    delays: adds to the latency of messages, as `sluice.simulate` takes them; for experiments.
    stall_timeout: seconds without progress on any rank after which all raise StallError. A rank that is late
    with its step, for it writes a checkpoint, lets the others wait.
    join_timeout: seconds that the first step waits for the other ranks.
    Raises TypeError or ValueError naming the argument, or what of the engine depends on DeepSpeed's order.
    """
    method = whole_backwards(hint, "splits backwards, DeepSpeed runs them whole")
    check_limit(limit)
    _refuse(engine)
    options = {"limit": limit, "delays": delays, "seed": seed, "stall_timeout": stall_timeout}
    engine._exec_schedule = _Readiness(engine, method, options, join_timeout)


def _refuse(engine: Any) -> None:
    if not isinstance(engine, PipelineEngine):
        raise TypeError(f"engine: must be a deepspeed PipelineEngine, not {type(engine).__name__}")
    if type(engine._train_schedule()) is not TrainSchedule:
        raise ValueError(f"engine: {type(engine).__name__} has a training schedule of its own")
    if not engine.is_pipe_parallel:
        raise ValueError("engine: the pipeline has one stage")
    if engine.is_model_parallel:
        raise ValueError("engine: the ranks of a stage would have to agree on the order of passes")
    if engine.has_attention_mask or engine.has_bool_tensors:
        raise ValueError("engine: has_bool_tensors sends the last tensor as another type, without a gradient")


class _Readiness:
    """In place of the engine's `_exec_schedule`."""

    def __init__(self, engine: Any, method: Any, options: dict[str, Any], join_timeout: float) -> None:
        self._engine = engine
        self._method = method
        self._options = options
        self._join_timeout = join_timeout
        self._run: ProcessRank | None = None
        self._joined_for = 0
        self.last_step: dict[str, Any] = {}

    def __call__(self, schedule: Any) -> None:
        engine = self._engine
        if type(schedule) is not TrainSchedule:
            PipelineEngine._exec_schedule(engine, schedule)
            return
        work = _Microbatches(engine, schedule.micro_batches)
        self.last_step = self._joined(schedule.micro_batches).step(work)
        work.end()
        for instruction in (ReduceTiedGrads, ReduceGrads, OptimizerStep):
            MethodType(engine._INSTRUCTION_MAP[instruction], engine)()

    def _joined(self, microbatches: int) -> ProcessRank:
        if self._run is not None and self._joined_for != microbatches:
            self._run.close()
            self._run = None
        if self._run is None:
            engine = self._engine
            gather = all_gather_among(
                dist.get_process_group_ranks(engine.grid.get_pipe_parallel_group()), self._join_timeout
            )
            self._run = ProcessRank(
                engine.stage_id,
                engine.num_stages,
                host_of_rank_zero(gather),
                gather,
                Pipeline(
                    list(range(engine.num_stages)),
                    [(stage, stage + 1) for stage in range(engine.num_stages - 1)],
                    microbatches,
                    unsplittable=list(range(engine.num_stages)),
                ),
                self._method,
                configuration=[
                    ("micro_batches", str(microbatches)),
                    ("hint", str(self._method)),
                    ("limit", str(self._options["limit"])),
                ],
                **self._options,
            )
            self._joined_for = microbatches
        return self._run


class _Microbatches:
    """A step's passes, by DeepSpeed's own instructions.

    The instructions share one loss, one received gradient and one buffer for what is received among all
    microbatches. Here every microbatch has a buffer of its own, and the shared places are filled right before
    each pass.
    """

    def __init__(self, engine: Any, microbatches: int) -> None:
        self._engine = engine
        self._buffers = engine.pipe_buffers
        self._loaded = 0
        self._losses: dict[int, Any] = {}
        self._outputs: dict[int, Any] = {}
        self._totals: dict[int, Any] = {}
        engine._reserve_pipe_buffers(microbatches)
        engine.fwd_outputs = []

    def forward(self, chunk: int, microbatch: int, inputs: list[list[Any]]) -> list[list[Any]]:
        engine = self._engine
        if engine.is_first_stage() or engine.is_last_stage():
            self._load_up_to(microbatch)
        if not engine.is_first_stage():
            received = take(inputs[0], [None] * len(inputs[0]), engine.device, maybe_absent=False)
            for tensor in received:
                tensor.requires_grad_(tensor.is_floating_point())
            self._buffers["inputs"][microbatch] = received[0] if len(received) == 1 else tuple(received)
        engine.total_loss = None
        engine._exec_forward_pass(microbatch)
        if engine.is_last_stage():
            self._losses[microbatch] = engine.loss
            self._outputs[microbatch] = engine.fwd_outputs.pop()
            self._totals[microbatch] = engine.total_loss
            return []
        return [give(self._sent(self._buffers["outputs"][microbatch]))]

    def backward(
        self, chunk: int, microbatch: int, output_grads: list[list[Any]], whole: bool
    ) -> list[list[Any]]:
        engine = self._engine
        if engine.is_last_stage():
            engine.loss = self._losses.pop(microbatch)
        else:
            self._file_gradients(microbatch, output_grads[0])
        engine._exec_backward_pass(microbatch)
        inputs = self._buffers["inputs"][microbatch]
        for buffers in self._buffers.values():
            buffers[microbatch] = None
        if engine.is_first_stage():
            return []
        return [give(each.grad for each in (inputs if isinstance(inputs, tuple) else (inputs,)))]

    def end(self) -> None:
        """What the passes added up is added up again, in the order of microbatches."""
        engine = self._engine
        engine.grad_layer = None
        engine.fwd_outputs = [self._outputs[microbatch] for microbatch in sorted(self._outputs)]
        total = None
        for microbatch in sorted(self._totals):
            own = self._totals[microbatch]
            if total is None:
                total = own
            elif isinstance(own, torch.Tensor):
                total = total + own
            else:
                total = [before + each for before, each in zip(total, own)]
        engine.total_loss = total

    def _load_up_to(self, microbatch: int) -> None:
        """The iterator gives microbatches in order."""
        while self._loaded <= microbatch:
            self._engine._exec_load_micro_batch(self._loaded)
            self._loaded += 1

    def _sent(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        if isinstance(outputs, torch.Tensor):
            return (outputs,)
        if not isinstance(outputs, tuple) or len(outputs) < 2:
            raise TypeError(
                f"stage {self._engine.stage_id}: gives the next one a {type(outputs).__name__}; a tensor is "
                "needed, or a tuple of several"
            )
        return outputs

    def _file_gradients(self, microbatch: int, capsules: list[Any]) -> None:
        engine = self._engine
        gradients = take(capsules, [None] * len(capsules), engine.device)
        outputs = self._buffers["outputs"][microbatch]
        if isinstance(outputs, torch.Tensor):
            engine.grad_layer = gradients[0]
        else:
            engine.grad_layer = [
                gradient for gradient, output in zip(gradients, outputs) if output.is_floating_point()
            ]
