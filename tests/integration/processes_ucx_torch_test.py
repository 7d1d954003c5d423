"""`sluice train` with a process for each rank: the same numbers as with threads, whoever starts them."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from process_runs import ProcessTest
from sluice_command import BINARY, RUN_FAILED, write_text
from train_runs import TINY_MODEL

MICROBATCHES, STEPS = 6, 3
SETTINGS = [*TINY_MODEL, "--microbatches", MICROBATCHES, "--steps", STEPS, "--text", "text.txt"]


def torchrun():
    """The launcher that belongs to the LibTorch of this build, or None."""
    prefix = pathlib.Path(os.environ["SLUICE_TORCH_PREFIX"])
    found = prefix.parents[3] / "bin" / "torchrun"
    return found if found.exists() else None


class TrainInProcesses(ProcessTest):
    def setUp(self):
        super().setUp()
        write_text(self.folder / "text.txt")

    def outcome(self, *way):
        results = self.results("train", *SETTINGS, *way)
        return results["losses"], results["parameters_sha256"]

    def test_the_same_as_threads(self):
        threads = self.outcome("--stages", 4)
        for way in (["--spawn", 4], ["--spawn", 2], ["--spawn", 4, "--schedule", "1f1b"],
                    ["--spawn", 4, "--hint", "bfw", "--jitter", "tail:0.3,10", "--limit", 2],
                    ["--spawn", 2, "--chunks-per-stage", 2, "--hint", "fb"],
                    ["--spawn", 2, "--schedule", "dualpipe-v", "--chunks-per-stage", 2]):  # fmt: skip
            with self.subTest(way):
                self.assertEqual(self.outcome(*way), threads)

    def test_options_of_the_model(self):
        options = ["--dropout", 0.1, "--tied-embeddings", "--clip", 0.05, "--eval-every", 1]
        in_threads = self.results("train", *SETTINGS, *options, "--stages", 3)
        in_processes = self.results("train", *SETTINGS, *options, "--spawn", 3)
        for field in ("losses", "eval_losses", "parameters_sha256"):
            self.assertEqual(in_processes[field], in_threads[field], field)

    def test_every_output(self):
        outputs = ["--timeline", "run.html", "--trace", "run.json", "--decisions", "decisions.json",
                   "--record", "run.record.json"]  # fmt: skip
        self.succeed("train", *SETTINGS, "--spawn", 2, "--hint", "bfw", *outputs)
        (tasks,) = self.tasks_of_trace("run.json").values()
        self.assert_complete(tasks, range(STEPS), 2, MICROBATCHES)
        stages = json.loads((self.folder / "decisions.json").read_text())["stages"]
        self.assertEqual([len(decisions) for decisions in stages], [len(tasks) // 2] * 2)
        self.assertIn("bfw", self.succeed("trace", "summary", "run.record.json"))

    def test_a_hint_that_adapts(self):
        self.assertEqual(self.outcome("--spawn", 3, "--hint", "auto"), self.outcome("--stages", 3))

    def test_torchrun(self):
        launcher = torchrun()
        if launcher is None:
            self.skipTest("this LibTorch has no torchrun beside it")
        command = [launcher, "--no-python", "--nproc-per-node", 4, "--master-port", self.free_port(),
                   BINARY, "train", *SETTINGS, "--json", "torchrun.json"]  # fmt: skip
        done = subprocess.run([str(part) for part in command], cwd=self.folder, capture_output=True, text=True,
                              timeout=200)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        results = json.loads((self.folder / "torchrun.json").read_text())
        self.assertEqual((results["losses"], results["parameters_sha256"]), self.outcome("--stages", 4))

    def test_ranks_started_by_hand(self):
        ranks = self.start_ranks(3, lambda rank: ["train", *SETTINGS, "--json", "by_hand.json"])
        for rank, process in enumerate(ranks):
            _, errors = process.communicate(timeout=100)
            self.assertEqual(process.returncode, 0, f"rank {rank}: {errors}")
        results = json.loads((self.folder / "by_hand.json").read_text())
        self.assertEqual((results["losses"], results["parameters_sha256"]), self.outcome("--stages", 3))


class Parallelism(ProcessTest):
    """Replicas and tensor-parallel ranks sum in another order than one rank does: close, not equal."""

    RELATIVE = 1e-6

    def setUp(self):
        super().setUp()
        write_text(self.folder / "text.txt")

    def losses(self, microbatches, *way):
        return self.results("train", *TINY_MODEL, "--microbatches", microbatches, "--steps", 5, "--text",
                            "text.txt", *way)["losses"]  # fmt: skip

    def assert_close(self, losses, expected):
        self.assertEqual(len(losses), len(expected))
        for step, (loss, other) in enumerate(zip(losses, expected)):
            self.assertLess(abs(loss - other), self.RELATIVE * other, f"step {step}: {losses} {expected}")

    def test_tensor_parallel(self):
        self.assert_close(self.losses(4, "--spawn", 4, "--tp", 2), self.losses(4, "--no-pipeline"))

    def test_data_parallel(self):
        self.assert_close(self.losses(3, "--spawn", 4, "--dp", 2), self.losses(6, "--no-pipeline"))
        reduction = json.loads((self.folder / "results.json").read_text()).get("reduction")
        self.assertIsNone(reduction, "of the run without replicas")

    def test_two_of_each(self):
        self.assert_close(
            self.losses(3, "--spawn", 8, "--tp", 2, "--dp", 2, "--hint", "bfw"), self.losses(6, "--no-pipeline")
        )

    def test_every_agreement_gives_the_same_bits(self):
        # First picks can differ for ever unless gradients may be added up in any order.
        settings = [*TINY_MODEL, "--microbatches", 4, "--steps", 2, "--text", "text.txt", "--spawn", 4, "--tp", 2,
                    "--jitter", "tail:0.5,10"]  # fmt: skip
        outcomes = {
            form: self.results("train", *settings, "--agreement", form)
            for form in ("leader", "bitmap")
        }
        self.refuse("agreement", "train", *settings, "--agreement", "first-pick")
        hashes = {form: results["parameters_sha256"] for form, results in outcomes.items()}
        self.assertEqual(len(set(hashes.values())), 1, hashes)
        for form, results in outcomes.items():
            self.assertGreater(results["agreement"]["decisions"], 0, form)


class FailureOfTraining(ProcessTest):
    """Ranks that wait for each other in collectives, where nothing interrupts them."""

    def test_kill_and_stop(self):
        write_text(self.folder / "text.txt")
        endless = ["train", *TINY_MODEL, "--microbatches", 4, "--steps", 100_000, "--text", "text.txt",
                   "--tp", 2, "--dp", 2, "--stall-timeout", 3]  # fmt: skip
        for name, send, expected in (("killed", signal.SIGKILL, "rank 5 died"),
                                     ("stopped", signal.SIGSTOP, "nothing was heard of rank 5")):  # fmt: skip
            with self.subTest(name):
                ranks = self.start_ranks(8, lambda rank: endless)
                self.assertIn("step ", ranks[0].stderr.readline())
                ranks[5].send_signal(send)
                for rank, process in enumerate(ranks):
                    if rank == 5:
                        continue
                    _, errors = process.communicate(timeout=30)
                    self.assertEqual(process.returncode, RUN_FAILED, errors)
                    self.assertIn("rank 5 (stage 1, replica 0, member 1)", errors)
                    self.assertRegex(errors, expected.replace("rank 5", r"rank 5 \(.*\)"))
                ranks[5].kill()


if __name__ == "__main__":
    unittest.main()
