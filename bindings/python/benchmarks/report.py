"""What the samples of all ranks say: figures, a table and a picture."""

from __future__ import annotations

import os
import statistics
from html import escape
from typing import Any

import torch
from measuring import CellSamples, Plan
from methods import Method

import sluice

BASELINE = "torch 1F1B"


def cell_figures(
    plan: Plan, place: int, methods: list[type[Method]], ranks: list[list[CellSamples]]
) -> dict[str, Any]:
    """Of one cell, in milliseconds; overheads in microseconds a task."""
    seconds, delays = plan.cells[place]
    cell = [rank[place] for rank in ranks]
    times = {
        method.name: [
            _iteration_ms(samples) for samples in zip(*(rank.samples[method.name] for rank in cell))
        ]
        for method in methods
    }
    own = sum(rank.cpu for rank in cell)
    cores = os.cpu_count() or 1
    return {
        "ranks": plan.ranks,
        "microbatches": plan.microbatches,
        "forward_ms": 1000 * seconds,
        "delays": delays,
        "foreign_cpu": max(0.0, (cell[0].machine - own) / (cores * cell[0].elapsed)),
        "methods": [_method_figures(plan, seconds, delays, method, cell, times) for method in methods],
    }


def _iteration_ms(samples: Any) -> float:
    """From the common start to the end of the last rank."""
    return 1000 * (max(each.end for each in samples) - samples[0].start)


def _method_figures(
    plan: Plan,
    seconds: float,
    delays: str,
    method: type[Method],
    cell: list[CellSamples],
    times: dict[str, list[float]],
) -> dict[str, Any]:
    samples = [sample for rank in cell for sample in rank.samples[method.name]]
    forward = statistics.median([each for sample in samples for each in sample.forwards] or [0.0])
    half = statistics.median([each for sample in samples for each in sample.halves] or [0.0])
    median = statistics.median(times[method.name])
    figures: dict[str, Any] = {
        "name": method.name,
        "stages_a_rank": method.chunks,
        "iterations_ms": times[method.name],
        "median_ms": median,
        "slept_forward_ms": 1000 * forward,
        "slept_backward_ms": 2000 * half,
    }
    if BASELINE in times:
        ratios = [base / own for base, own in zip(times[BASELINE], times[method.name])]
        figures["speed_up"] = statistics.median(ratios)
        figures["speed_up_range"] = [min(ratios), max(ratios)]
    figures["pass_us"] = 1e6 * statistics.median(
        [statistics.mean(sample.passes) for sample in samples if sample.passes] or [0.0]
    )
    if delays not in ("j0", "bare"):
        return figures
    tasks = 2 * plan.microbatches * method.chunks
    if seconds == 0:
        figures["overhead_us"] = 1000 * median / tasks
    elif method.ideal is not None:
        ideal = _ideal_ms(plan, method, forward, half)
        figures["ideal_ms"] = ideal
        figures["overhead_us"] = 1000 * (median - ideal) / (tasks + 2 * (plan.ranks - 1))
    return figures


def _ideal_ms(plan: Plan, method: type[Method], forward: float, half: float) -> float:
    """Of the same order with tasks as long as they really were, and nothing in between."""
    if method.chunks > 1:
        pipeline = sluice.Pipeline.interleaved(plan.ranks, method.chunks, plan.microbatches)
    else:
        pipeline = sluice.Pipeline.chain(plan.ranks, plan.microbatches)
    each = sluice.Durations(method.chunks * forward, method.chunks * 2 * half, method.chunks * half)
    return 1000 * sluice.simulate(pipeline, method.ideal, durations=each).makespan


def gradient_difference(place: int, methods: list[type[Method]], ranks: list[list[CellSamples]]) -> float:
    """Largest relative difference between the gradients of methods with the same model.

    Raises RuntimeError for a method that has not those of all chunks.
    """
    largest = 0.0
    first: dict[int, dict[int, torch.Tensor]] = {}
    for method in methods:
        found: dict[int, torch.Tensor] = {}
        for rank in ranks:
            found.update(rank[place].gradients[method.name])
        if sorted(found) != list(range(len(ranks) * method.chunks)):
            raise RuntimeError(f"{method.name}: has gradients of chunks {sorted(found)}")
        expected = first.setdefault(method.chunks, found)
        for chunk, gradient in found.items():
            difference = float((gradient - expected[chunk]).abs().max() / expected[chunk].abs().max())
            if not difference <= largest:  # also what is no number
                largest = difference
    return largest


def table(cells: list[dict[str, Any]], absent: dict[str, str]) -> str:
    lines = []
    for cell in cells:
        lines += [
            f"{cell['ranks']} ranks, {cell['microbatches']} microbatches, forward {cell['forward_ms']:g} ms, "
            f"delays {cell['delays']} (others used {100 * cell['foreign_cpu']:.0f} % of the machine)",
            "",
            "| method | stages a rank | median | over torch 1F1B | range | overhead a task | in the pass |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for each in cell["methods"]:
            speed = f"{each['speed_up']:.2f}" if "speed_up" in each else ""
            spread = " to ".join(f"{end:.2f}" for end in each.get("speed_up_range", []))
            overhead = f"{each['overhead_us']:.0f} us" if "overhead_us" in each else ""
            within = f"{each['pass_us']:.0f} us" if "overhead_us" in each else ""
            lines.append(
                f"| {each['name']} | {each['stages_a_rank']} | {each['median_ms']:,.1f} ms | {speed} "
                f"| {spread} | {overhead} | {within} |"
            )
        lines += [f"| {name} | | not installed: {package} | | | | |" for name, package in absent.items()]
        lines.append("")
    return "\n".join(lines)


def picture(cells: list[dict[str, Any]]) -> str:
    """Bars of the medians as SVG, one group a cell."""
    row, left, width = 16, 240, 420
    y, parts = 0, []
    for cell in cells:
        y += 2 * row
        of_cell = f"{cell['ranks']} ranks, forward {cell['forward_ms']:g} ms, {cell['delays']}"
        title = f"{of_cell}: median time of an iteration"
        parts.append(f'<text x="0" y="{y}" font-weight="bold">{escape(title)}</text>')
        longest = max(each["median_ms"] for each in cell["methods"])
        for each in cell["methods"]:
            y += row
            length = width * each["median_ms"] / longest
            colour = "#2a7fb8" if each["name"].startswith("sluice") else "#a0a0a0"
            parts.append(f'<text x="0" y="{y}">{escape(each["name"])}</text>')
            parts.append(f'<rect x="{left}" y="{y - 11}" width="{length:.1f}" height="12" fill="{colour}"/>')
            parts.append(f'<text x="{left + length + 6:.1f}" y="{y}">{each["median_ms"]:,.0f} ms</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" height="{y + row}" '
        'font-family="sans-serif" font-size="12">' + "".join(parts) + "</svg>\n"
    )
