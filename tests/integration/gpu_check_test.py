"""`sluice_gpu_bench` and tools/gpu_check.sh, as far as they go without a GPU: on the fake device of the tests."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BENCH = os.environ["SLUICE_GPU_BENCH"]
FAKE_CUDA = os.environ["SLUICE_FAKE_CUDA"]
SCRIPT = pathlib.Path(os.environ["SLUICE_SOURCE_DIR"]) / "tools/gpu_check.sh"

LOUD = "THE DEVICE IS THE FAKE ONE OF THE TESTS"
MEASURED = {"no goal", "not judged"}


class GpuCheckTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_command(self, *command, environment=None, timeout=240):
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
        )

    def bench(self, *arguments, **settings):
        settings.setdefault("LD_LIBRARY_PATH", FAKE_CUDA)
        return self.run_command(BENCH, *arguments, environment=settings)

    def report(self, *arguments):
        done = self.bench("--quick", *arguments, "--json", "report.json", "--markdown", "report.md")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout, json.loads((self.folder / "report.json").read_text())


class Measurements(GpuCheckTest):
    def test_all_subjects(self):
        text, report = self.report()
        self.assertIn(LOUD, text)
        self.assertEqual(report["device"]["real"], False)
        self.assertEqual(report["figures_count"], False)
        self.assertEqual(report["good"], True)
        subjects = {row["subject"] for row in report["rows"]}
        self.assertEqual(len(subjects), 9, subjects)
        page = (self.folder / "report.md").read_text()
        self.assertIn(LOUD, page)
        for row in report["rows"]:
            with self.subTest(row=row["name"]):
                self.assertIn(row["name"], text)
                self.assertIn(row["name"], page)
                self.check(row)

    def check(self, row):
        if row["verdict"] == "not run":
            self.assertNotIn("value", row)
            self.assertTrue(row["reason"])
            return
        self.assertIn(row["verdict"], MEASURED)
        self.assertEqual(row["verdict"] == "not judged", "goal" in row)
        if "samples" in row:
            samples = row["samples"]
            self.assertGreater(samples["count"], 0)
            order = [samples[name] for name in ("least", "median", "p99", "most")]
            self.assertEqual(order, sorted(order))
            self.assertEqual(row["value"], samples["median"])

    def test_the_goals(self):
        _, report = self.report("--only", "gap,pipeline")
        goals = {row["name"]: row["goal"]["most"] for row in report["rows"] if "goal" in row}
        self.assertEqual(
            goals,
            {
                "end of a task to start of the next, without launch-ahead": 3,
                "end of a task to start of the next, with launch-ahead": 1,
                "prediction against measurement, readiness first (BF)": 5,
                "prediction against measurement, fixed order (1F1B)": 5,
            },
        )

    def test_tasks_follow_each_other(self):
        _, report = self.report("--only", "gap")
        ahead = next(row for row in report["rows"] if "with launch-ahead" in row["name"])
        self.assertGreaterEqual(ahead["samples"]["least"], 0)

    def test_checks_are_part_of_the_report(self):
        (self.folder / "checks.tsv").write_text("a_tests\tpassed\t3 tests\nb_tests\tnot run\tno library\n")
        text, report = self.report("--only", "agreement", "--checks", "checks.tsv")
        self.assertEqual([check["outcome"] for check in report["checks"]], ["passed", "not run"])
        self.assertIn("b_tests: no library", text)

    def test_a_failed_check_fails_the_report(self):
        (self.folder / "checks.tsv").write_text("a_tests\tfailed\tOne.Two\n")
        done = self.bench("--quick", "--only", "agreement", "--checks", "checks.tsv")
        self.assertEqual(done.returncode, 1)
        self.assertIn("One.Two", done.stdout)

    def test_a_detail_that_is_no_utf_8(self):
        (self.folder / "checks.tsv").write_bytes(b"a_tests\tpassed\t3 \xff tests\n")
        _, report = self.report("--only", "agreement", "--checks", "checks.tsv")
        self.assertEqual(report["checks"][0]["detail"], "3 \ufffd tests")

    def test_what_was_not_reached_in_time_has_failed(self):
        # Of one second, less than a whole one is left once the device has answered.
        done = self.bench("--limit", "1", "--json", "report.json", "--markdown", "report.md")
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = json.loads((self.folder / "report.json").read_text())["rows"]
        self.assertEqual([(row["verdict"], row["reason"]) for row in rows], [("failed", "no time left")] * 9)
        self.assertEqual(len({row["subject"] for row in rows}), 9)
        self.assertEqual((self.folder / "report.md").read_text().count("failed: no time left"), 9)
        self.assertEqual(done.stdout.count("failed: no time left"), 9)
        self.assertNotIn("measuring", done.stderr)

    def test_a_limit_that_is_long_enough(self):
        self.report("--only", "agreement", "--limit", "3600")

    def test_a_subject_that_fails(self):
        # Not enough for a pull's two slots.
        done = self.bench("--quick", "--only", "ipc,agreement", "--json", "report.json", FAKECUDA_MEMORY_MB="0")
        self.assertEqual(done.returncode, 1)
        rows = json.loads((self.folder / "report.json").read_text())["rows"]
        self.assertEqual([row["verdict"] for row in rows], ["failed", "no goal", "no goal", "no goal"])
        self.assertIn("failed", rows[0]["reason"])


class Refusals(GpuCheckTest):
    def assert_refused(self, done, *words, code=1):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr + done.stdout)

    def test_no_driver(self):
        self.assert_refused(self.bench(FAKECUDA_DRIVER="0"), "error: device: ", "driver")

    def test_no_device(self):
        self.assert_refused(self.bench(FAKECUDA_DEVICES="0"), "error: device: ", "no device")

    def test_bad_arguments(self):
        for arguments in (["--only", "gaps"], ["--seed", "x"], ["--limit", "0"], ["--limit", "soon"], ["--fast"], ["more"]):
            with self.subTest(arguments=arguments):
                done = self.bench(*arguments)
                self.assertGreater(done.returncode, 1)
                self.assertIn(arguments[-1], done.stderr + done.stdout)

    def test_checks_that_cannot_be_read(self):
        (self.folder / "checks.tsv").write_text("a_tests passed\n")
        self.assert_refused(self.bench("--checks", "checks.tsv"), "checks: line 1 of checks.tsv")
        self.assert_refused(self.bench("--checks", "none.tsv"), "checks: cannot read none.tsv")

    def test_results_that_cannot_be_written(self):
        for option in ("json", "markdown"):
            with self.subTest(option=option):
                done = self.bench("--quick", "--only", "agreement", f"--{option}", "no/such/folder")
                self.assert_refused(done, f"{option}: cannot write no/such/folder")
                self.assertNotIn("measuring", done.stderr)


class Script(GpuCheckTest):
    def test_bad_arguments(self):
        for arguments in (["--fast"], ["--jobs"], ["--jobs", "0"], ["--limit", "soon"], ["--bundle", "--quick"]):
            with self.subTest(arguments=arguments):
                done = self.run_command("bash", SCRIPT, *arguments)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn("usage: tools/gpu_check.sh", done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_an_output_that_cannot_be_written(self):
        (self.folder / "file").write_text("")
        done = self.run_command("bash", SCRIPT, "--output", "file/results")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(f"gpu_check: --output: cannot write to {self.folder}/file/results", done.stderr)


if __name__ == "__main__":
    unittest.main()
