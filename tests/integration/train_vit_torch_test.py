"""`sluice train --model vit-gpt`: a GPT that describes images, whose sizes differ between microbatches."""

import math
import statistics
import unittest

from sluice_command import write_text
from train_runs import HINTS, SCHEDULES, TrainTest

MICROBATCHES, STEPS, GRID = 6, 2, 6
MODEL = ["--model", "vit-gpt", "--layers", 2, "--width", 16, "--heads", 2, "--context", 16,
         "--micro-batch-size", 2, "--encoder-layers", 2, "--image-grid", GRID]  # fmt: skip
SETTINGS = [*MODEL, "--microbatches", MICROBATCHES, "--steps", STEPS]
# Bytes of the description of one shape with its end, on average over six colours and four kinds.
BYTES = 29 / 6 + 1 + 25 / 4 + 1


class VitTest(TrainTest):
    def train(self, *more):
        return self.results("train", *SETTINGS, *more)

    def hash(self, *more):
        return self.train(*more)["parameters_sha256"]


class SameResult(VitTest):
    def test_every_method(self):
        ways = {
            "no pipeline": ["--no-pipeline"],
            **{hint: ["--hint", hint] for hint in HINTS},
            **{f"random {seed}": ["--hint", f"random:{seed}"] for seed in (1, 2)},
            "reversed": ["--hint", "reversed"],
            **{schedule: ["--schedule", schedule] for schedule in SCHEDULES},
            "interleaved": ["--schedule", "interleaved", "--stages", 2, "--chunks-per-stage", 2],
        }
        self.assert_all_the_same([*SETTINGS, "--stages", 4], ways)

    def test_every_cut(self):
        ways = {
            "1 stage": ["--stages", 1],
            "2 stages": ["--stages", 2],
            "3 stages, the boundary inside one": ["--stages", 3, "--hint", "bfw"],
            "an encoder of 1 stage": ["--stages", 3, "--encoder-chunks", 1],
            "an encoder of 2 stages, 1f1b": ["--stages", 3, "--encoder-chunks", 2, "--schedule", "1f1b"],
            "2 stages of 2 chunks, limit 2": ["--stages", 2, "--chunks-per-stage", 2, "--limit", 2],
            "no pipeline": ["--no-pipeline", "--encoder-chunks", 1],
        }
        self.assert_all_the_same(SETTINGS, ways)

    def test_every_timing(self):
        late = ["--jitter", "tail:0.3,5"]
        ways = {
            "undisturbed": [],
            "late messages, f-priority": [*late, "--hint", "f-priority"],
            "late messages, zb-h1": [*late, "--schedule", "zb-h1"],
            "limit 1": ["--limit", 1],
            "launch-ahead 2, bfw": ["--launch-ahead", 2, "--hint", "bfw"],
        }
        self.assert_all_the_same([*SETTINGS, "--stages", 3], ways)

    def test_options_of_the_model(self):
        ways = {
            "no pipeline": ["--no-pipeline"],
            "bfw, 4 stages": ["--stages", 4, "--hint", "bfw"],
        }
        variants = {
            "plain": [],
            "dropout": ["--dropout", 0.1],
            "tied embeddings": ["--tied-embeddings"],
            "clip": ["--clip", 0.05],
            "a wider encoder": ["--encoder-width", 24, "--encoder-heads", 3],
            "larger images": ["--image-grid", GRID + 1],
            "a deeper encoder, dropout, tied": ["--encoder-layers", 3, "--dropout", 0.1, "--tied-embeddings"],
        }
        outcomes = {}
        for name, variant in variants.items():
            with self.subTest(name):
                _, outcomes[name] = self.assert_all_the_same([*SETTINGS, *variant], ways)
        self.assertEqual(len(set(outcomes.values())), len(variants), "an option had no effect")

    def test_the_seed_matters(self):
        self.assertNotEqual(self.hash("--seed", 2), self.hash("--seed", 3))

    def test_compare_trains_every_method_alike(self):
        results = self.results(
            "compare", *MODEL, "--microbatches", MICROBATCHES, "--stages", 3, "--iterations", 2,
            "--methods", "1f1b,bf,bfw,zb-h1",
        )  # fmt: skip
        hashes = {method["parameters_sha256"] for method in results["methods"]}
        self.assertEqual(len(hashes), 1)
        self.assertEqual(results["config"]["model"], "vit-gpt")


class Training(VitTest):
    LEARN = ["--width", 32, "--micro-batch-size", 8, "--microbatches", 8, "--lr", 0.01, "--stages", 3]

    def test_the_loss_falls_below_what_a_model_that_sees_no_image_can_reach(self):
        results = self.train(*self.LEARN, "--steps", 150, "--eval-every", 150, "--hint", "bfw")
        losses = results["losses"]
        self.assertAlmostEqual(losses[0], math.log(256), delta=0.3)
        self.assertLess(losses[30], losses[0] / 3)
        blind = math.log(24) / BYTES  # one of 24 shapes
        self.assertLess(statistics.mean(losses[-10:]), 0.8 * blind)
        self.assertLess(results["eval_losses"][-1]["loss"], 0.8 * blind)

    def test_evaluation_leaves_the_training_alone(self):
        plain = self.train("--steps", 4)
        for way in ([], ["--no-pipeline"]):
            with self.subTest(way):
                evaluated = self.train("--steps", 4, "--eval-every", 2, *way)
                self.assertEqual(evaluated["losses"], plain["losses"])
                self.assertEqual(evaluated["parameters_sha256"], plain["parameters_sha256"])
                self.assertEqual([loss["step"] for loss in evaluated["eval_losses"]], [2, 4])
                for loss in evaluated["eval_losses"]:
                    self.assertAlmostEqual(loss["loss"], plain["losses"][-1], delta=1)


class Report(VitTest):
    def test_configuration(self):
        config = self.train("--stages", 3, "--encoder-chunks", 1, "--encoder-width", 24)["config"]
        expected = {"model": "vit-gpt", "encoder_layers": 2, "encoder_width": 24, "encoder_heads": 2,
                    "encoder_chunks": 1, "image_grid": GRID, "layers": 2, "width": 16}  # fmt: skip
        self.assertEqual({key: config[key] for key in expected}, expected)

    def test_a_gpt_says_so(self):
        write_text(self.folder / "text.txt")
        results = self.results("train", "--text", "text.txt", "--steps", 1, "--microbatches", 4,
                               "--layers", 4, "--width", 16, "--heads", 2)  # fmt: skip
        self.assertEqual(results["config"]["model"], "gpt")
        self.assertNotIn("image_patches", results)

    def test_the_work_of_microbatches_differs_in_the_timeline(self):
        settings = [*MODEL, "--microbatches", 16, "--steps", 3, "--stages", 3, "--encoder-chunks", 1,
                    "--image-grid", 10, "--encoder-width", 64]  # fmt: skip
        results = self.results("train", *settings, "--timeline", "run.html")
        patches = results["image_patches"]
        self.assertEqual([len(step) for step in patches], [16] * 3)
        for step in patches:
            self.assertTrue(all(4 <= count <= 100 for count in step))
            self.assertGreaterEqual(max(step), 3 * min(step))
        [spans] = self.spans_of_timeline("run.html").values()
        self.assert_complete(spans, range(3), 3, 16)
        self.show_forward_times(spans, patches)

    def show_forward_times(self, spans, patches):
        """How long the encoder's forwards took, as information: times are not asserted."""
        for step, sizes in enumerate(patches):
            times = {
                span["microbatch"]: 1e3 * (span["end_s"] - span["start_s"])
                for span in spans
                if (span["iteration"], span["stage"], span["pass"]) == (step, 0, "F")
            }
            order = sorted(times, key=lambda microbatch: sizes[microbatch])
            shown = ", ".join(f"{sizes[m]} patches {times[m]:.2f} ms" for m in (order[0], order[7], order[-1]))
            print(f"step {step}, forwards of the encoder: {shown}")


class BadInput(VitTest):
    def refuse_training(self, field, *arguments):
        self.refuse(field, "train", *SETTINGS, *arguments)
        self.refuse(field, "train", *SETTINGS, *arguments, "--no-pipeline")

    def test_sizes_of_the_encoder(self):
        for option in ("encoder-layers", "encoder-width", "encoder-heads", "image-grid"):
            with self.subTest(option):
                self.refuse(option, "train", *SETTINGS, f"--{option}", 0)
                self.refuse(option, "train", *SETTINGS, f"--{option}", 4_000_000_000, "--no-pipeline")
        self.refuse_training("encoder-heads", "--encoder-heads", 3)
        self.refuse("encoder-chunks", "train", *SETTINGS, "--encoder-chunks", 3)
        self.refuse("image-grid", "train", *SETTINGS, "--image-grid", 1)

    def test_pipelines_that_do_not_fit(self):
        self.refuse("stages", "train", *SETTINGS, "--stages", 5)
        self.refuse("encoder-chunks", "train", *SETTINGS, "--stages", 2, "--encoder-chunks", 2)
        self.refuse("stages", "train", *SETTINGS, "--stages", 4, "--encoder-chunks", 1)
        self.refuse("encoder-chunks", "compare", *MODEL, "--stages", 2, "--encoder-chunks", 2)

    def test_what_does_not_belong_to_the_model(self):
        self.refuse_training("context", "--context", 15)
        write_text(self.folder / "text.txt")
        self.refuse_training("text", "--text", "text.txt")
        for option in ("encoder-layers", "encoder-width", "encoder-heads", "encoder-chunks", "image-grid"):
            with self.subTest(option):
                self.refuse(option, "train", f"--{option}", 2)
        self.refuse("model", "train", "--model", "vit")
        self.refuse("model", "compare", "--model", "")


if __name__ == "__main__":
    unittest.main()
