"""The cost of a task, as bindings/python/benchmarks/engine_overhead.py takes it from a recording."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import sluice

PROGRAM = pathlib.Path(os.environ["SLUICE_SOURCE_DIR"], "bindings", "python", "benchmarks", "engine_overhead.py")


class EngineOverhead(unittest.TestCase):
    def run_on(self, method, **options):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "run.json")
            model = sluice.Pipeline.chain(stages=4, microbatches=16)
            sluice.simulate(model, method, durations="f=5ms,b=10ms,w=5ms", record=True, **options).trace.save(path)
            return subprocess.run([sys.executable, PROGRAM, path], capture_output=True, text=True, timeout=60)

    def test_is_nothing_where_messages_take_no_time(self):
        self.assertEqual(self.run_on("1f1b").stdout, "0 us a task, timers late by 0 us\n")

    def test_counts_the_messages_on_the_critical_path(self):
        cost = int(self.run_on("1f1b", latency="400us").stdout.split()[0])
        self.assertGreater(cost, 100)
        self.assertLessEqual(cost, 800)

    def test_refuses_a_method_that_splits_backwards(self):
        done = self.run_on("bfw")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("splits backwards", done.stderr)


if __name__ == "__main__":
    unittest.main()
