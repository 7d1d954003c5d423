"""Measures the methods of one cell after the other, iteration by iteration, on one rank."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

import torch
from emulation import Device
from lateness import Lateness
from methods import Cell, Method
from processes import StartLine, calm_gloo_threads

from sluice._engine import MessageDelays


@dataclass(frozen=True)
class Plan:
    """What is measured: every method in every cell, all on the same draws."""

    ranks: int
    microbatches: int
    cells: list[tuple[float, str]]
    """Seconds of a forward of a stage, and delays."""
    iterations: int
    warmups: int
    seed: int
    calm: bool


@dataclass
class Sample:
    """One iteration of one method on one rank. Seconds; moments are of the clock that all ranks share."""

    start: float
    end: float
    forwards: list[float]
    """What the forwards of chunks really took."""
    halves: list[float]
    """And the halves of backwards."""
    passes: list[float]
    """What the framework's code for a pass took beside."""


@dataclass
class CellSamples:
    """Of one rank: by method, samples without the warm-ups, and gradients of the last iteration by chunk."""

    samples: dict[str, list[Sample]]
    gradients: dict[str, dict[int, torch.Tensor]]
    cpu: float
    """Seconds of CPU time of this process meanwhile."""
    machine: float
    """And of all processes of the machine, over the time that its cores have; on rank 0."""
    elapsed: float


def measure(
    rank: int, plan: Plan, methods: list[type[Method]], line: StartLine, late: Lateness
) -> list[CellSamples]:
    """One for every cell."""
    device = Device()
    return [_measure_cell(rank, plan, cell, methods, line, late, device) for cell in plan.cells]


def _measure_cell(
    rank: int,
    plan: Plan,
    of_cell: tuple[float, str],
    methods: list[type[Method]],
    line: StartLine,
    late: Lateness,
    device: Device,
) -> CellSamples:
    seconds, delays = of_cell
    task_seconds = 1.5 * seconds  # of a forward and a backward, which is two forwards long
    cell = Cell(rank, plan.ranks, plan.microbatches, delays, plan.seed, task_seconds, device, late)
    device.start(0.0)
    built = [method(cell) for method in methods]
    samples: dict[str, list[Sample]] = {method.name: [] for method in methods}
    cpu, machine, began = time.process_time(), _machine_cpu(), time.monotonic()
    for iteration in range(plan.warmups + plan.iterations):
        late.iteration = iteration
        if plan.calm:
            calm_gloo_threads()
        for method in built:
            sample = _iteration(rank, method, seconds / method.chunks, cell, line)
            if iteration >= plan.warmups:
                samples[method.name].append(sample)
        if rank == 0:
            _say(plan, of_cell, iteration)
    elapsed = time.monotonic() - began
    found = CellSamples(
        samples,
        {method.name: method.gradients() for method in built},
        time.process_time() - cpu,
        _machine_cpu() - machine,
        elapsed,
    )
    for method in built:
        method.close()
    return found


def _machine_cpu() -> float:
    """Seconds for which the cores of this machine were busy."""
    with open("/proc/stat") as file:
        ticks = [int(each) for each in file.readline().split()[1:9]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")


def _iteration(rank: int, method: Method, seconds: float, cell: Cell, line: StartLine) -> Sample:
    for parameter in method.parameters():
        parameter.grad = None
    if not cell.bare:
        compute = cell.task_seconds / method.chunks
        cell.late.draw_from(MessageDelays(cell.delays, cell.seed, compute))
    with method.late():
        cell.device.start(seconds)
        start = line.wait(rank)
        method.run()
        end = time.monotonic()
    return Sample(start, end, cell.device.forwards, cell.device.halves, cell.device.passes)


def _say(plan: Plan, of_cell: tuple[float, str], iteration: int) -> None:
    seconds, delays = of_cell
    done = iteration + 1
    of_all = plan.warmups + plan.iterations
    print(
        f"\r{plan.ranks} ranks, {1000 * seconds:g} ms, {delays}: iteration {done} of {of_all}",
        end="\n" if done == of_all else "",
        file=sys.stderr,
        flush=True,
    )
