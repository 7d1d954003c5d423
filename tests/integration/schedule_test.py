"""`sluice schedule`: shows, checks, converts and draws fixed schedules. Needs no LibTorch."""

import json
import unittest

from sluice_command import USAGE, SluiceTest

NAMES = ["gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-v", "dualpipe-v"]
DEADLOCK = "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n"


class ScheduleTest(SluiceTest):
    def write(self, text, name="mine.csv"):
        (self.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    def check(self, text):
        """A file that must not be valid: the report, and the error."""
        done = self.sluice("schedule", self.write(text), "--check")
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertRegex(done.stderr, r"\Asluice: schedule: [^\n]+\n\Z")
        return done.stdout.splitlines(), done.stderr


class Summary(ScheduleTest):
    def test_the_grid_of_a_small_schedule(self):
        self.assertEqual(
            self.succeed("schedule", "1f1b", "--stages", 2, "--microbatches", 2),
            "1f1b: 2 stages, 2 chunks, 2 microbatches\n"
            "\n"
            "rank 0  0F0 0F1 .   .   0B0     .   0B1     \n"
            "rank 1  .   1F0 1B0     1F1 1B1     .   .   \n"
            "\n"
            " rank  in flight       busy    bubble\n"
            "    0          2     6.0 ms     33.3%\n"
            "    1          1     6.0 ms     33.3%\n"
            "\n"
            "makespan 9.000 ms, bubble 33.3%\n",
        )

    def test_closed_forms(self):
        """The defaults: f = 1 ms, b = 2 ms, of which w = 1 ms, for a whole stage."""
        sizes = ["--stages", 4, "--microbatches", 16]
        expected = {
            "gpipe": (16 + 3) * 3,
            "1f1b": (16 + 3) * 3,
            "interleaved": (2 * 16 + 3) * 1.5,
            "looped-bfs": (2 * 16 + 3) * 1.5,
            "zb-h1": 16 * 3 + 3,
            "zb-v": 16 * 3 + 1.5,
            "dualpipe-v": 16 * 3 + 1.5,
        }
        for name in NAMES:
            with self.subTest(name):
                results = self.results("schedule", name, *sizes)
                self.assertAlmostEqual(results["makespan_s"], 1e-3 * expected[name])
                self.assertAlmostEqual(results["bubble_fraction"], 1 - 48 / expected[name])
                self.assertEqual(results["schedule"], name)
                self.assertEqual(len(results["per_stage"]), 4)
                for stage in results["per_stage"]:
                    self.assertAlmostEqual(stage["busy_s"], 0.048)

    def test_memory_and_placement(self):
        results = self.results("schedule", "zb-v", "--stages", 3, "--microbatches", 9)
        self.assertEqual(results["placement"], [0, 1, 2, 2, 1, 0])
        self.assertEqual(results["peak_in_flight"], [6, 6, 6])
        self.assertEqual(self.results("schedule", "1f1b")["peak_in_flight"], [4, 3, 2, 1])

    def test_times_of_the_emulated_stage(self):
        results = self.results("schedule", "1f1b", "--emulate", "f=10ms,b=30ms")
        self.assertAlmostEqual(results["makespan_s"], (8 + 3) * 0.04)

    def test_a_large_schedule_is_not_drawn_in_the_terminal(self):
        shown = self.succeed("schedule", "1f1b", "--stages", 64, "--microbatches", 256)
        self.assertIn("--timeline", shown)
        self.assertNotIn("0F0", shown)


class Files(ScheduleTest):
    def test_every_schedule_survives_its_file(self):
        for name in NAMES:
            with self.subTest(name):
                text = self.succeed("schedule", name, "--csv", "-")
                self.succeed("schedule", name, "--csv", "out.csv")
                self.assertEqual((self.folder / "out.csv").read_text(), text)
                self.assertEqual(self.succeed("schedule", "out.csv", "--csv", "-"), text)
                shown = self.succeed("schedule", "out.csv", "--check")
                self.assertEqual(shown.split(" (")[0][:6], "valid:")
                named, read = (self.results("schedule", source) for source in (name, "out.csv"))
                for key in ("makespan_s", "peak_in_flight", "placement", "microbatches"):
                    self.assertEqual(named[key], read[key], key)

    def test_a_row_for_each_rank_and_a_cell_for_each_task(self):
        self.assertEqual(
            self.succeed("schedule", "zb-h1", "--stages", 2, "--microbatches", 2, "--csv", "-"),
            "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n",
        )

    def test_the_timeline(self):
        self.succeed("schedule", "dualpipe-v", "--timeline", "run.html")
        spans = self.spans_of_timeline("run.html")["dualpipe-v"]
        self.assertEqual(sum(span["pass"] == "F" for span in spans), 64)
        self.succeed("schedule", "dualpipe-v", "--timeline", "run.svg")
        self.assertIn("<svg", (self.folder / "run.svg").read_text())

    def test_what_the_command_line_says_of_a_file_must_be_so(self):
        name = self.write("0F0,0B0\n1F0,1B0\n")
        self.succeed("schedule", name, "--stages", 2, "--microbatches", 1, "--chunks-per-stage", 1)
        self.refuse("stages: 3, but the file has 2", "schedule", name, "--stages", 3)
        self.refuse("microbatches: 2, but the file has 1", "schedule", name, "--microbatches", 2)
        self.refuse("chunks-per-stage: 2, but the file has 1", "schedule", name, "--chunks", 2)


class Check(ScheduleTest):
    def test_a_valid_file(self):
        name = self.write(",0F0,,0B0\r\n,,1F0,1B0\r\n")
        self.assertEqual(self.succeed("schedule", name, "--check"),
                         "valid: mine: 2 stages, 2 chunks, 1 microbatches\n")  # fmt: skip

    def test_the_first_fault_of_each_rank(self):
        report, error = self.check("0F0,0F1,0B1\n1F0,,1B0,1F0,1F1,1B1\n2F0,2B0,2F1,2B1\n")
        self.assertEqual(
            report,
            [
                "line 1: rank 0, position 3: B(chunk 0, microbatch 0) is missing",
                "line 2, column 4: rank 1, position 2: F(chunk 1, microbatch 0) is a duplicate",
            ],
        )
        self.assertIn("2 of 3 ranks", error)
        self.assertIn("rank 0, position 3", error)

    def test_orders_that_deadlock(self):
        report, _ = self.check(DEADLOCK)
        self.assertEqual(
            report,
            [
                "line 1, column 2: rank 0, position 1: B(chunk 0, microbatch 0) waits for ever for "
                "B(chunk 1, microbatch 0) at rank 1, position 3: the orders deadlock",
                "line 2, column 1: rank 1, position 0: F(chunk 1, microbatch 1) waits for ever for "
                "F(chunk 0, microbatch 1) at rank 0, position 2: the orders deadlock",
            ],
        )
        self.refuse("deadlock", "schedule", "mine.csv")

    def test_text_that_is_not_a_schedule(self):
        for text, cause in [
            ("", "holds no rank"),
            ("0F0,0B0\n1F0,oops\n", "line 2 (rank 1), column 2: 'oops' is not an action"),
            ("0F0,0B0\n0F1,0B1\n", "line 2 (rank 1), column 1"),
            ("0F0,65534B0\n", "line 1 (rank 0), column 2: 65534B0"),
            ("0F0,0B99999999999999999999\n", "line 1 (rank 0), column 2"),
            (b"0F0,\xff\xfe\n", r"line 1 (rank 0), column 2: '\xff\xfe'"),
            ("0F0,0I0\n", "0I0 is without its 0W0"),
        ]:
            with self.subTest(text):
                report, error = self.check(text)
                self.assertEqual(report, [])
                self.assertIn(cause, error)


class Refused(ScheduleTest):
    def test_arguments(self):
        self.refuse("schedule", "schedule")
        self.refuse("gpipe", "schedule", "2f2b")
        self.refuse("schedule", "schedule", ".")
        self.refuse("schedule", "schedule", "")
        self.refuse("stages", "schedule", "1f1b", "--stages", 0)
        self.refuse("stages", "schedule", "1f1b", "--stages", -1)
        self.refuse("microbatches", "schedule", "1f1b", "--microbatches", 0)
        self.refuse("chunks-per-stage", "schedule", "interleaved", "--chunks-per-stage", 0)
        self.refuse("chunks-per-stage", "schedule", "zb-v", "--chunks-per-stage", 3)
        self.refuse("one chunk a stage", "schedule", "1f1b", "--chunks-per-stage", 2)
        self.refuse("two microbatches", "schedule", "dualpipe-v", "--stages", 5)
        self.refuse("emulate", "schedule", "1f1b", "--emulate", "f=1")

    def test_outputs_that_cannot_be_written(self):
        for option in ("csv", "json", "timeline"):
            self.refuse(option, "schedule", "1f1b", f"--{option}", "missing/out.csv")
            self.refuse(option, "schedule", "1f1b", f"--{option}", "")
        self.refuse("json", "schedule", "1f1b", "--csv", "out", "--json", "out")

    def test_help(self):
        shown = self.succeed("schedule", "--help")
        for word in ("Examples", "--check", "dualpipe-v", "--csv"):
            self.assertIn(word, shown)


if __name__ == "__main__":
    unittest.main()
