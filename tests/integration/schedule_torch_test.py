"""Schedules against those of torch.distributed.pipelining, through its CSV notation, both ways."""

import csv
import io
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from sluice_command import SluiceTest

TORCH = pathlib.Path(os.environ["SLUICE_TORCH_PREFIX"])
SCRIPT = pathlib.Path(__file__).with_name("torch_schedules.py")

# Of ours, by torch's class.
NAMES = {
    "ScheduleGPipe": "gpipe",
    "Schedule1F1B": "1f1b",
    "ScheduleInterleaved1F1B": "interleaved",
    "ScheduleLoopedBFS": "looped-bfs",
    "ScheduleZBVZeroBubble": "zb-v",
    "ScheduleDualPipeV": "dualpipe-v",
}
ACTION = re.compile(r"\d+[FBIW]\d+")


def torch_python():
    """The interpreter that torch was installed for, and its environment; None if it came without Python."""
    environment = dict(os.environ, PYTHONPATH=str(TORCH.parent), PYTHONDONTWRITEBYTECODE="1")
    installed = TORCH.parents[3] / "bin" / "python" if len(TORCH.parents) > 3 else pathlib.Path(sys.executable)
    for python in (installed, pathlib.Path(sys.executable)):
        command = [str(python), "-W", "ignore", "-c", "import torch.distributed.pipelining"]
        if python.exists() and subprocess.run(command, env=environment, capture_output=True).returncode == 0:
            return python, environment
    return None


PYTHON = torch_python()


def case(schedule, ranks, stages_per_rank, microbatches):
    return {
        "name": f"{schedule}-{ranks}-{stages_per_rank}-{microbatches}",
        "schedule": schedule,
        "ranks": ranks,
        "stages_per_rank": stages_per_rank,
        "microbatches": microbatches,
    }


def cases_of(schedule):
    if schedule in ("ScheduleGPipe", "Schedule1F1B"):
        return [case(schedule, n, 1, m) for n, m in [(1, 4), (2, 2), (4, 4), (4, 16), (5, 9)]]
    if schedule == "ScheduleZBVZeroBubble":
        return [case(schedule, n, 2, m) for n, m in itertools.product((1, 2, 4, 5), (1, 3, 8, 20))]
    if schedule == "ScheduleDualPipeV":
        return [case(schedule, n, 2, m) for n in (1, 2, 3, 4, 5, 8) for m in (2 * n, 2 * n + 3, 4 * n)]
    if schedule == "ScheduleLoopedBFS":
        return [case(schedule, n, c, m) for n, c, m in itertools.product((1, 2, 4), (1, 2, 3), (1, 4, 9))]
    return [case(schedule, n, c, k * n) for n, c, k in itertools.product((2, 4), (2, 3), (1, 2, 4))]


# The order that torch gives for 1F1B is a case of its own.
ALL_BUT_1F1B = [each for schedule in NAMES if schedule != "Schedule1F1B" for each in cases_of(schedule)]


def cells(text):
    """By rank: what computes, in order; overlapped actions one after the other. For files without
    communication."""
    return [ACTION.findall(line) for line in text.splitlines()]


@unittest.skipIf(PYTHON is None, "LibTorch came without the Python package torch")
class TorchSchedules(SluiceTest):
    def torch(self, command, cases):
        python, environment = PYTHON
        done = subprocess.run(
            [str(python), "-W", "ignore", str(SCRIPT), command, str(self.folder)],
            input=json.dumps(cases),
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def dump(self, cases):
        """Each case with the text of torch's file."""
        self.torch("dump", cases)
        return [(each, (self.folder / f"{each['name']}.csv").read_text()) for each in cases]

    def ours(self, each, *more):
        return self.succeed(
            "schedule", NAMES[each["schedule"]], "--stages", each["ranks"], "--microbatches", each["microbatches"],
            "--chunks-per-stage", each["stages_per_rank"], *more,
        )  # fmt: skip

    def test_our_generators_give_the_orders_of_torch(self):
        """Interleaved 1F1B is the same for a multiple of the ranks and several chunks. Otherwise torch makes
        its groups larger, so that all are equal, where ours are as large as the pipeline is deep with a
        shorter last one; and with one chunk torch warms up twice as far as 1F1B, which ours then is."""
        for each, text in self.dump(ALL_BUT_1F1B):
            with self.subTest(each["name"]):
                self.assertEqual(cells(self.ours(each, "--csv", "-")), cells(text))

    def test_1f1b_but_for_the_numbers_of_the_last_rank(self):
        """torch 2.13 counts the forwards of the last rank from 1 in the order it shows of 1F1B; what it runs
        counts from 0. Everything else is the same."""
        for each, text in self.dump(cases_of("Schedule1F1B")):
            with self.subTest(each["name"]):
                ours, torchs = cells(self.ours(each, "--csv", "-")), cells(text)
                self.assertEqual(ours[:-1], torchs[:-1])
                if torchs[-1][0].endswith("F1"):
                    number = r"(\d+F)(\d+)"
                    torchs[-1] = [re.sub(number, lambda m: m[1] + str(int(m[2]) - 1), cell) for cell in torchs[-1]]
                self.assertEqual(ours[-1], torchs[-1])

    def test_files_of_torch_are_valid(self):
        for each, _ in self.dump(ALL_BUT_1F1B + cases_of("ScheduleInterleavedZeroBubble")):
            with self.subTest(each["name"]):
                sizes = ["--stages", each["ranks"], "--microbatches", each["microbatches"],
                         "--chunks-per-stage", each["stages_per_rank"]]  # fmt: skip
                file, with_communication = f"{each['name']}.csv", f"{each['name']}.comms.csv"
                read = self.succeed("schedule", file, "--check", *sizes, "--csv", "-")
                if (self.folder / with_communication).exists():
                    self.assertEqual(self.succeed("schedule", with_communication, "--csv", "-"), read)

    def test_uneven_groups_of_torch_are_valid_too(self):
        cases = [case("ScheduleInterleaved1F1B", 4, 2, m) for m in (3, 6, 10)]
        cases += [case("ScheduleInterleavedZeroBubble", 4, 1, 4)]
        self.torch("dump", cases)
        for each in cases:
            with self.subTest(each["name"]):
                self.succeed("schedule", f"{each['name']}.csv", "--check")

    def test_torch_reads_our_files(self):
        """Its loader takes every cell, checks the order, and finds a place for the communication."""
        single = ("ScheduleGPipe", "Schedule1F1B")  # torch loads files for several stages a rank only
        cases = [cases_of(schedule)[-1] for schedule in NAMES if schedule not in single]
        for each in cases:
            self.ours(each, "--csv", f"{each['name']}.csv")
        read = json.loads(self.torch("load", cases))
        for each in cases:
            written = list(csv.reader(io.StringIO((self.folder / f"{each['name']}.csv").read_text())))
            self.assertEqual(read[each["name"]], written, each["name"])


if __name__ == "__main__":
    unittest.main()
