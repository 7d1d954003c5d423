"""Checks of what a schedule is given: when it is made, and at each step."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping
from torch.distributed.pipelining.stage import _PipelineStageBase

from sluice import Pipeline
from sluice.torch._hint import HintArgument, Ranking

_PLACEMENTS = ("loop", "v")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the ranks of a pipeline run by. They do not start where they differ in the configuration."""

    pipeline: Pipeline
    ranking: Ranking
    placement: dict[int, int]
    limit: int
    engine_options: dict[str, Any]
    configuration: list[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The arguments of a schedule that torch's schedules do not have."""

    hint: HintArgument
    limit: int
    placement: str | Sequence[int]
    delays: str
    seed: int
    stall_timeout: float
    join_timeout: float

    def plan(self, stages: Sequence[_PipelineStageBase], microbatches: int) -> Plan:
        """Raises ValueError or TypeError naming the argument, and the rank where it is about its stages."""
        if isinstance(self.placement, str) and self.placement not in _PLACEMENTS:
            raise ValueError(
                f"placement: must be one of {', '.join(_PLACEMENTS)}, not {self.placement!r}; or the rank of each "
                "stage"
            )
        _check_whole("n_microbatches", microbatches, 1)
        _check_whole("limit", self.limit, len(stages))
        for name in ("stall_timeout", "join_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: must be positive, not {getattr(self, name)}")
        placement = _placement(stages, self.placement)
        ranking = Ranking(self.hint, placement, microbatches)
        chunks = len(placement)
        pipeline = Pipeline(
            [placement[chunk] for chunk in range(chunks)],
            [(chunk, chunk + 1) for chunk in range(chunks - 1)],
            microbatches,
            # The first stage has no input whose gradient anybody waits for: it is split only where all are.
            unsplittable=[] if ranking.splits else [0],
        )
        configuration = {
            "n_microbatches": microbatches,
            "num_stages": chunks,
            "placement": list(placement.values()),
            "hint": ranking,
            "limit": self.limit,
            "delays": self.delays,
            "seed": self.seed,
            "stall_timeout": self.stall_timeout,
        }
        return Plan(
            pipeline,
            ranking,
            placement,
            self.limit,
            {"delays": self.delays, "seed": self.seed, "stall_timeout": self.stall_timeout},
            [(name, str(value)) for name, value in configuration.items()],
        )


def check_given(arg_mbs: Any, kwarg_mbs: Any) -> None:
    """Of microbatches that the caller made. Raises TypeError naming one that is not of arguments."""
    for name, given, kind in (("arg_mbs", arg_mbs, tuple), ("kwarg_mbs", kwarg_mbs, dict)):
        for microbatch, each in enumerate(given or ()):
            if not isinstance(each, kind):
                raise TypeError(
                    f"{name}: microbatch {microbatch} is a {type(each).__name__}, must be a {kind.__name__}"
                )


def check_split(args: Sequence[Any], microbatches: int) -> None:
    """Of a batch that torch has split. Raises ValueError for one too small."""
    if len(args) != microbatches:
        raise ValueError(
            f"args: the batch makes {len(args)} microbatches only; it must be divisible by "
            f"n_microbatches={microbatches}"
        )


def refuse_ragged(*microbatches: list[Any] | None) -> None:
    """torch would fill the smaller ones up with whatever is there."""
    for what, chunks in zip(("args", "kwargs", "target"), microbatches):
        if not chunks:
            continue
        shapes = [_shapes(chunk) for chunk in chunks]
        for microbatch, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise ValueError(
                    f"{what}: microbatch {microbatch} has shapes {shape}, microbatch 0 has {shapes[0]}; the batch "
                    f"must be divisible by n_microbatches={len(chunks)}"
                )


def _placement(stages: Sequence[_PipelineStageBase], style: str | Sequence[int]) -> dict[int, int]:
    first = stages[0]
    ranks, chunks = first.group_size, first.num_stages
    if not isinstance(style, str):
        placement = dict(enumerate(style))
        if len(placement) != chunks or set(placement.values()) != set(range(ranks)):
            raise ValueError(
                f"placement: must have the rank of each of the {chunks} stages, and each of the {ranks} ranks, "
                f"not {list(style)}"
            )
    elif chunks % ranks != 0:
        raise ValueError(f"stages: {chunks} stages cannot be divided among {ranks} ranks")
    else:
        placement = generate_stage_to_rank_mapping(ranks, chunks, style=style)
    mine = [stage.stage_index for stage in stages]
    expected = [chunk for chunk in range(chunks) if placement[chunk] == first.group_rank]
    if mine != expected:
        raise ValueError(
            f"stages: rank {first.group_rank} of {ranks} was given stages {mine}; with placement={style!r} it "
            f"has {expected}"
        )
    return placement


def _check_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}: must be an int, not {value!r}")
    if value < least:
        raise ValueError(f"{name}: must be at least {least}, not {value}")


def _shapes(value: Any) -> list[tuple[int, ...]]:
    leaves = torch.utils._pytree.tree_leaves(value)
    return [tuple(leaf.shape) for leaf in leaves if isinstance(leaf, torch.Tensor)]
