"""Schedules of torch, Megatron-Core and DeepSpeed beside Sluice's, in one run on emulated stages.

    python bindings/python/benchmarks/compare.py --ranks 4 8 --forward 5 20 --json compare.json

Ranks are processes of this machine; tasks sleep, a backward for twice as long as a forward. Within a cell
(ranks, forward, delays) the methods take turns, iteration by iteration, and in an iteration all have the same
late messages: lateness.py says how. The first iterations are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

import lateness
import measuring
import methods
import processes
import report
import torch

import sluice

_DELAYS = ["j0", "j1", "j2", "j3", "tail:0.3,2f"]
_SECONDS_A_RUN = 3600


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--microbatches", type=int, help="default: four a rank")
    parser.add_argument(
        "--forward",
        type=float,
        nargs="+",
        default=[5.0, 20.0],
        help="milliseconds; 0 for what the methods cost alone",
    )
    parser.add_argument(
        "--delays",
        nargs="+",
        default=_DELAYS,
        help="as `sluice compare --jitter` takes them, 2f is twice the forward; 'bare': receives as are",
    )
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--warmups", type=int, default=2)
    parser.add_argument("--methods", nargs="+", help="parts of their names; default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--raw-gloo", action="store_true", help="leave gloo's threads as they are")
    parser.add_argument(
        "--quick", action="store_true", help="two ranks, a few iterations: whether all of it works"
    )
    parser.add_argument(
        "--preferred",
        action="store_true",
        help="ranks go before other processes, for a machine that is not idle",
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    parsed = parser.parse_args(given)
    if parsed.quick:
        parsed.ranks, parsed.forward, parsed.delays = [2], [1.0], ["j0", "tail:0.3,2f"]
        parsed.iterations, parsed.warmups = 2, 1
    return parsed


def chosen(parts: list[str] | None) -> list[type[methods.Method]]:
    """Raises ValueError for a part that is in no method's name."""
    if parts is None:
        return methods.METHODS
    for part in parts:
        if not any(part.lower() in method.name.lower() for method in methods.METHODS):
            names = ", ".join(method.name for method in methods.METHODS)
            raise ValueError(f"--methods: {part!r} is in none of {names}")
    return [m for m in methods.METHODS if any(part.lower() in m.name.lower() for part in parts)]


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Figures of all cells."""
    wanted = chosen(options.methods)
    absent = {method.name: package for method in wanted if (package := methods.missing(method)) is not None}
    for name, package in absent.items():
        print(f"{name}: not installed: {package}", file=sys.stderr)
    present = [method for method in wanted if method.name not in absent]
    methods.import_all(present)
    cells = []
    for ranks in options.ranks:
        plan = measuring.Plan(
            ranks,
            options.microbatches or 4 * ranks,
            [(ms / 1000, _delays(each, ms)) for ms in options.forward for each in options.delays],
            options.iterations,
            options.warmups,
            options.seed,
            not options.raw_gloo,
        )
        line, late = processes.StartLine(ranks), lateness.Lateness(2 * ranks, plan.microbatches)
        found = processes.run_ranks(
            ranks, measuring.measure, plan, present, line, late, timeout=_SECONDS_A_RUN
        )
        for place in range(len(plan.cells)):
            figures = report.cell_figures(plan, place, present, found)
            figures["gradient_difference"] = report.gradient_difference(place, present, found)
            cells.append(figures)
    return {"machine": _machine(), "iterations": options.iterations, "absent": absent, "cells": cells}


def _delays(text: str, forward_ms: float) -> str:
    return re.sub(r"([\d.]+)f\b", lambda found: f"{float(found[1]) * forward_ms:g}", text)


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "sluice": sluice.__version__,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    options = arguments()
    if options.preferred:
        processes.prefer_this_process()
    figures = compare(options)
    print(report.table(figures["cells"], figures["absent"]))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    if options.svg:
        options.svg.write_text(report.picture(figures["cells"]))


if __name__ == "__main__":
    main()
