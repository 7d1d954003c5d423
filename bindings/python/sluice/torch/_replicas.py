"""Stages with data-parallel replicas: one order of collectives, in whatever order replicas run their tasks.

What torch's schedules reduce or gather in the middle of a step would be matched with something else of a
replica that is elsewhere in its step. So parameters are gathered before the first task, and gradients reduced
behind the last one, stage by stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.pipelining.schedules import _check_torch_compile_compatibility
from torch.distributed.pipelining.stage import _PipelineStageBase
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel


def refuse_unfit(stages: Sequence[_PipelineStageBase], splits: bool) -> None:
    """Raises where a stage's module has collectives whose order would follow the order of tasks.

    splits: whether backwards are split, which torch cannot do with compiled modules.
    Raises RuntimeError for a compiled stage with a split backward, ValueError for the rest, naming stage and
    module.
    """
    if splits:
        _check_torch_compile_compatibility(list(stages), "A hint that splits backwards")
    for stage in stages:
        if isinstance(stage.submod, nn.Module):
            _refuse_inner_replicas(stage)
            _refuse_tensor_parallel(stage)


@contextmanager
def unsynchronized(stages: Sequence[_PipelineStageBase]) -> Iterator[None]:
    """For runs of modules that are no microbatch: DDP would reduce in the next backward, whichever it is."""
    with ExitStack() as wrapped:
        for stage in stages:
            if isinstance(stage.submod, DistributedDataParallel):
                wrapped.enter_context(stage.submod.no_sync())
        yield


@contextmanager
def gathered(stages: Sequence[_PipelineStageBase]) -> Iterator[None]:
    """The parameters that `fully_shard` has sharded are whole meanwhile, on all of the rank's stages.

    Sharded again afterwards, and what was asked of `reshard_after_forward` holds again.
    """
    roots = [stage.submod for stage in stages if isinstance(stage.submod, FSDPModule)]
    for root in roots:
        root._get_fsdp_state()._lazy_init()
    modules = [module for root in roots for module in root.modules() if isinstance(module, FSDPModule)]
    handles = [module.unshard(async_op=True) for module in modules]
    groups = [group for module in modules for group in module._get_fsdp_state()._fsdp_param_groups]
    asked = [group.post_forward_mesh_info for group in groups]
    for group in groups:
        group.post_forward_mesh_info = None
    try:
        for handle in handles:
            if handle is not None:
                handle.wait()
        yield
    finally:
        for group, mesh in zip(groups, asked):
            group.post_forward_mesh_info = mesh
        for module in modules:
            module.reshard()


def sums_of(stage: _PipelineStageBase) -> list[tuple[Any, str]]:
    """Objects and attributes where the gradients of a stage's parameters are summed: None, or a tensor."""
    sums: list[tuple[Any, str]] = [(parameter, "grad") for parameter in stage.submod.parameters()]
    return sums + [
        (parameter, "unsharded_accumulated_grad") for parameter in _sharded_parameters(stage.submod)
    ]


def settle(stage: _PipelineStageBase) -> None:
    """Behind a half of a backward, whose end `fully_shard` does not see: it may sum in another type."""
    for parameter in _sharded_parameters(stage.submod):
        parameter.accumulate_unsharded_grad_if_needed()
        parameter.to_accumulated_grad_if_needed()


def reduce_gradients(stages: Sequence[_PipelineStageBase], factor: int) -> None:
    """Reduces what the step has accumulated among replicas, then divides it by `factor`; stage by stage."""
    for stage in stages:
        if isinstance(stage.submod, DistributedDataParallel):
            _reduce_with_ddp(stage.submod)
        stage.perform_reduce_grad(factor)


def _reduce_with_ddp(module: DistributedDataParallel) -> None:
    """Its reducer acts in a backward only, so in one that adds zero to each gradient."""
    parameters = [each for each in module.module.parameters() if each.requires_grad and each.grad is not None]
    if not parameters:
        return
    nothing = _Nothing.apply(*parameters)  # type: ignore[no-untyped-call]
    module.reducer.prepare_for_backward([nothing])
    nothing.backward()


class _Nothing(torch.autograd.Function):
    """A loss that depends on everything and changes nothing."""

    @staticmethod
    def forward(ctx: Any, *parameters: torch.Tensor) -> torch.Tensor:
        ctx.shapes = [(each.shape, each.dtype, each.device) for each in parameters]
        return torch.zeros((), device=parameters[0].device)

    @staticmethod
    def backward(ctx: Any, _: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(
            torch.zeros((), dtype=dtype, device=device).expand(shape) for shape, dtype, device in ctx.shapes
        )


def _refuse_inner_replicas(stage: _PipelineStageBase) -> None:
    sharded = isinstance(stage.submod, FSDPModule)
    for name, module in stage.submod.named_modules():
        where = f"stages: stage {stage.stage_index}, module {name or '(the whole stage)'}:"
        inner = isinstance(module, DistributedDataParallel) and module is not stage.submod
        if inner or (isinstance(module, FSDPModule) and not sharded):
            raise ValueError(
                f"{where} reduces gradients at every backward, in an order that differs between replicas; "
                "give the whole stage to DistributedDataParallel or fully_shard, outermost"
            )
        if isinstance(module, DistributedDataParallel) and module.static_graph:
            raise ValueError(
                f"{where} static_graph=True takes the first backward for all, and there are many a step"
            )
        if isinstance(module, FullyShardedDataParallel):
            raise ValueError(
                f"{where} FullyShardedDataParallel gathers and reduces at every task; use fully_shard"
            )
        if isinstance(module, nn.SyncBatchNorm):
            raise ValueError(
                f"{where} SyncBatchNorm talks to the replicas at every task, and they run different orders"
            )


def _refuse_tensor_parallel(stage: _PipelineStageBase) -> None:
    replicas = {id(each.sharded_param): _replicas_of(each) for each in _sharded_parameters(stage.submod)}
    for name, parameter in stage.submod.named_parameters():
        if not isinstance(parameter, DTensor):
            continue
        ranks = parameter.device_mesh.size() // replicas.get(id(parameter), 1)
        if ranks > 1:
            raise ValueError(
                f"stages: stage {stage.stage_index}, parameter {name} is a DTensor over {ranks} ranks: they "
                "would have to agree on the order of tasks, which this schedule does not do"
            )


def _replicas_of(parameter: Any) -> int:
    mesh = parameter.mesh_info
    return getattr(mesh, "shard_mesh_size", 1) * getattr(mesh, "replicate_mesh_size", 1)


def _sharded_parameters(module: nn.Module) -> Iterator[Any]:
    """What `fully_shard` knows of each parameter."""
    for each in module.modules():
        if isinstance(each, FSDPModule):
            for group in each._get_fsdp_state()._fsdp_param_groups:
                yield from group.fsdp_params
