"""The comparison with other schedules works, and all methods compute the same."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

BENCHMARKS = Path(os.environ["SLUICE_SOURCE_DIR"]) / "bindings/python/benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from lateness import ACTIVATION, GRADIENT, Lateness  # noqa: E402
from sluice._engine import MessageDelays  # noqa: E402

TIMEOUT = 240
ALWAYS_HERE = (
    "torch GPipe",
    "torch 1F1B",
    "torch ZBVZeroBubble",
    "Megatron-Core 1F1B",
    "sluice bf",
    "sluice bfw",
)


class Compare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            result, picture = Path(folder, "compare.json"), Path(folder, "compare.svg")
            cls.ran = subprocess.run(
                [sys.executable, BENCHMARKS / "compare.py", "--quick", "--json", result, "--svg", picture],
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
            )
            if cls.ran.returncode != 0:
                raise AssertionError(cls.ran.stderr)
            cls.figures, cls.picture = json.loads(result.read_text()), picture.read_text()

    def test_measures_every_method_in_every_cell(self):
        cells = self.figures["cells"]
        self.assertEqual([cell["delays"] for cell in cells], ["j0", "tail:0.3,2"])
        for cell in cells:
            names = [method["name"] for method in cell["methods"]]
            self.assertLessEqual(set(ALWAYS_HERE), set(names))
            self.assertFalse(set(names) & set(self.figures["absent"]))
            for method in cell["methods"]:
                with self.subTest(delays=cell["delays"], method=method["name"]):
                    self.assertEqual(len(method["iterations_ms"]), self.figures["iterations"])
                    # Tasks of a microbatch follow each other, so this is no matter of speed.
                    self.assertGreater(min(method["iterations_ms"]), 3 * cell["microbatches"])
                    self.assertGreaterEqual(method["slept_backward_ms"], 2.0 / method["stages_a_rank"])
                    self.assertGreater(method["pass_us"], 0)
                    self.assertIn(f"| {method['name']} | {method['stages_a_rank']} |", self.ran.stdout)
                    self.assertIn(f">{method['name']}<", self.picture)

    def test_names_what_is_not_installed(self):
        for name, package in self.figures["absent"].items():
            self.assertIn(f"| {name} | | not installed: {package} |", self.ran.stdout)
            self.assertIn(f"{name}: not installed: {package}", self.ran.stderr)

    def test_gradients_of_all_methods_agree(self):
        for cell in self.figures["cells"]:
            self.assertLess(cell["gradient_difference"], 1e-5)

    def test_unknown_method_is_refused(self):
        run = subprocess.run(
            [sys.executable, BENCHMARKS / "compare.py", "--methods", "nonesuch"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("'nonesuch' is in none of", run.stderr)


class Late(unittest.TestCase):
    def test_a_message_counts_as_received_when_its_delay_has_passed_since_it_was_sent(self):
        delays = MessageDelays("tail:1,2", 3)
        late = Lateness(edges=2, microbatches=4)
        late.draw_from(delays)
        late.iteration = 5
        for message in [(ACTIVATION, 0, 3), (GRADIENT, 1, 2)]:
            direction, edge, microbatch = message
            sent = time.monotonic()
            late.sends(message)
            late.received(message)
            delay = delays.draw(5, edge, direction == GRADIENT, microbatch)
            self.assertGreater(delay, 0)
            self.assertGreaterEqual(time.monotonic(), sent + delay)

    def test_delays_depend_on_the_message_alone(self):
        delays, same = MessageDelays("j3", 1, "10ms"), MessageDelays("j3", 1, 0.01)
        draws = [(i, e, g, m) for i in range(2) for e in range(2) for g in (False, True) for m in range(8)]
        found = [delays.draw(*each) for each in draws]
        self.assertEqual(found, [same.draw(*each) for each in reversed(draws)][::-1])
        self.assertGreater(len(set(found)), 8)
        self.assertEqual({MessageDelays("j0").draw(*each) for each in draws}, {0.0})


if __name__ == "__main__":
    unittest.main()
