"""Several methods on the same draws."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sluice import _engine
from sluice._engine import SimulatedRun

_FIGURES = ("method", "makespan", "speed_up", "bubble", "bound_ratio", "peak_in_flight")


class Comparison(Sequence[SimulatedRun]):
    """Simulated runs of several methods on the same draws, in the order in which they were named.

    A run is taken by its number or by its method's name.
    """

    def __init__(self, runs: Iterable[SimulatedRun]) -> None:
        self._runs = tuple(runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[SimulatedRun]:
        return iter(self._runs)

    def __getitem__(self, key: Any) -> Any:
        """Raises KeyError for a method that was not compared, IndexError for a number out of range."""
        if not isinstance(key, str):
            return self._runs[key]
        for run in self._runs:
            if run.method == key:
                return run
        raise KeyError(f"{key!r} is not one of {', '.join(run.method for run in self._runs)}")

    @property
    def figures(self) -> dict[str, list[Any]]:
        """Columns, a row a method.

        makespan: seconds, the median. speed_up: of the medians, over the first method. bubble: share of
        stages and time without work, 0 to 1. bound_ratio: makespan over its lower bound. peak_in_flight: the
        most (chunk, microbatch) pairs of any stage.
        """
        first = self._runs[0].makespan
        rows = [
            (
                run.method,
                run.makespan,
                first / run.makespan if run.makespan else 1.0,
                run.bubble,
                run.bound_ratio,
                max(run.peak_in_flight),
            )
            for run in self._runs
        ]
        return {name: list(column) for name, column in zip(_FIGURES, zip(*rows))}

    def __repr__(self) -> str:
        return f"<sluice.Comparison of {', '.join(run.method for run in self._runs)}>"

    def _repr_html_(self) -> str:
        figures = self.figures
        rows = [
            f"<tr><td>{html.escape(method)}</td><td>{makespan:.6g} s</td><td>{speed_up:.3f}</td>"
            f"<td>{100 * bubble:.1f} %</td><td>{ratio:.3f}</td><td>{peak}</td></tr>"
            for method, makespan, speed_up, bubble, ratio, peak in zip(*figures.values())
        ]
        head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in figures)
        return f"<table><tr>{head}</tr>{''.join(rows)}</table>{_engine.timelines_figure(list(self._runs))}"


def compare(model: _engine.Model, methods: Iterable[_engine.Method], **settings: Any) -> Comparison:
    """Simulates several methods on the same draws.

    methods: what `simulate` takes for one, each once. The other arguments are those of `simulate`.
    Raises ConfigError naming the argument.
    """
    return Comparison(_engine.compare(model, list(methods), **settings))
