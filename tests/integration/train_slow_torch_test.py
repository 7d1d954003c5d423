"""The main job at its real size: one result under every method, cut and timing, dropout included."""

import unittest

from train_runs import METHODS, TrainTest

SETTINGS = ["--steps", 20, "--microbatches", 16]
WAYS = {
    "4 stages": ["--stages", 4],
    **METHODS,
    "1 stage": ["--stages", 1],
    "2 stages": ["--stages", 2],
    "2 stages, bfw": ["--stages", 2, "--hint", "bfw"],
    "jitter j3": ["--jitter", "j3"],
    "jitter j3, bfw": ["--jitter", "j3", "--hint", "bfw"],
    "jitter j3, 1f1b": ["--jitter", "j3", "--schedule", "1f1b"],
}


class MainJob(TrainTest):
    def test_one_result(self):
        losses, _ = self.assert_all_the_same(SETTINGS, WAYS)
        self.assertLess(losses[-1], losses[0] - 1)

    def test_one_result_with_dropout(self):
        losses, _ = self.assert_all_the_same([*SETTINGS, "--dropout", 0.1], WAYS)
        self.assertLess(losses[-1], losses[0] - 1)


if __name__ == "__main__":
    unittest.main()
