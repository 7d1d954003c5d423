#!/usr/bin/env python3
"""Fits the model of the published runs (arXiv 2605.18750) to their baselines, and writes it into the scenarios.

Every scenario beside this script holds a row of a published table. This script reads the tables [published] and
[fit] of each and writes the rest. What is fitted, and to what:

- `compute-ms`, the forward and backward of one microbatch over all stages: one figure for each workload and degree
  of tensor parallelism, to the columns that [fit] names;
- the tail of the message times: one figure for each class of workloads, in units of the forward of a stage at
  eight stages, to the baselines of tables 1 and 2 without data parallelism.

Nothing else is: see the constants. This script never reads the figures of readiness-first runs; the shape of the model
was chosen with them in sight (docs/reproduction.md).

    python3 scenarios/paper/fit.py --sluice build/release/bin/sluice           fit, and write the scenarios
    python3 scenarios/paper/fit.py --sluice build/release/bin/sluice --check   fit, and compare with what is written

With `--head SHARE --out FOLDER` the last stage takes at least that share of the compute time, the rest is cut evenly,
and the scenarios go to FOLDER/paper: for `sluice reproduce --scenarios FOLDER`.
"""

import argparse
import concurrent.futures
import functools
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parent
SEEDS = 4

# A message is late with this probability: assumed.
TAIL_PROBABILITY = 0.3
# Of a task's time: (p95 - p5) / p50 of the published computation times is 0.73, (p75 - p25) / p50 is 0.35.
TASK_SIGMA = 0.24
# How much images differ in size: assumed. They pass through `encoder-share` of the stages.
SIZE_SIGMA = 0.3
# What a scalar all-gather takes for each doubling of its ranks, and how much later some ranks see a message: assumed.
AGREEMENT_US = 100
SKEW_US = 50
# A backward takes twice as long as a forward, and half of it is the weight gradient: the usual count of operations.
FORWARD_SHARE = 1 / 3


def read(path):
    return tomllib.loads(path.read_text())


def model(row, compute_ms, tail, head):
    """The part of a scenario that describes the model; `tail` in forwards of a stage at eight stages."""
    published, fit = row["published"], row["fit"]
    stages = published["pp"]
    last = max(1 / stages, head)
    stage_ms = compute_ms * fit["compute-scale"] * (1 - last) / (stages - 1)
    tail_ms = tail * compute_ms * FORWARD_SHARE / 8
    level = f"+{fit['level']}" if "level" in fit else ""
    lines = [
        f'name = "{row["name"]}"',
        f"methods = {json.dumps(row['methods'])}",
        f"seeds = {row['seeds']}",
        'rules = "paper"',
        f"microbatches = {published['batch'] // published['dp']}",
        f"replicas = {published['dp']}",
        *([f"limit = {row['limit']}"] if "limit" in row else []),
        "",
        "[pipeline]",
        f"stages = {stages}",
        "",
        "[times]",
        f'forward = "{stage_ms * FORWARD_SHARE:.4f}ms"',
        f'backward = "{stage_ms * (1 - FORWARD_SHARE):.4f}ms"',
        f"sigma = {TASK_SIGMA}",
        "",
        "[link]",
        f'jitter = "tail:{TAIL_PROBABILITY},{tail_ms:.4f}{level}"',
    ]
    if head > 1 / stages:
        lines += ["", "[[chunks]]", f"chunk = {stages - 1}", f"scale = {last / (1 - last) * (stages - 1):.4f}"]
    if fit["encoder-share"] > 0:
        encoders = max(1, round(fit["encoder-share"] * stages))
        lines += ["", "[[sizes]]", f"chunks = {list(range(encoders))}", f"sigma = {SIZE_SIGMA}"]
    if published["tp"] > 1:
        latency = AGREEMENT_US * math.log2(published["tp"])
        lines += ["", "[group]", f"size = {published['tp']}", 'rule = "first-pick"', f'latency = "{latency:g}us"']
        lines += [f'skew = "exponential:{SKEW_US}us"']
    return "\n".join(lines) + "\n"


def toml_value(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key) if '-' in key else key} = {toml_value(each)}"
                                for key, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def scenario(row, compute_ms, tail, head):
    """The whole file."""
    fit = {**row["fit"], "compute-ms": round(compute_ms, 3), "tail": round(tail, 4)}
    text = "# Written by fit.py; the tables published and fit are its input.\n" + model(row, fit["compute-ms"], fit["tail"], head)
    for name, table in (("published", row["published"]), ("fit", fit)):
        text += f"\n[{name}]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())
    return text


class Fit:
    def __init__(self, sluice, rows, head):
        self.sluice = sluice
        self.rows = rows
        self.head = head

    @functools.lru_cache(maxsize=None)
    def seconds(self, name, compute_ms, tail):
        """Simulated seconds of the columns that the row is fitted to."""
        row = self.rows[name]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "scenario.toml")
            path.write_text(model(row, compute_ms, tail, self.head))
            results = pathlib.Path(folder, "results.json")
            command = [self.sluice, "simulate", path, "--methods", ",".join(row["fit"]["columns"]), "--seeds", SEEDS,
                       "--threads", 1, "--json", results]  # fmt: skip
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{name}: {done.stderr}")
            methods = json.loads(results.read_text())["methods"]
        return {method["name"]: method["makespan_s"] for method in methods}

    def errors(self, names, compute_ms, tail):
        """Logarithms of published over simulated."""
        errors = []
        for name in names:
            seconds = self.seconds(name, compute_ms, tail)
            published = self.rows[name]["published"]["seconds"]
            errors += [math.log(published[column] / seconds[column]) for column in seconds]
        return errors

    def compute(self, names, tail):
        """Compute time of rows that share it: makespans are proportional to it but for the agreement."""
        compute_ms = 300.0
        for _ in range(3):
            errors = self.errors(names, compute_ms, tail)
            compute_ms = round(compute_ms * math.exp(sum(errors) / len(errors)), 3)
        return compute_ms, self.errors(names, compute_ms, tail)

    def workloads(self, names):
        groups = {}
        for name in names:
            groups.setdefault(self.rows[name]["fit"]["compute"], []).append(name)
        return groups

    def loss(self, names, tail):
        groups = list(self.workloads(names).values())
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            fits = list(pool.map(lambda group: self.compute(group, tail), groups))
        errors = [error for _, each in fits for error in each]
        return math.sqrt(sum(error * error for error in errors) / len(errors))

    def tail(self, names):
        """Tries all tails on a grid, first coarse and then fine."""
        coarse = [0.2 + 0.2 * step for step in range(15)]
        best = min(coarse, key=lambda tail: self.loss(names, round(tail, 2)))
        fine = [best + 0.05 * step for step in range(-3, 4)]
        best = round(min(fine, key=lambda tail: self.loss(names, round(tail, 2))), 2)
        print(f"tail {best:.2f} forwards, baselines off by {100 * self.loss(names, best):.1f} % (rms) over {len(names)} rows")
        return best


def fit_all(sluice, rows, head):
    """By row: compute time and tail."""
    fit = Fit(sluice, rows, head)
    tails = {}
    for kind in sorted({row["fit"]["tail-class"] for row in rows.values()}):
        names = [name for name, row in rows.items() if row["fit"]["tail-class"] == kind and row["fit"]["fits-tail"]]
        print(f"{kind}: ", end="", flush=True)
        tails[kind] = fit.tail(names)
    fitted = [name for name, row in rows.items() if row["fit"]["columns"]]
    computes = {}
    for workload, names in fit.workloads(fitted).items():
        tail = tails[rows[names[0]]["fit"]["tail-class"]]
        computes[workload], errors = fit.compute(names, tail)
        rms = math.sqrt(sum(error * error for error in errors) / len(errors))
        print(f"{workload}: {computes[workload]:.1f} ms a microbatch, baselines off by {100 * rms:.1f} % (rms)")
    return {name: (computes[row["fit"]["compute"]], tails[row["fit"]["tail-class"]]) for name, row in rows.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", default="sluice", help="the command to simulate with")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if anything would change")
    parser.add_argument("--head", type=float, default=0, help="least share of the last stage in the compute time")
    parser.add_argument("--out", type=pathlib.Path, help="write to the folder `paper` in this one, not to here")
    arguments = parser.parse_args()
    if arguments.head and not arguments.out:
        parser.error("--head needs --out: the scenarios here are cut evenly")
    rows = {path.stem: read(path) for path in sorted(FOLDER.glob("*.toml"))}
    fitted = fit_all(arguments.sluice, rows, arguments.head)
    folder = arguments.out / "paper" if arguments.out else FOLDER
    texts = {folder / f"{name}.toml": scenario(row, *fitted[name], arguments.head) for name, row in rows.items()}
    changed = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if arguments.check:
        for path in changed:
            print(f"{path.name} differs from the fit")
        sys.exit(1 if changed else 0)
    folder.mkdir(parents=True, exist_ok=True)
    for path in changed:
        path.write_text(texts[path])
    print(f"{len(changed)} of {len(texts)} scenarios written")


if __name__ == "__main__":
    main()
