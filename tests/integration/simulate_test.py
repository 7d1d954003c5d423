"""`sluice simulate`: what it reports, that it draws what `compare` draws, and what it refuses."""

import json
import statistics
import unittest

from sluice_command import SOURCE_DIR, SluiceTest

METHODS = ["1f1b", "bf", "bfw", "zb-h1"]
STAGES, MICROBATCHES, SEEDS = 4, 12, 3
SIZES = ["--stages", STAGES, "--microbatches", MICROBATCHES]
TIMES = ["--emulate", "f=10ms,b=20ms,w=10ms,sigma=0.2", "--jitter", "tail:0.3,10"]
SETTINGS = ["simulate", *SIZES, *TIMES, "--seeds", SEEDS, "--methods", ",".join(METHODS)]
KEYS = {
    "name", "makespan_s", "makespans_s", "speedup_vs_first", "speedup_range", "bubble_fraction",
    "peak_in_flight", "bound_ratio", "bounds_s", "compute_s", "blocked_s", "agreement_s",
    "decisions", "deferrals", "deferrals_per_task", "first_picks_differed",
}  # fmt: skip

CHAIN = """microbatches = 4
seeds = 2
methods = ["1f1b", "bf"]
[pipeline]
stages = 2
[times]
forward = "1ms"
backward = "2ms"
"""


class Report(SluiceTest):
    def test_every_method_reports_all_of_it(self):
        results = self.results(*SETTINGS, "--limit", MICROBATCHES)
        self.assertEqual([method["name"] for method in results["methods"]], METHODS)
        first = results["methods"][0]
        for method in results["methods"]:
            with self.subTest(method["name"]):
                self.assertEqual(set(method), KEYS)
                self.assertEqual(len(method["makespans_s"]), SEEDS)
                self.assertAlmostEqual(method["makespan_s"], statistics.median(method["makespans_s"]))
                self.assertAlmostEqual(
                    method["speedup_vs_first"], first["makespan_s"] / method["makespan_s"]
                )
                parts = method["compute_s"] + method["blocked_s"] + method["agreement_s"]
                self.assertAlmostEqual(parts, method["makespan_s"], places=7)
                self.assertEqual(method["agreement_s"], 0)
                self.assertTrue(0 < method["bubble_fraction"] < 1)
                self.assertEqual(len(method["peak_in_flight"]), STAGES)
                self.assertLessEqual(max(method["peak_in_flight"]), MICROBATCHES)
                self.assertGreaterEqual(method["bound_ratio"], 1)
                for makespan, bound in zip(method["makespans_s"], method["bounds_s"]):
                    self.assertGreaterEqual(makespan, bound)
        config = results["config"]
        sizes = (config["stages"], config["microbatches"], config["seeds"])
        self.assertEqual(sizes, (STAGES, MICROBATCHES, SEEDS))

    def test_without_variability_the_closed_forms_come_out(self):
        times = ["--emulate", "f=10ms,b=20ms,w=10ms", "--methods", "1f1b,zb-h1,gpipe"]
        results = self.results("simulate", *SIZES, *times, "--seeds", 2)
        makespans = [method["makespans_s"] for method in results["methods"]]
        chunks = ["--chunks-per-stage", 2, "--methods", "interleaved"]
        makespans.append(self.results("simulate", *SIZES, *times[:2], *chunks)["methods"][0]["makespans_s"])
        whole = (MICROBATCHES + STAGES - 1) * 0.030
        split = MICROBATCHES * 0.030 + (STAGES - 1) * 0.010
        interleaved = (MICROBATCHES + (STAGES - 1) / 2) * 0.030
        for found, expected in zip(makespans, [whole, split, whole, interleaved]):
            for makespan in found:
                self.assertAlmostEqual(makespan, expected)

    def test_results_depend_on_the_seed_and_not_on_the_threads(self):
        one, same, other = (
            self.results(*SETTINGS, *more)["methods"]
            for more in (["--threads", 1], ["--threads", 3], ["--seed", 2])
        )
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)

    def test_groups_cost_agreement_and_replicas_wait_for_the_slowest(self):
        alone, group, replicas = (
            self.results("simulate", *SIZES, *TIMES, "--seeds", SEEDS, "--methods", "bf", *more)["methods"][0]
            for more in ([], ["--group", 2, "--agreement-latency", "1ms"], ["--replicas", 3])
        )
        self.assertGreater(group["agreement_s"], 0)
        self.assertGreater(group["makespan_s"], alone["makespan_s"])
        for slowest, first in zip(replicas["makespans_s"], alone["makespans_s"]):
            self.assertGreaterEqual(slowest, first)

    def test_timeline_trace_and_decisions_hold_the_last_seed(self):
        more = ["--timeline", "t.html", "--trace", "t.json", "--decisions", "d.json"]
        self.succeed(*SETTINGS, "--limit", MICROBATCHES, *more)
        for tasks in (self.spans_of_timeline("t.html"), self.tasks_of_trace("t.json")):
            self.assertEqual(list(tasks), METHODS)
            for method in METHODS:
                self.assert_complete(tasks[method], [SEEDS], STAGES, MICROBATCHES)
        decisions = json.loads((self.folder / "d.json").read_text())
        self.assertEqual([log["method"] for log in decisions], METHODS)
        self.assertEqual([len(stage) for stage in decisions[0]["stages"]], [2 * MICROBATCHES] * STAGES)
        self.succeed(*SETTINGS, "--timeline", "t.svg")
        self.assertIn("<svg", (self.folder / "t.svg").read_text())

    def test_a_recording_of_the_last_seed_can_be_read_back(self):
        more = ["--methods", "1f1b,bfw", "--jitter", "j2", "--record", "run.json"]
        makespans = [
            method["makespans_s"][-1]
            for method in self.results("simulate", *SIZES, *TIMES[:2], "--seeds", SEEDS, *more)["methods"]
        ]
        self.succeed("trace", "summary", "run.json", "--json", "summary.json")
        recorded = json.loads((self.folder / "run.json").read_text())["runs"]
        self.assertEqual([run["method"] for run in recorded], ["1f1b", "bfw"])
        pairs = STAGES * MICROBATCHES
        self.assertEqual([len(run["tasks"]["rows"]) for run in recorded], [2 * pairs, 3 * pairs])
        for run, makespan in zip(recorded, makespans):
            self.assertEqual(len(run["iterations"]["rows"]), 1)
            start, end = run["iterations"]["rows"][0][-2:]
            self.assertAlmostEqual((end - start) / 1e9, makespan)

    def test_auto_can_be_recorded(self):
        run = ["simulate", *SIZES, *TIMES, "--seeds", SEEDS, "--methods", "bf,auto"]
        alone = self.results(*run)["methods"][1]
        recorded = self.results(*run, "--record", "run.json")["methods"][1]
        self.assertEqual(recorded["makespans_s"], alone["makespans_s"])
        run = json.loads((self.folder / "run.json").read_text())["runs"][1]
        pairs = STAGES * MICROBATCHES
        self.assertIn(len(run["tasks"]["rows"]), range(2 * pairs, 3 * pairs + 1))
        self.assertEqual(len(run["decisions"]["rows"]), len(run["tasks"]["rows"]))
        start, end = run["iterations"]["rows"][0][-2:]
        self.assertAlmostEqual((end - start) / 1e9, recorded["makespans_s"][-1])

    def test_a_scenario_says_what_to_run_and_the_command_line_wins(self):
        (self.folder / "chain.toml").write_text(CHAIN)
        methods = self.results("simulate", "chain.toml")["methods"]
        self.assertEqual([method["name"] for method in methods], ["1f1b", "bf"])
        self.assertEqual(methods[0]["makespans_s"], [0.015, 0.015])
        more = ["--methods", "fb", "--seeds", 1, "--latency", "1ms"]
        methods = self.results("simulate", "chain.toml", *more)["methods"]
        self.assertEqual([method["name"] for method in methods], ["fb"])
        self.assertEqual(len(methods[0]["makespans_s"]), 1)
        self.assertGreater(methods[0]["makespan_s"], 0.015)

    def test_the_times_of_a_recording_give_its_makespan(self):
        link = '[link]\nlatency = "300us"\n'
        (self.folder / "drawn.toml").write_text(CHAIN + "sigma = 0.4\n" + link)
        more = ["--methods", "bf,bfw", "--seeds", 3, "--record", "run.json"]
        drawn = self.results("simulate", "drawn.toml", *more)["methods"]
        model = CHAIN[: CHAIN.index("[times]")]
        for recorded in drawn:
            trace = f'[times]\ntrace = "run.json#{recorded["name"]}"\n'
            (self.folder / "traced.toml").write_text(model + trace + link)
            more = ["--methods", recorded["name"], "--seeds", 2]
            traced = self.results("simulate", "traced.toml", *more)["methods"][0]
            # The last draw is the one recorded, and all there is to draw from.
            self.assertEqual(traced["makespans_s"], [recorded["makespans_s"][-1]] * 2)
            self.assertAlmostEqual(traced["compute_s"], traced["makespan_s"] - traced["blocked_s"])

    def test_a_recording_of_another_pipeline_is_refused(self):
        (self.folder / "chain.toml").write_text(CHAIN)
        self.succeed("simulate", "chain.toml", "--record", "run.json")
        (self.folder / "bad.json").write_text("{")
        for trace, model in [
            ("run.json", CHAIN.replace("microbatches = 4", "microbatches = 5")),
            ("run.json", CHAIN.replace("stages = 2", "stages = 3")),
            ("run.json#zb-h1", CHAIN),
            ("missing.json", CHAIN),
            ("bad.json", CHAIN),
        ]:
            with self.subTest(trace=trace):
                model = model[: model.index("[times]")]
                (self.folder / "traced.toml").write_text(f'{model}[times]\ntrace = "{trace}"\n')
                self.refuse("times.trace: ", "simulate", "traced.toml")
                self.refuse("(line 7)", "simulate", "traced.toml")

    def test_a_file_and_the_same_options_give_the_same(self):
        (self.folder / "same.toml").write_text(
            f"""microbatches = {MICROBATCHES}
            [pipeline]
            stages = {STAGES}
            [times]
            forward = "10ms"
            backward = "20ms"
            weight-grad = "10ms"
            sigma = 0.2
            [link]
            jitter = "tail:0.3,10"
            """
        )
        more = ["--seeds", SEEDS, "--methods", ",".join(METHODS)]
        self.assertEqual(
            self.results("simulate", "same.toml", *more)["methods"], self.results(*SETTINGS)["methods"]
        )

    def test_the_scenarios_of_the_project_run(self):
        for name in ["chain", "two_encoders", "tensor_parallel"]:
            with self.subTest(name):
                scenario = SOURCE_DIR / "scenarios" / f"{name}.toml"
                self.assertTrue(self.results("simulate", scenario, "--seeds", 1)["methods"])


class Draws(SluiceTest):
    """K seeds are the iterations 1 to K of `compare` with the same seed."""

    def test_each_stage_computes_as_long_as_in_real_time(self):
        settings = [*SIZES, "--emulate", "f=2ms,b=4ms,w=2ms,sigma=0.5", "--methods", "1f1b,bfw", "--seed", 5]
        real = self.results("compare", *settings, "--iterations", 1)["methods"]
        simulated = self.results("simulate", *settings, "--seeds", 1)["methods"]
        for measured, predicted in zip(real, simulated):
            busy = statistics.fmean(stage["busy_s"] for stage in measured["per_stage"])
            self.assertAlmostEqual(busy, predicted["compute_s"], delta=1e-6)
            self.assertGreaterEqual(measured["median_iteration_s"], 0.99 * predicted["makespan_s"])


class Refusals(SluiceTest):
    def test_bad_options_name_their_field(self):
        times = ["simulate", "--emulate", "f=1ms,b=2ms"]
        for field, *arguments in [
            ("emulate", "simulate"),
            ("seeds", *times, "--seeds", 0),
            ("seeds", *times, "--seeds", -1),
            ("methods", *times, "--methods", "best"),
            ("methods", *times, "--methods", "bf,bf"),
            ("overhead", *times, "--overhead", "task=1"),
            ("overhead", *times, "--overhead", "task=1us,task=2us"),
            ("agreement-latency", *times, "--agreement-latency", "-1us"),
            ("group", *times, "--group", 0),
            ("group-rule", *times, "--group-rule", "any"),
            ("agreement", *times, "--group", 2, "--agreement", "any"),
            ("agreement", *times, "--group", 2, "--agreement", "first-pick"),
            ("group-rule", *times, "--group", 2, "--agreement", "leader", "--group-rule", "common"),
            ("agreement: needs a group", *times, "--agreement", "leader"),
            ("group-rule", *times, "--group", 2, "--group-rule", "first-pick"),
            ("skew", *times, "--skew", "5ms"),
            ("skew: needs a group", *times, "--skew", "uniform:5ms"),
            ("group-rule: needs a group", *times, "--group-rule", "common"),
            ("agreement-latency: needs a group", *times, "--agreement-latency", "1ms"),
            ("emulate", "simulate", "--emulate", "f=0.1ns,b=2ms"),
            ("needs 4 slots on stage 0, limit 1 gives 1", *times, "--methods", "1f1b", "--limit", 1),
            ("threads", *times, "--threads", 100000),
            ("replicas", *times, "--replicas", 100000),
            ("latency", *times, "--latency", "20"),
            ("jitter-average", *times, "--jitter-average", "best"),
            ("stages", *times, "--stages", 0),
            ("json", *times, "--json", "/nonexistent/x.json"),
            ("scenario", "simulate", "missing.toml"),
        ]:
            with self.subTest(arguments=arguments):
                self.refuse(field, *arguments)

    def test_a_bad_scenario_names_its_field_and_line(self):
        for field, text in [
            ("scenario", "microbatches = "),
            ("times.forward", CHAIN.replace('"1ms"', '"-1ms"')),
            ("links[0].edge", CHAIN + "[[links]]\nedge = [1, 0]\n"),
            ("chunks[0].forward", CHAIN + "[[chunks]]\nchunk = 1\nforward = 3\n"),
            ("pipeline.stages", CHAIN.replace("stages = 2", "stages = nan")),
        ]:
            with self.subTest(field):
                (self.folder / "bad.toml").write_text(text)
                self.refuse(field, "simulate", "bad.toml")
                self.refuse("line ", "simulate", "bad.toml")

    def test_the_model_stands_in_the_scenario_alone(self):
        (self.folder / "chain.toml").write_text(CHAIN)
        self.refuse("stages", "simulate", "chain.toml", "--stages", 3)
        self.refuse("emulate", "simulate", "chain.toml", "--emulate", "f=1ms,b=2ms")


if __name__ == "__main__":
    unittest.main()
