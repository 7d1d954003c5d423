"""`sluice compare` on emulated devices: what it reports, and that all methods see the same draws."""

import statistics
import unittest

from sluice_command import SluiceTest

METHODS = ["1f1b", "bf", "bfw", "zb-h1", "gpipe", "fb", "b-priority", "f-priority"]
STAGES, MICROBATCHES, ITERATIONS = 3, 6, 3
SETTINGS = [
    "compare", "--emulate", "f=200us,b=400us,w=200us,sigma=0.3", "--stages", STAGES,
    "--microbatches", MICROBATCHES, "--iterations", ITERATIONS, "--jitter", "tail:0.3,1",
]  # fmt: skip


# Fewest and most tasks of a microbatch on a stage: a weight gradient is a task of its own always, never,
# or, under other methods, where it would come out of order.
TASKS = {"bfw": (3, 3), "zb-h1": (3, 3), "1f1b": (2, 2), "gpipe": (2, 2)}


def busy(method):
    return [stage["busy_s"] for stage in method["per_stage"]]


class Report(SluiceTest):
    def compare(self, *more, methods=METHODS):
        return self.results(*SETTINGS, "--methods", ",".join(methods), *more)

    def test_every_method_reports_what_was_measured(self):
        results = self.compare()
        self.assertEqual([method["name"] for method in results["methods"]], METHODS)
        first = results["methods"][0]
        for method in results["methods"]:
            with self.subTest(method["name"]):
                seconds = method["iteration_seconds"]
                self.assertEqual(len(seconds), ITERATIONS)
                self.assertAlmostEqual(method["median_iteration_s"], statistics.median(seconds))
                speedup = first["median_iteration_s"] / method["median_iteration_s"]
                self.assertAlmostEqual(method["speedup_vs_first"], speedup)
                self.assertEqual(len(method["per_stage"]), STAGES)
                bubble = 1 - sum(busy(method)) / (STAGES * sum(seconds))
                self.assertAlmostEqual(method["bubble_fraction"], bubble)
                self.assertGreater(bubble, 0)
        self.assertEqual(first["speedup_vs_first"], 1)
        self.assertEqual(first["speedup_range"], [1, 1])

    def test_every_stage_accounts_for_its_time_and_tasks(self):
        for method in self.compare("--limit", MICROBATCHES)["methods"]:
            fewest, most = TASKS.get(method["name"], (2, 3))
            for stage in method["per_stage"]:
                with self.subTest(method["name"]):
                    tasks_each = stage["tasks"] / (MICROBATCHES * ITERATIONS)
                    self.assertTrue(fewest <= tasks_each <= most)
                    self.assertTrue(1 <= stage["peak_in_flight"] <= MICROBATCHES)
                    self.assertGreater(stage["busy_s"], 0)
                    self.assertGreaterEqual(stage["blocked_s"], 0)
                    self.assertGreater(stage["dispatch_ns_per_task"], 0)
                    parts = stage["busy_s"] + stage["blocked_s"] + stage["idle_s"]
                    self.assertAlmostEqual(parts, sum(method["iteration_seconds"]))

    def test_the_configuration_is_recorded(self):
        config = self.compare("--seed", 7, methods=["bf"])["config"]
        expected = {
            "stages": STAGES,
            "microbatches": MICROBATCHES,
            "iterations": ITERATIONS,
            "jitter": "tail:0.3,1",
            "emulate": "f=200us,b=400us,w=200us,sigma=0.3",
            "seed": 7,
        }
        self.assertEqual({key: config[key] for key in expected}, expected)

    def test_the_table_names_every_method(self):
        table = self.succeed(*SETTINGS, "--methods", "1f1b,bfw")
        self.assertRegex(table, r"(?m)^1f1b .* 1\.00x")
        self.assertRegex(table, r"(?m)^bfw .*x")

    def test_timeline_and_trace_hold_every_task_of_every_method(self):
        self.compare("--timeline", "timeline.html", "--trace", "trace.json")
        spans = self.spans_of_timeline("timeline.html")
        tasks = self.tasks_of_trace("trace.json")
        self.assertEqual(list(spans), METHODS)
        self.assertEqual(list(tasks), METHODS)
        for method in METHODS:
            with self.subTest(method):
                self.assert_complete(spans[method], range(1, ITERATIONS + 1), STAGES, MICROBATCHES)
                self.assert_complete(tasks[method], range(1, ITERATIONS + 1), STAGES, MICROBATCHES)

    def test_the_first_method_defaults_to_1f1b(self):
        results = self.results(*SETTINGS)
        self.assertEqual([method["name"] for method in results["methods"]], ["1f1b", "bf", "bfw", "zb-h1"])


class Draws(SluiceTest):
    """A whole backward takes as long as its two halves, so every method keeps every device equally busy."""

    def busy_by_method(self, *more, methods=METHODS):
        results = self.results(*SETTINGS, "--methods", ",".join(methods), *more)
        return [busy(method) for method in results["methods"]]

    def assert_same(self, left, right):
        for a, b in zip(left, right, strict=True):
            self.assertAlmostEqual(a, b, delta=1e-9)

    def test_every_method_sees_the_same_durations(self):
        first, *others = self.busy_by_method()
        for other in others:
            self.assert_same(other, first)

    def test_a_seed_gives_the_same_durations_again(self):
        [once] = self.busy_by_method("--seed", 3, methods=["bf"])
        [again] = self.busy_by_method("--seed", 3, methods=["bf"])
        [other] = self.busy_by_method("--seed", 4, methods=["bf"])
        self.assert_same(again, once)
        self.assertNotAlmostEqual(sum(other), sum(once), places=6)

    def test_chunks_of_a_stage_share_its_time(self):
        plain = ["compare", "--emulate", "f=400us,b=800us", "--stages", 2, "--microbatches", 4,
                 "--iterations", 1]  # fmt: skip
        whole = self.results(*plain, "--methods", "bf")
        cut = self.results(*plain, "--methods", "interleaved,bf,bfw", "--chunks-per-stage", 2)
        for method in cut["methods"]:
            self.assert_same(busy(method), busy(whole["methods"][0]))


class Reordering(SluiceTest):
    """Delays far longer than tasks: what arrives first is not what was sent first."""

    FIXED, READINESS = ["1f1b", "zb-h1", "gpipe"], ["bf", "bfw", "fb", "b-priority", "f-priority"]

    def test_only_hints_reorder(self):
        stages = 4
        results = self.results(
            "compare", "--emulate", "f=500us,b=1ms,w=500us", "--stages", stages, "--microbatches", 12,
            "--jitter", "tail:0.5,25", "--iterations", 2, "--methods", ",".join(self.FIXED + self.READINESS),
        )  # fmt: skip
        for method in results["methods"]:
            for stage in range(1, stages - 1):
                with self.subTest(method["name"], stage=stage):
                    reordered = method["per_stage"][stage]["reordered"]
                    if method["name"] in self.FIXED:
                        self.assertEqual(reordered, 0)
                    else:
                        self.assertGreater(reordered, 0)


if __name__ == "__main__":
    unittest.main()
