"""The methods that are compared: each runs one rank's share of an iteration on emulated chunks."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import logging
import os
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from emulation import ROWS, WIDTH, Chunk, Device, batch, loss_of
from lateness import Lateness, late_in_deepspeed, late_in_megatron, late_in_torch, replaced
from torch import nn
from torch.distributed import pipelining
from torch.distributed.pipelining import PipelineStage

import sluice
from sluice.torch import ReadinessSchedule


# DeepSpeed looks for devices otherwise.
os.environ.setdefault("DS_ACCELERATOR", "cpu")


@dataclass
class Cell:
    """What all methods of a comparison have in common, on one rank."""

    rank: int
    ranks: int
    microbatches: int
    delays: str
    """As the engine takes them, or 'bare': no delays, and others' messages are not even looked at."""
    seed: int
    task_seconds: float
    """Mean of a forward and a backward of a stage."""
    device: Device
    late: Lateness
    inputs: torch.Tensor = field(init=False)
    targets: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.inputs, self.targets = batch(self.microbatches)

    @property
    def bare(self) -> bool:
        return self.delays == "bare"

    def chunk_indices(self, chunks: int, placement: str = "loop") -> list[int]:
        if placement == "v":
            return [self.rank, 2 * self.ranks - 1 - self.rank]
        return [self.rank + place * self.ranks for place in range(chunks)]


class Method:
    """chunks: on each rank. `ideal` names the simulator's method that gives the time without any overhead."""

    name: str
    chunks = 1
    placement = "loop"
    ideal: str | None = None
    needs: tuple[str, str] | None = None
    """A module, and the package that has it."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.modules = [
            Chunk(index, cell.device) for index in cell.chunk_indices(self.chunks, self.placement)
        ]

    def run(self) -> None:
        raise NotImplementedError

    def late(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def parameters(self) -> list[nn.Parameter]:
        return [parameter for module in self.modules for parameter in module.parameters()]

    def gradients(self) -> dict[int, torch.Tensor]:
        """By chunk."""
        indices = self.cell.chunk_indices(self.chunks, self.placement)
        return {index: parameter.grad.clone() for index, parameter in zip(indices, self.parameters())}

    def close(self) -> None:
        pass


class _Stages(Method):
    """torch's `PipelineStage`s and any schedule for them."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        count = cell.ranks * self.chunks
        self.stages = [
            PipelineStage(module, index, count, torch.device("cpu"))
            for module, index in zip(self.modules, cell.chunk_indices(self.chunks, self.placement))
        ]
        for stage in self.stages:
            for name in ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk"):
                setattr(stage, name, cell.device.timed(getattr(stage, name)))
        self.schedule = self.make_schedule()

    def make_schedule(self) -> Any:
        raise NotImplementedError

    def run(self) -> None:
        first, last = (
            any(stage.is_first for stage in self.stages),
            any(stage.is_last for stage in self.stages),
        )
        self.schedule.step(
            *([self.cell.inputs] if first else []),
            **({"target": self.cell.targets} if last else {}),
            return_outputs=False,
        )


class _Torch(_Stages):
    schedule_class: Any

    def make_schedule(self) -> Any:
        stages = self.stages if self.chunks > 1 else self.stages[0]
        return self.schedule_class(stages, self.cell.microbatches, loss_of)

    def late(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.cell.bare else late_in_torch(self.cell.late)


class TorchGPipe(_Torch):
    name, ideal, schedule_class = "torch GPipe", "gpipe", pipelining.ScheduleGPipe


class Torch1F1B(_Torch):
    name, ideal, schedule_class = "torch 1F1B", "1f1b", pipelining.Schedule1F1B


class TorchInterleaved(_Torch):
    name, ideal, schedule_class = "torch Interleaved1F1B", "interleaved", pipelining.ScheduleInterleaved1F1B
    chunks = 2


class TorchInterleavedZB(_Torch):
    name, schedule_class = "torch InterleavedZeroBubble", pipelining.ScheduleInterleavedZeroBubble
    chunks = 2


class TorchZBV(_Torch):
    name, schedule_class = "torch ZBVZeroBubble", pipelining.ScheduleZBVZeroBubble
    chunks, placement = 2, "v"


class _Ours(_Stages):
    """`ideal` is the hint."""

    def make_schedule(self) -> Any:
        cell = self.cell
        schedule = ReadinessSchedule(
            self.stages,
            cell.microbatches,
            loss_of,
            hint="bf" if self.ideal == "1f1b" else self.ideal,
            delays="j0" if cell.bare else cell.delays,
            seed=cell.seed,
        )
        # All methods' delays go by the same compute time.
        schedule._plan.engine_options["nominal_compute"] = cell.task_seconds / self.chunks
        return schedule

    def close(self) -> None:
        self.schedule.close()


class OursBF(_Ours):
    name, ideal = "sluice bf", "bf"


class OursBFW(_Ours):
    name, ideal = "sluice bfw", "bfw"


class OursBF2(_Ours):
    name, ideal, chunks = "sluice bf, 2 stages a rank", "bf", 2


class OursBFW2(_Ours):
    name, ideal, chunks = "sluice bfw, 2 stages a rank", "bfw", 2


class Ours1F1B(_Ours):
    """A fixed order on our transport: tells apart what choosing gains and what sending otherwise gains."""

    name, ideal = "sluice, fixed 1F1B", "1f1b"

    def make_schedule(self) -> Any:
        schedule = super().make_schedule()
        plan = schedule._plan
        order = sluice.Schedule.one_f_one_b(plan.pipeline)
        # Given as a hint, a schedule ranks what is ready; given to the engine, its order is kept.
        plan.ranking.hint = lambda: order
        return schedule


class Megatron(Method):
    name, ideal, needs = "Megatron-Core 1F1B", "1f1b", ("megatron.core", "megatron-core")

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        from megatron.core import ModelParallelConfig
        from megatron.core.enums import ModelType
        from megatron.core.pipeline_parallel import schedules
        from megatron.core.pipeline_parallel.p2p_communication import P2PCommunicator
        from megatron.core.process_groups_config import ProcessGroupCollection

        _megatron_on_cpu(schedules)
        self._schedules = schedules
        # The library's own batched exchange mixes up the messages of two ranks with two chunks.
        batched = cell.ranks > 2 or self.chunks == 1
        self._config = ModelParallelConfig(
            pipeline_model_parallel_size=cell.ranks,
            virtual_pipeline_model_parallel_size=self.chunks if self.chunks > 1 else None,
            pipeline_dtype=torch.float32,
            batch_p2p_comm=batched,
            overlap_p2p_comm=not batched,
            batch_p2p_sync=False,
        )
        self._config.hidden_size = WIDTH
        for name, value in _MEGATRON_FIELDS.items():
            if not hasattr(self._config, name):
                setattr(self._config, name, value)
        for module in self.modules:
            module.config, module.model_type = self._config, ModelType.encoder_or_decoder
        self._models = [_MegatronChunk(module, self._config) for module in self.modules]
        self._groups = ProcessGroupCollection()
        alone = _group_of_one()
        for name in ("tp", "cp", "dp_cp"):
            setattr(self._groups, name, alone)
        self._groups.pp = dist.group.WORLD
        self._groups.embd = self._groups.pos_embd = None
        self._p2p = P2PCommunicator(dist.group.WORLD, self._config)
        self._function = (
            schedules.forward_backward_pipelining_with_interleaving
            if self.chunks > 1
            else schedules.forward_backward_pipelining_without_interleaving
        )

    def run(self) -> None:
        timed, schedules = self.cell.device.timed, self._schedules
        with replaced(schedules, "forward_step", timed), replaced(schedules, "backward_step", timed):
            self._run()

    def _run(self) -> None:
        cell = self.cell
        numbers: list[Any] = [itertools.count() for _ in self._models]
        self._function(
            forward_step_func=self._step,
            data_iterator=numbers if self.chunks > 1 else numbers[0],
            model=self._models if self.chunks > 1 else self._models[0],
            num_microbatches=cell.microbatches,
            seq_length=ROWS,
            micro_batch_size=1,
            p2p_communicator=self._p2p,
            pg_collection=self._groups,
        )

    def _step(self, numbers: Any, model: Any) -> Any:
        microbatch = next(numbers)
        inputs = model.received
        if inputs is None:
            inputs = self.cell.inputs[microbatch].unsqueeze(1)

        def loss(output: torch.Tensor) -> Any:
            value = loss_of(output, self.cell.targets[microbatch].unsqueeze(1))
            return value, {}

        return model(inputs), loss

    def late(self) -> AbstractContextManager[Any]:
        cell = self.cell
        if cell.bare:
            return nullcontext()
        return late_in_megatron(cell.late, cell.rank, cell.ranks, self.chunks, cell.microbatches)


class MegatronInterleaved(Megatron):
    name, ideal, chunks = "Megatron-Core interleaved", "interleaved", 2


class _MegatronChunk(nn.Module):
    def __init__(self, module: nn.Module, config: Any) -> None:
        super().__init__()
        self.inner, self.config, self.model_type = module, config, module.model_type
        self.received: torch.Tensor | None = None

    def set_input_tensor(self, tensor: Any) -> None:
        self.received = tensor[0] if isinstance(tensor, list) else tensor

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.inner(inputs)


# Fields that its schedules read and that only a transformer's configuration has.
_MEGATRON_FIELDS = {
    "calculate_per_token_loss": False,
    "num_moe_experts": None,
    "mtp_num_layers": None,
    "fine_grained_activation_offloading": False,
    "cuda_graph_impl": "none",
    "cuda_graph_scope": [],
    "mtp_standalone": False,
    "sequence_parallel": False,
    "overlap_moe_expert_parallel_comm": False,
}


class _OnCpu:
    """`torch`, for a module that names the device "cuda"."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def zeros(*args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        return torch.zeros(*args, device="cpu" if device == "cuda" else device, **kwargs)


def _megatron_on_cpu(schedules: Any) -> None:
    torch.cuda.current_device = lambda: torch.device("cpu")  # type: ignore[assignment, return-value]
    torch.cuda.synchronize = lambda device=None: None
    if not isinstance(schedules.torch, _OnCpu):
        schedules.torch = _OnCpu()


def _group_of_one() -> Any:
    own = None
    for rank in range(dist.get_world_size()):
        group = dist.new_group([rank])
        if rank == dist.get_rank():
            own = group
    return own


class DeepSpeed(Method):
    """Its train schedule without the optimizer's step and what leads to it, which pipeline nothing."""

    name, ideal, needs = "DeepSpeed", "1f1b", ("deepspeed.pipe", "deepspeed")

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        import deepspeed
        import deepspeed.comm.torch
        from deepspeed.pipe import PipelineModule
        from deepspeed.runtime.pipe import schedule

        # It would compile collectives that a pipeline alone does not use.
        deepspeed.comm.torch.build_shm_op = lambda: None
        logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
        os.environ["LOCAL_RANK"] = "0"
        deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
        layers = [Chunk(index, cell.device) for index in range(cell.ranks)]
        module = PipelineModule(layers, num_stages=cell.ranks, loss_fn=loss_of, partition_method="uniform")
        self._engine, *_ = deepspeed.initialize(
            model=module,
            config={
                "train_micro_batch_size_per_gpu": 1,
                "gradient_accumulation_steps": cell.microbatches,
                "gradient_clipping": 0.0,
                "steps_per_print": 10**9,
            },
            optimizer=torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.0),
        )
        self.modules = [module]
        skipped = (schedule.ReduceTiedGrads, schedule.ReduceGrads, schedule.OptimizerStep)

        class Passes(schedule.TrainSchedule):
            def steps(self) -> Any:
                for commands in super().steps():
                    yield [command for command in commands if not isinstance(command, skipped)]

        self._schedule = Passes
        instructions = dict(self._engine._INSTRUCTION_MAP)
        for each in (schedule.ForwardPass, schedule.BackwardPass):
            instructions[each] = cell.device.timed(instructions[each])
        self._engine._INSTRUCTION_MAP = instructions

    def run(self) -> None:
        cell, engine = self.cell, self._engine
        microbatches = zip(cell.inputs.split(1), cell.targets.split(1))
        engine.set_dataiterator(microbatches)
        engine.module.train()
        engine.total_loss = None
        engine._compute_loss = True
        engine._exec_schedule(self._schedule(cell.microbatches, cell.ranks, cell.rank))

    def late(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.cell.bare else late_in_deepspeed(self.cell.late, self.cell.rank)


METHODS: list[type[Method]] = [
    TorchGPipe,
    Torch1F1B,
    TorchInterleaved,
    TorchInterleavedZB,
    TorchZBV,
    Megatron,
    MegatronInterleaved,
    DeepSpeed,
    Ours1F1B,
    OursBF,
    OursBFW,
    OursBF2,
    OursBFW2,
]


def missing(method: type[Method]) -> str | None:
    """The package that the method needs and that is not here."""
    if method.needs is None:
        return None
    module, package = method.needs
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return None if importlib.util.find_spec(module) else package
    except ModuleNotFoundError:
        return package


def import_all(methods: Iterable[type[Method]]) -> None:
    """What the methods need, once and before the ranks are forked."""
    for method in methods:
        if method.needs is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(method.needs[0])
