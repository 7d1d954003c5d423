"""Runs the `sluice` command under test, in a temporary folder."""

import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

BINARY = os.environ["SLUICE_BIN"]
SOURCE_DIR = pathlib.Path(os.environ["SLUICE_SOURCE_DIR"])

USAGE = 2
RUN_FAILED = 1


def write_text(path, words=4000):
    """Text that a small model can learn, the same every time."""
    draw = random.Random(1)
    vocabulary = "the stage runs what is ready first and waits for the next microbatch".split()
    path.write_text(" ".join(draw.choice(vocabulary) for _ in range(words)))


class SluiceTest(unittest.TestCase):
    """Each test has a folder of its own, in which its commands run."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def sluice(self, *arguments, timeout=300):
        return subprocess.run(
            [BINARY, *map(str, arguments)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
        )

    def succeed(self, *arguments):
        """Runs a command that must end well; its standard output."""
        done = self.sluice(*arguments)
        self.assertEqual(done.returncode, 0, f"sluice {arguments}: {done.stderr}")
        return done.stdout

    def results(self, *arguments):
        """Runs a command that must end well; its JSON."""
        self.succeed(*arguments, "--json", "results.json")
        return json.loads((self.folder / "results.json").read_text())

    def refuse(self, field, *arguments):
        """A usage error: code 2, one line that names the field, and nothing else."""
        before = self.files()
        done = self.sluice(*arguments, timeout=20)
        what = f"sluice {arguments}: {done.stderr!r}"
        self.assertEqual(done.returncode, USAGE, what)
        self.assertRegex(done.stderr, r"\Asluice: [^\n]+\n\Z", what)
        self.assertIn(field, done.stderr, what)
        self.assertEqual(done.stdout, "", what)
        self.assertEqual(self.files(), before, what)

    def fail_running(self, cause, done):
        """A failure of a run: code 1 and one line of error below the progress."""
        self.assertEqual(done.returncode, RUN_FAILED, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("sluice: ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertEqual(done.stderr.splitlines()[-1], errors[0])
        self.assertIn(cause, errors[0])

    def spans_of_timeline(self, name):
        """By method: the tasks of a timeline page, as dictionaries."""
        page = (self.folder / name).read_text()
        start = '<script type="application/json" id="timeline-data">'
        self.assertEqual(page.count(start), 1)
        data = json.loads(page.split(start)[1].split("</script>")[0])
        return {
            method["name"]: [dict(zip(data["columns"], span)) for span in method["spans"]]
            for method in data["methods"]
        }

    def tasks_of_trace(self, name):
        """By method: the tasks of a Chrome trace, as dictionaries."""
        events = json.loads((self.folder / name).read_text())["traceEvents"]
        processes = [event for event in events if event["name"] == "process_name"]
        names = {event["pid"]: event["args"]["name"] for event in processes}
        tasks = {method: [] for method in names.values()}
        for event in events:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
                tasks[names[event["pid"]]].append({**event["args"], "stage": event["tid"]})
        return tasks


    def assert_complete(self, tasks, iterations, stages, microbatches, chunks_per_stage=1):
        """Every forward and backward ran once, and a weight gradient where the backward was not whole."""

        def ran(kind, where=lambda task: True):
            return sorted(
                (task["iteration"], task["stage"], task["chunk"], task["microbatch"])
                for task in tasks
                if task["pass"] == kind and where(task)
            )

        expected = sorted(
            (iteration, chunk % stages, chunk, microbatch)
            for iteration in iterations
            for chunk in range(stages * chunks_per_stage)
            for microbatch in range(microbatches)
        )
        self.assertEqual(ran("F"), expected)
        self.assertEqual(ran("B"), expected)
        self.assertEqual(ran("W"), ran("B", where=lambda task: not task["whole"]))
