"""`sluice train` on a tiny model: the results, whatever the order of the work, and the files it writes."""

import html.parser
import json
import math
import re
import unittest

from sluice_command import SOURCE_DIR, write_text
from train_runs import CUTS, HINTS, METHODS, TIMING, TINY_MODEL, TrainTest

MICROBATCHES, STEPS = 6, 2
SETTINGS = [*TINY_MODEL, "--microbatches", MICROBATCHES, "--steps", STEPS, "--text", "text.txt"]


class TinyModelTest(TrainTest):
    def setUp(self):
        super().setUp()
        write_text(self.folder / "text.txt")

    def train(self, *more):
        return self.results("train", *SETTINGS, *more)

    def hash(self, *more):
        return self.train(*more)["parameters_sha256"]


class SameResult(TinyModelTest):
    def test_every_method(self):
        self.assert_all_the_same(SETTINGS, METHODS)

    def test_every_cut(self):
        self.assert_all_the_same(SETTINGS, {"4 stages": [], **CUTS})

    def test_every_timing(self):
        self.assert_all_the_same(SETTINGS, {"undisturbed": [], **TIMING})

    def test_options_of_the_model(self):
        ways = {
            "no pipeline": ["--no-pipeline"],
            "bf": [],
            "bfw, late messages": ["--hint", "bfw", "--jitter", "tail:0.5,10"],
            "zb-h1, 2 stages": ["--schedule", "zb-h1", "--stages", 2],
            "interleaved": METHODS["interleaved"],
            "1 stage, limit 1": ["--stages", 1, "--limit", 1],
        }
        variants = {
            "plain": [],
            "dropout": ["--dropout", 0.1],
            "tied embeddings": ["--tied-embeddings"],
            "clip": ["--clip", 0.05],
            "all of them": ["--dropout", 0.1, "--tied-embeddings", "--clip", 0.05, "--weight-decay", 0],
        }
        outcomes = {}
        for name, variant in variants.items():
            with self.subTest(name):
                _, outcomes[name] = self.assert_all_the_same([*SETTINGS, *variant], ways)
        self.assertEqual(len(set(outcomes.values())), len(variants), "an option had no effect")


class Training(TinyModelTest):
    LEARN = ["--steps", 8, "--lr", 0.02]

    def test_the_seed_matters(self):
        self.assertNotEqual(self.hash("--seed", 2), self.hash("--seed", 3))

    def test_the_loss_falls(self):
        for way in ([], ["--accumulate", "any"], ["--rules", "paper"], ["--rules", "paper", "--hint", "bfw"],
                    ["--no-pipeline"]):  # fmt: skip
            with self.subTest(way):
                losses = self.train(*self.LEARN, "--jitter", "tail:0.3,3", *way)["losses"]
                self.assertEqual(len(losses), 8)
                self.assertLess(losses[-1], losses[0] - 0.5)

    def test_the_loss_falls_on_the_default_text(self):
        self.assertTrue((SOURCE_DIR / "README.md").is_file())
        results = self.results("train", "--steps", 20, "--stages", 4, "--microbatches", 16)
        self.assertEqual(len(results["losses"]), 20)
        self.assertLess(results["losses"][-1], results["losses"][0] - 1)

    def test_evaluation_leaves_the_training_alone(self):
        plain = self.train("--steps", 4)
        for way in ([], ["--no-pipeline"], ["--hint", "bfw", "--stages", 2]):
            with self.subTest(way):
                evaluated = self.train("--steps", 4, "--eval-every", 2, *way)
                self.assertEqual(evaluated["losses"], plain["losses"])
                self.assertEqual(evaluated["parameters_sha256"], plain["parameters_sha256"])
                self.assertEqual([loss["step"] for loss in evaluated["eval_losses"]], [2, 4])
                for loss in evaluated["eval_losses"]:
                    self.assertAlmostEqual(loss["loss"], plain["losses"][-1], delta=1)

    def test_compare_trains_every_method_alike(self):
        results = self.results(
            "compare", *TINY_MODEL, "--microbatches", MICROBATCHES, "--text", "text.txt",
            "--iterations", 2, "--methods", "1f1b,bf,bfw,zb-h1",
        )  # fmt: skip
        hashes = {method["parameters_sha256"] for method in results["methods"]}
        self.assertEqual(len(hashes), 1)


class Report(TinyModelTest):
    STAGES, LIMIT = 2, 3
    RUN = ["--stages", STAGES, "--limit", LIMIT, "--hint"]

    def test_results(self):
        for hint in HINTS:
            with self.subTest(hint):
                results = self.train(*self.RUN, hint)
                self.assertEqual(len(results["losses"]), STEPS)
                self.assertTrue(all(math.isfinite(loss) for loss in results["losses"]))
                self.assertRegex(results["parameters_sha256"], r"\A[0-9a-f]{64}\Z")
                self.assertEqual(len(results["iteration_seconds"]), STEPS)
                self.assertEqual(len(results["per_stage"]), self.STAGES)
                total = sum(results["iteration_seconds"])
                busy = sum(stage["busy_s"] for stage in results["per_stage"])
                self.assertAlmostEqual(results["bubble_fraction"], 1 - busy / (self.STAGES * total))
                self.assertTrue(0 <= results["bubble_fraction"] < 1)
                for stage in results["per_stage"]:
                    self.check_stage(stage, total, 3 if hint == "bfw" else 2)

    def check_stage(self, stage, total, fewest):
        tasks_each = stage["tasks"] / (STEPS * MICROBATCHES)
        self.assertTrue(fewest <= tasks_each <= 3, tasks_each)
        self.assertTrue(1 <= stage["peak_in_flight"] <= self.LIMIT)
        self.assertGreater(stage["busy_s"], 0)
        self.assertGreaterEqual(stage["blocked_s"], 0)
        self.assertGreater(stage["dispatch_ns_per_task"], 0)
        self.assertAlmostEqual(stage["busy_s"] + stage["blocked_s"] + stage["idle_s"], total)

    def test_configuration(self):
        config = self.train(*self.RUN, "bfw", "--dropout", 0.1)["config"]
        expected = {"stages": 2, "limit": 3, "method": "bfw", "steps": STEPS, "microbatches": MICROBATCHES,
                    "layers": 4, "width": 16, "heads": 2, "context": 16, "micro_batch_size": 1, "seed": 1,
                    "dropout": 0.1, "text": "text.txt", "jitter": "j0", "launch_ahead": 1}  # fmt: skip
        self.assertEqual({key: config[key] for key in expected}, expected)

    def test_summary(self):
        summary = self.succeed("train", *SETTINGS, *self.RUN, "bf")
        self.assertRegex(summary, r"loss \d+\.\d+ -> \d+\.\d+")
        self.assertRegex(summary, r"parameters sha256 [0-9a-f]{64}")
        self.assertEqual(len(re.findall(r"(?m)^ +[01] +[\d.]+%", summary)), self.STAGES)

    def test_timeline_trace_and_decisions_hold_every_task(self):
        for hint in ("bf", "bfw"):
            with self.subTest(hint):
                self.train(*self.RUN, hint, "--timeline", "run.html", "--trace", "run.trace.json",
                           "--decisions", "decisions.json")  # fmt: skip
                [(method, spans)] = self.spans_of_timeline("run.html").items()
                self.assertEqual(method, hint)
                self.assert_complete(spans, range(STEPS), self.STAGES, MICROBATCHES)
                for span in spans:
                    self.assertLess(span["start_s"], span["end_s"])
                [tasks] = self.tasks_of_trace("run.trace.json").values()
                self.assert_complete(tasks, range(STEPS), self.STAGES, MICROBATCHES)
                decisions = json.loads((self.folder / "decisions.json").read_text())
                self.assertEqual(decisions["method"], hint)
                decided = [
                    {**decision, "stage": stage}
                    for stage, log in enumerate(decisions["stages"])
                    for decision in log
                ]
                self.assert_complete(decided, range(STEPS), self.STAGES, MICROBATCHES)

    def test_the_timeline_needs_no_network(self):
        self.train(*self.RUN, "bf", "--timeline", "run.html")
        loaded = []

        class Page(html.parser.HTMLParser):
            def handle_starttag(self, tag, attributes):
                loaded.extend(value for name, value in attributes if name in ("src", "href"))

        page = (self.folder / "run.html").read_text()
        Page().feed(page)
        self.assertEqual(loaded, [])
        self.assertNotRegex(page, r"fetch\(|XMLHttpRequest|@import|url\(")


class Config(TinyModelTest):
    FILE = """
# Every type of value that an option has.
text = "text.txt"
layers = 4
width = 16
heads = 2
context = 16
micro-batch-size = 1
microbatches = 6
steps = 2
stages = 2
hint = "bfw"
limit = 3
lr = 1e-2
dropout = 0.1
tied-embeddings = true
jitter = "tail:0.3,1"
"""
    SAME = [*SETTINGS, "--stages", 2, "--hint", "bfw", "--limit", 3, "--lr", 0.01, "--dropout", 0.1,
            "--tied-embeddings", "--jitter", "tail:0.3,1"]  # fmt: skip

    def outcome(self, *arguments):
        results = self.results("train", *arguments)
        return {key: results[key] for key in ("config", "losses", "parameters_sha256")}

    def test_a_file_equals_the_command_line(self):
        (self.folder / "run.toml").write_text(self.FILE)
        self.assertEqual(self.outcome("--config", "run.toml"), self.outcome(*self.SAME))

    def test_the_command_line_wins(self):
        (self.folder / "run.toml").write_text(self.FILE)
        more = ["--steps", 1, "--lr", 0.02, "--stages", 4]
        self.assertEqual(self.outcome("--config", "run.toml", *more), self.outcome(*self.SAME, *more))
        self.assertEqual(self.outcome(*more, "--config", "run.toml"), self.outcome(*self.SAME, *more))

    def test_a_way_of_ordering_on_the_command_line_replaces_the_files(self):
        (self.folder / "run.toml").write_text('schedule = "1f1b"\nsteps = 1\nlayers = 4\nwidth = 16\nheads = 2\n')
        results = self.results("train", "--text", "text.txt", "--config", "run.toml", "--hint", "bfw")
        self.assertEqual(results["config"]["method"], "bfw")


class BadInput(TinyModelTest):
    def refuse_training(self, field, *arguments):
        self.refuse(field, "train", *SETTINGS, *arguments)
        self.refuse(field, "train", *SETTINGS, *arguments, "--no-pipeline")

    def test_sizes_of_the_model(self):
        for option in ("layers", "width", "heads", "context", "micro-batch-size", "microbatches", "stages"):
            with self.subTest(option):
                self.refuse_training(option, f"--{option}", 0)
        self.refuse_training("heads", "--heads", 3)
        self.refuse_training("heads", "--heads", 32)

    def test_huge_sizes(self):
        for option in ("layers", "width", "context", "micro-batch-size"):
            with self.subTest(option):
                self.refuse_training(option, f"--{option}", 4_000_000_000)

    def test_training_options(self):
        for value in (-1, 0, "nan", "inf"):
            self.refuse_training("lr", f"--lr={value}")
        for value in (1.5, 1, -0.1, "nan"):
            self.refuse_training("dropout", f"--dropout={value}")
        for value in (-1, "nan", "inf"):
            self.refuse_training("clip", f"--clip={value}")
            self.refuse_training("weight-decay", f"--weight-decay={value}")

    def test_more_chunks_than_layers(self):
        self.refuse("stages", "train", *SETTINGS, "--stages", 5)
        self.refuse("stages", "train", *SETTINGS, "--stages", 4, "--chunks-per-stage", 2)
        self.refuse("stages", "compare", *TINY_MODEL, "--text", "text.txt", "--stages", 5)

    def test_text(self):
        (self.folder / "empty.txt").touch()
        (self.folder / "short.txt").write_text("sixteen letters.")
        (self.folder / "binary").write_bytes(bytes(range(256)))
        (self.folder / "folder").mkdir()
        for path in ("empty.txt", "short.txt", "binary", "folder", "missing.txt", "/dev/null"):
            with self.subTest(path):
                self.refuse_training("text", "--text", path)

    def test_text_too_short_to_evaluate_on(self):
        (self.folder / "short.txt").write_text("a few words " * 5)
        self.refuse_training("text", "--text", "short.txt", "--eval-every", 1)

    def test_nothing_is_written(self):
        (self.folder / "results.json").write_text("old")
        outputs = ["--json", "results.json", "--trace", "new.json"]
        self.refuse("stages", "train", *SETTINGS, "--stages", 5, *outputs)
        self.assertEqual((self.folder / "results.json").read_text(), "old")


class Divergence(TinyModelTest):
    def test_training_ends_where_it_diverges(self):
        files = self.files()
        for cause, way in (
            ("gradient norm", ["--hint", "bf"]),
            ("gradient norm", ["--schedule", "1f1b"]),
            ("gradient norm", ["--no-pipeline"]),
            ("loss of step", ["--clip", 0]),
            ("loss of step", ["--clip", 0, "--no-pipeline"]),
        ):
            with self.subTest(way):
                pictures = ["--timeline", "out.html", "--trace", "out.trace.json"]
                outputs = ["--json", "out.json", *([] if "--no-pipeline" in way else pictures)]
                done = self.sluice("train", *SETTINGS, "--steps", 20, "--lr", 1e30, *way, *outputs)
                self.fail_running(cause, done)
                self.assertEqual(self.files(), files)


if __name__ == "__main__":
    unittest.main()
