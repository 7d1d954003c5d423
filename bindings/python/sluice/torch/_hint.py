"""What a schedule's `hint` may be, and what the engine is given for it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Union

from sluice import Error, Hint, Pipeline, Schedule
from sluice._process.arguments import SPLITTING_HINTS

HintArgument = Union[str, "os.PathLike[str]", Hint, Schedule]

_FILES = ".csv"


class Ranking:
    """How ready tasks are ranked, for a pipeline of chunks placed on ranks.

    A schedule, or a file in the CSV notation of torch's schedules, ranks as `sluice.Hint.from_schedule` does: of
    what is ready, what it has first runs first; nothing waits for what is not ready.
    """

    def __init__(self, hint: HintArgument, placement: Mapping[int, int], microbatches: int) -> None:
        hint = _loaded(hint)
        self._schedule = hint.schedule if isinstance(hint, Hint) else hint
        self._name = hint.name
        if self._schedule is not None:
            _check_fit(self._schedule, [placement[chunk] for chunk in range(len(placement))], microbatches)

    @property
    def splits(self) -> bool:
        """Whether it ranks weight gradients apart from their backwards."""
        if self._schedule is None:
            return self._name in SPLITTING_HINTS
        orders = map(self._schedule.order, range(self._schedule.stages))
        return any(task.pass_ == "W" for order in orders for task in order)

    def hint(self) -> Hint:
        """For the engine."""
        return Hint(self._name) if self._schedule is None else Hint.from_schedule(self._schedule)

    def __str__(self) -> str:
        """The same for the same ranking, also where its file has another name."""
        if self._schedule is None:
            return self._name
        return f"schedule {hashlib.sha256(self._schedule.to_csv().encode()).hexdigest()[:12]}"


def _loaded(hint: HintArgument) -> Hint | Schedule:
    if isinstance(hint, (Hint, Schedule)):
        return hint
    if isinstance(hint, os.PathLike) or (isinstance(hint, str) and hint.lower().endswith(_FILES)):
        try:
            return Schedule.load(hint)
        except Error as error:
            raise ValueError(f"hint: {error}") from error
    if not isinstance(hint, str):
        raise TypeError(
            f"hint: must be one of {', '.join(Hint.names())}, the path of a schedule's CSV file, a sluice.Hint "
            f"or a sluice.Schedule, not a {type(hint).__name__}"
        )
    return Hint(hint)


def _check_fit(schedule: Schedule, placement: list[int], microbatches: int) -> None:
    made_for: Pipeline = schedule.pipeline
    if made_for.microbatches != microbatches:
        raise ValueError(
            f"hint: schedule {schedule.name} has {made_for.microbatches} microbatches, n_microbatches is "
            f"{microbatches}"
        )
    if made_for.placement != placement:
        raise ValueError(
            f"hint: schedule {schedule.name} has its stages on ranks {made_for.placement}, here they are on "
            f"{placement}"
        )
    try:
        schedule.validate()
    except Error as error:
        raise ValueError(f"hint: {error}") from error
