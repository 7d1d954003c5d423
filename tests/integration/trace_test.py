"""`sluice trace` on recorded runs of emulated devices: where time went, what would have been, replay."""

import csv
import json
import unittest

from sluice_command import SluiceTest

METHODS = ["1f1b", "bf", "bfw"]
STAGES, MICROBATCHES, ITERATIONS = 3, 8, 2
RECORD = [
    "compare", "--emulate", "f=4ms,b=8ms,w=4ms", "--stages", STAGES, "--microbatches", MICROBATCHES,
    "--iterations", ITERATIONS, "--jitter", "tail:0.3,8", "--limit", 6,
]  # fmt: skip


class TraceTest(SluiceTest):
    # By methods: a run takes its time, and tests only read it.
    recorded = {}

    def record(self, methods=METHODS):
        path = self.folder / "run.json"
        key = tuple(methods)
        if key not in self.recorded:
            self.succeed(*RECORD, "--methods", ",".join(methods), "--record", path)
            self.recorded[key] = path.read_text()
        path.write_text(self.recorded[key])
        return json.loads(self.recorded[key])

    def edit(self, name, change):
        """A copy of the recording with something else in it."""
        recording = json.loads((self.folder / "run.json").read_text())
        change(recording)
        (self.folder / name).write_text(json.dumps(recording))

    def trace(self, *arguments):
        return self.results("trace", *arguments)


def rows(run, table):
    return [dict(zip(run[table]["columns"], row)) for row in run[table]["rows"]]


class Recording(TraceTest):
    def test_every_task_and_message_is_on_record(self):
        recording = self.record()
        self.assertEqual([run["method"] for run in recording["runs"]], METHODS)
        self.assertEqual(recording["settings"]["emulate"], "f=4ms,b=8ms,w=4ms")
        for run in recording["runs"]:
            with self.subTest(run["method"]):
                tasks = rows(run, "tasks")
                forwards = [task for task in tasks if task["pass"] == 0]
                self.assertEqual(len(forwards), STAGES * MICROBATCHES * ITERATIONS)
                self.assertEqual(len(rows(run, "decisions")), len(tasks))
                self.assertEqual(len(rows(run, "messages")), 2 * (STAGES - 1) * MICROBATCHES * ITERATIONS)
                self.assertEqual(run["lost"], 0)
                self.assertEqual([each["iteration"] for each in rows(run, "iterations")], [1, 2])

    def test_train_records_too(self):
        self.succeed("train", "--emulate", "f=1ms,b=2ms,w=1ms", "--stages", 2, "--microbatches", 4,
                     "--steps", 3, "--record", "run.json")  # fmt: skip
        (run,) = json.loads((self.folder / "run.json").read_text())["runs"]
        self.assertEqual(len(rows(run, "iterations")), 3)


class Reading(TraceTest):
    def test_the_parts_of_a_summary_add_up(self):
        self.record()
        summary = self.trace("summary", "run.json#bfw")
        self.assertEqual(summary["method"], "bfw")
        self.assertEqual(len(summary["edges"]), 2 * (STAGES - 1))
        self.assertGreater(summary["start_overhead"]["bound_by_stage"]["count"], 0)
        for stage in summary["per_stage"]:
            parts = ("compute_s", "messages_s", "limit_s", "order_s", "agreement_s", "start_s", "idle_s")
            self.assertAlmostEqual(sum(stage[part] for part in parts), summary["total_s"])
            self.assertAlmostEqual(sum(stage["messages_by_edge_s"].values()), stage["messages_s"])
            # f + b of each microbatch.
            self.assertAlmostEqual(stage["compute_s"], 0.012 * MICROBATCHES * ITERATIONS)
        self.assertEqual(self.trace("summary", "run.json")["method"], METHODS[0])

    def test_the_parts_of_a_difference_add_up(self):
        self.record()
        diff = self.trace("diff", "run.json#1f1b", "run.json#bf", "--top", 4)
        self.assertAlmostEqual(diff["difference_s"], diff["total_b_s"] - diff["total_a_s"])
        self.assertAlmostEqual(sum(part["difference_s"] for part in diff["parts"]), diff["difference_s"])
        self.assertEqual(len(diff["tasks"]), 4)

    def test_runs_of_one_method_are_told_apart_by_their_files(self):
        self.record()
        self.edit("again.json", lambda recording: None)
        printed = self.succeed("trace", "diff", "run.json#bf", "again.json#bf")
        self.assertRegex(printed, r"where, mean over stages +run\.json#bf +again\.json#bf +difference")
        printed = self.succeed("trace", "diff", "run.json#1f1b", "run.json#bf")
        self.assertRegex(printed, r"where, mean over stages +1f1b +bf +difference")

    def test_exports(self):
        recording = self.record()
        self.succeed("trace", "export", "run.json", "--chrome", "out.json", "--csv", "out.csv",
                     "--timeline", "out.html")  # fmt: skip
        tasks = self.tasks_of_trace("out.json")
        self.assertEqual(list(tasks), METHODS)
        self.assert_complete(tasks["bf"], range(1, ITERATIONS + 1), STAGES, MICROBATCHES)
        self.assertEqual(list(self.spans_of_timeline("out.html")), METHODS)
        with open(self.folder / "out.csv", newline="") as file:
            lines = list(csv.DictReader(file))
        entries = sum(len(run["tasks"]["rows"]) + len(run["messages"]["rows"]) for run in recording["runs"])
        self.assertEqual(len(lines), entries)
        self.succeed("trace", "export", "run.json#bf", "--timeline", "bf.svg")
        self.assertIn("<svg", (self.folder / "bf.svg").read_text())


class WhatIf(TraceTest):
    def test_predictions_of_what_was_simulated_are_what_happened(self):
        # In virtual time, so that nothing but the prediction itself can be off.
        self.succeed("simulate", "--emulate", "f=4ms,b=8ms,w=4ms,sigma=0.1", "--jitter", "tail:0.3,4",
                     "--stages", STAGES, "--microbatches", MICROBATCHES, "--methods", ",".join(METHODS),
                     "--seeds", 1, "--record", "run.json")  # fmt: skip
        predictions = self.trace("whatif", "run.json", "--check")["predictions"]
        self.assertEqual(len(predictions), len(METHODS) ** 2)
        for each in predictions:
            with self.subTest(f"{each['recorded_method']} to {each['method']}"):
                delta = 1e-6 if each["method"] == each["recorded_method"] else 0.02
                self.assertAlmostEqual(each["error"], 0, delta=delta)

    def test_a_tight_limit_takes_longer_and_holds_less(self):
        self.record(["bf"])
        as_it_was, tight = (
            self.trace("whatif", "run.json", "--methods", "bf", *more)["predictions"][0]
            for more in ((), ("--limit", 1))
        )
        self.assertGreater(tight["predicted_s"], as_it_was["predicted_s"])
        self.assertEqual(tight["peak_in_flight"], [1] * STAGES)
        self.assertNotIn("error", tight)

    def test_methods_on_other_places_do_not_fit(self):
        self.succeed("simulate", "--emulate", "f=4ms,b=8ms,w=4ms", "--stages", 2, "--chunks-per-stage", 2,
                     "--microbatches", 4, "--methods", "interleaved,bf,zb-v", "--record", "run.json")  # fmt: skip
        methods = ("interleaved", "bf", "zb-v")
        everything = {(a, b): (a == "zb-v") == (b == "zb-v") for a in methods for b in methods}
        predictions = self.trace("whatif", "run.json", "--check")["predictions"]
        fits = {
            (each["recorded_method"], each["method"]): each["predicted_s"] is not None for each in predictions
        }
        self.assertEqual(fits, everything)
        from_v = self.trace("whatif", "run.json#zb-v")["predictions"]
        self.assertEqual([each["predicted_s"] is None for each in from_v], [True, True, False])
        self.assertEqual(self.succeed("trace", "whatif", "run.json#zb-v").count("does not fit"), 2)
        (asked,) = self.trace("whatif", "run.json#zb-v", "--methods", "bf")["predictions"]
        self.assertIsNotNone(asked["predicted_s"])
        self.assertNotIn("recorded_s", asked)

    def test_the_share_of_the_weight_gradient_counts(self):
        self.record(["1f1b"])
        by_share = [
            self.trace("whatif", "run.json", "--methods", "bfw", "--weight-grad-share", share)
            for share in (0, 0.5)
        ]
        predicted = [each["predictions"][0]["predicted_s"] for each in by_share]
        self.assertGreater(predicted[0], predicted[1])


class Replay(TraceTest):
    def test_both_ways(self):
        recording = self.record()
        for run in recording["runs"]:
            for where in ((), ("--simulate",)):
                with self.subTest((run["method"], where)):
                    replayed = self.trace("replay", f"run.json#{run['method']}", *where)
                    self.assertEqual(replayed["decisions"], len(run["decisions"]["rows"]))
                    self.assertEqual(len(replayed["iteration_seconds"]), ITERATIONS)

    def test_a_log_that_does_not_fit_is_refused(self):
        self.record(["bf"])

        def drop(recording):
            del recording["runs"][0]["decisions"]["rows"][3]

        def swap(recording):
            """The first backward of the last stage before its forward."""
            table = recording["runs"][0]["decisions"]["rows"]
            last = [i for i, row in enumerate(table) if row[0] == 1 and row[1] == STAGES - 1]
            backward = next(i for i in last if table[i][2] == 1)
            table.insert(last[0], table.pop(backward))

        def clear(recording):
            recording["runs"][0]["decisions"]["rows"] = []

        def lose(recording):
            recording["runs"][0]["lost"] = 3

        def tighten(recording):
            recording["runs"][0]["limits"] = [1] * STAGES

        def share_a_slot(recording):
            for row in recording["runs"][0]["decisions"]["rows"]:
                row[6] = 0

        faults = (drop, swap, clear, lose, tighten, share_a_slot)
        for name, change in ((fault.__name__, fault) for fault in faults):
            with self.subTest(name):
                self.edit("faulty.json", change)
                for where in ((), ("--simulate",)):
                    self.refuse("replay", "trace", "replay", "faulty.json", *where)


class Refusals(TraceTest):
    def test_files(self):
        self.refuse("file", "trace", "summary", "missing.json")
        self.refuse("file", "trace", "summary", ".")
        (self.folder / "text").write_text("once upon a time")
        self.refuse("not JSON", "trace", "summary", "text")
        self.refuse("subcommand", "trace")

    def test_entries_methods_and_outputs(self):
        self.record(["bf"])
        self.refuse("method", "trace", "summary", "run.json#gpipe")
        self.refuse("method", "trace", "whatif", "run.json", "--methods", "nonsense")
        self.refuse("limit", "trace", "whatif", "run.json", "--limit", 0)
        self.refuse("weight-grad-share", "trace", "whatif", "run.json", "--weight-grad-share", 2)
        self.refuse("json", "trace", "summary", "run.json", "--json", "no/folder.json")
        self.refuse("export", "trace", "export", "run.json")
        self.refuse("csv", "trace", "export", "run.json", "--csv", "")
        self.refuse("json", "trace", "replay", "run.json", "--json", "")
        self.refuse("csv", "trace", "export", "run.json", "--csv", "run.json")

        def backwards(recording):
            recording["runs"][0]["tasks"]["rows"][2][8] = 0

        def missing(recording):
            del recording["runs"][0]["tasks"]["rows"][2]

        self.edit("backwards.json", backwards)
        self.refuse("runs[0].tasks[2].end", "trace", "summary", "backwards.json")
        self.edit("missing.json", missing)
        self.refuse("tasks", "trace", "whatif", "missing.json", "--methods", "bf")


if __name__ == "__main__":
    unittest.main()
