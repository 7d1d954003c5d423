"""The ranks that run one pipeline, and those that run the same tasks in the same order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.process_groups_config import ProcessGroupCollection

from sluice._process.meeting import all_gather

_NEEDED = ("tp", "cp", "embd", "pos_embd", "pp", "dp_cp")


@dataclass(frozen=True)
class Groups:
    """What a call works with: the collection that is handed on, and its groups."""

    collection: Any
    pp: dist.ProcessGroup
    tp: dist.ProcessGroup
    cp: dist.ProcessGroup

    @property
    def stage(self) -> int:
        return dist.get_rank(self.pp)

    @property
    def stages(self) -> int:
        return dist.get_world_size(self.pp)


def groups_of(p2p_communicator: Any, pg_collection: Any) -> Groups:
    """Those given, or Megatron's global ones. Raises ValueError naming the argument."""
    if (p2p_communicator is None) != (pg_collection is None):
        raise ValueError("p2p_communicator, pg_collection: give both or neither")
    if pg_collection is None:
        pg_collection = _global_collection()
        pp = pg_collection.pp
    else:
        if not hasattr(pg_collection, "tp") or not hasattr(pg_collection, "cp"):
            raise ValueError(
                "pg_collection: must have the groups tp and cp; one for several modules is not supported"
            )
        pp = getattr(p2p_communicator, "pp_group", None)
        if pp is None:
            raise ValueError(
                "p2p_communicator: must have a pp_group; one for several modules is not supported"
            )
    return Groups(pg_collection, pp, pg_collection.tp, pg_collection.cp)


def _global_collection() -> Any:
    collection = ProcessGroupCollection()
    collection.tp = parallel_state.get_tensor_model_parallel_group()
    collection.cp = parallel_state.get_context_parallel_group()
    collection.embd = parallel_state.get_embedding_group(check_initialized=False)
    collection.pos_embd = parallel_state.get_position_embedding_group(check_initialized=False)
    collection.pp = parallel_state.get_pipeline_model_parallel_group()
    collection.dp_cp = parallel_state.get_data_parallel_group(
        with_context_parallel=True, partial_data_parallel=False
    )
    return collection


@dataclass(frozen=True)
class Grid:
    """Ranks of the default group: those of each stage that agree on their order, stage by stage.

    The pipelines of one grid are separate; their ranks at one stage run the same tasks in the same order.
    """

    ranks: tuple[int, ...]
    members: int

    @property
    def place(self) -> int:
        return self.ranks.index(dist.get_rank())


def grid_of(groups: Groups, with_replicas: bool, timeout: float) -> Grid:
    """The ranks whose passes communicate with this one's; all of them make the call.

    with_replicas: data-parallel replicas are among them.
    """
    pipelines = {tuple(dist.get_process_group_ranks(groups.pp))}
    among = [groups.tp, groups.cp]
    if with_replicas:
        dp_cp = getattr(groups.collection, "dp_cp", None)
        if dp_cp is None:
            raise ValueError("pg_collection: must have the group dp_cp for replicas to agree on their order")
        among = [groups.tp, dp_cp]
    for group in among:
        told = all_gather(group, timeout)(json.dumps(sorted(pipelines)).encode())
        pipelines = {tuple(each) for theirs in told for each in json.loads(theirs)}
    members = sorted(pipelines)
    return Grid(
        tuple(pipeline[stage] for stage in range(groups.stages) for pipeline in members), len(members)
    )


def device_of(model: torch.nn.Module) -> torch.device:
    """Where the model's parameters are."""
    for parameter in model.parameters():
        return parameter.device
    return (
        torch.device("cuda", torch.cuda.current_device())
        if torch.cuda.is_available()
        else torch.device("cpu")
    )
