"""Many short runs of several processes, one after the other: none hangs, and all end with the same bits."""

import random
import unittest

from process_runs import ProcessTest
from sluice_command import write_text
from train_runs import HINTS, TINY_MODEL

RUNS = 200
# Far longer than a run takes: one that hangs fails here rather than at the test's own limit.
LONGEST_S = 60


class Repeated(ProcessTest):
    def test_no_run_hangs_or_differs(self):
        write_text(self.folder / "text.txt")
        settings = [*TINY_MODEL, "--microbatches", 4, "--steps", 1, "--text", "text.txt", "--json", "run.json"]
        expected = self.results("train", *settings[:-2], "--stages", 4)["parameters_sha256"]
        draw = random.Random(5)
        for run in range(RUNS):
            way = ["--hint", draw.choice(HINTS), "--limit", draw.randint(1, 4)]
            if draw.random() < 0.3:
                way += ["--jitter", "tail:0.3,3"]
            spawned = draw.choice((2, 4))
            with self.subTest(run=run, way=way, spawned=spawned):
                done = self.sluice("train", *settings, "--spawn", spawned, *way, timeout=LONGEST_S)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"parameters sha256 {expected}", done.stdout)


if __name__ == "__main__":
    unittest.main()
