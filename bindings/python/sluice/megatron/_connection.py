"""This rank among the others, and the pipelines that they have run together."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from sluice import ConfigError, Hint, Pipeline, Schedule
from sluice._engine import ProcessRank
from sluice._process.meeting import all_gather_among, host_of_rank_zero
from sluice.megatron._groups import Grid

_NO_MICROBATCHES_KNOWN = 1


@dataclass(frozen=True)
class Options:
    """How a pipeline is run. Times in seconds."""

    hint: Hint | Schedule
    limit: int
    delays: str
    seed: int
    stall_timeout: float
    join_timeout: float


class Connection:
    """Made by the first call, and used by those after it until one fails.

    Each number of microbatches has a pipeline of its own.
    """

    def __init__(self, grid: Grid, stages: int, options: Options) -> None:
        self._grid = grid
        self._stages = stages
        self._options = options
        self._rank: ProcessRank | None = None
        self._numbers: dict[tuple[int, int], int] = {}

    def run(self, work: Any, microbatches: int, chunks: int, forward_only: bool) -> dict[str, Any]:
        """One step, after all ranks have said that they mean the same. Raises as `ProcessRank.step` does."""
        same = [
            ("num_microbatches", str(microbatches)),
            ("model chunks", str(chunks)),
            ("forward_only", str(forward_only)),
        ]
        shape = (microbatches, chunks)
        if self._rank is None:
            self._rank = self._join(shape, same)
            self._numbers[shape] = 0
        else:
            self._rank.require_same(same)
        if shape not in self._numbers:
            self._numbers[shape] = self._rank.add(
                self._pipeline(*shape), self._options.hint, limit=self._options.limit
            )
        return self._rank.step(work, forward_only=forward_only, pipeline=self._numbers[shape])

    def refuse(self, cause: str) -> None:
        """This rank will not run the step: the others raise, naming it and the cause."""
        if self._rank is not None:
            self.give_up(cause)
            return
        with contextlib.suppress(ConfigError):
            self._rank = self._join((_NO_MICROBATCHES_KNOWN, 1), [("arguments", cause)])

    def give_up(self, cause: str) -> None:
        """The step has failed: unless another rank's has, the others raise, naming this one and the cause."""
        if self._rank is not None:
            self._rank.give_up(cause)

    def close(self) -> None:
        if self._rank is not None:
            self._rank.close()
        self._rank = None
        self._numbers = {}

    def _join(self, shape: tuple[int, int], same: list[tuple[str, str]]) -> ProcessRank:
        options = self._options
        gather = all_gather_among(self._grid.ranks, options.join_timeout)
        return ProcessRank(
            self._grid.place,
            len(self._grid.ranks),
            host_of_rank_zero(gather),
            gather,
            self._pipeline(*shape),
            options.hint,
            limit=options.limit,
            delays=options.delays,
            seed=options.seed,
            stall_timeout=options.stall_timeout,
            group=self._grid.members,
            configuration=[("hint", str(options.hint)), ("limit", str(options.limit)), *same],
        )

    def _pipeline(self, microbatches: int, chunks_a_rank: int) -> Pipeline:
        chunks = self._stages * chunks_a_rank
        return Pipeline(
            [chunk % self._stages for chunk in range(chunks)],
            [(chunk, chunk + 1) for chunk in range(chunks - 1)],
            microbatches,
            # Megatron's layers compute both gradients in one pass.
            unsplittable=list(range(chunks)),
        )
