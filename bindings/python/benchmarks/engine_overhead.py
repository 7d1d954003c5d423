"""What a task costs in the engine alone, counted as compare.py counts it for the schedules of trainers.

usage: engine_overhead.py RECORDING#METHOD     of `sluice compare --emulate ... --record RECORDING`, one chunk a stage
"""

import sys

import numpy as np
import sluice


def overhead(trace):
    """Microseconds a task on the critical path, beyond an ideal of tasks that end as late as the timers of the
    emulated devices really did; and how late that was."""
    tasks = {name: np.asarray(column) for name, column in trace.tasks.items()}
    iterations = {name: np.asarray(column) for name, column in trace.iterations.items()}
    steps = trace.pipeline.microbatches + trace.pipeline.stages - 1
    lateness = (tasks["noticed"] - tasks["end"]).mean()
    lengths = tasks["end"] - tasks["start"]
    whole = [lengths[tasks["pass"] == each].mean() + lateness for each in np.unique(tasks["pass"])]
    if len(whole) != 2:
        raise SystemExit("the recorded method splits backwards: give one that does not")
    taken = np.median(iterations["end"] - iterations["start"])
    return 1e6 * (taken - steps * sum(whole)) / (2 * steps), 1e6 * lateness


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    cost, lateness = overhead(sluice.Trace.load(sys.argv[1]))
    print(f"{cost:.0f} us a task, timers late by {lateness:.0f} us")


if __name__ == "__main__":
    main()
