"""Tensor-parallel ranks that see their inputs at different times, as processes on emulated devices whose
tasks hold collectives: they run the same tasks in the same order."""

import unittest

from process_runs import ProcessTest

# Messages are late by more than a task takes, on each rank of a stage by itself.
SKEWED = ["--emulate", "f=4ms,b=8ms,w=4ms", "--jitter", "tail:0.5,10", "--microbatches", 12, "--iterations", 2]


class Agreement(ProcessTest):
    def compare(self, *more):
        results = self.results("compare", *SKEWED, *more)
        return {method["name"]: method for method in results["methods"]}

    def test_every_form_when_first_picks_differ(self):
        for form in ("leader", "bitmap", "first-pick"):
            with self.subTest(form):
                rules = ["--rules", "paper"] if form == "first-pick" else []
                methods = self.compare(
                    "--spawn", 8, "--tp", 2, "--methods", "1f1b,bf,bfw", "--agreement", form, *rules
                )
                self.assertEqual(methods["1f1b"]["agreement"]["decisions"], 0)
                for name in ("bf", "bfw"):
                    agreement = methods[name]["agreement"]
                    # Three iterations with the warm-up; a weight gradient may be a task of its own.
                    self.assertGreaterEqual(agreement["decisions"], 3 * 4 * 12 * 2)
                    self.assertGreater(agreement["picks_differed"], 0)
                    if form == "first-pick":
                        self.assertGreater(agreement["deferrals"], 0)

    def test_four_ranks_a_stage(self):
        methods = self.compare("--spawn", 8, "--tp", 4, "--methods", "bf,bfw", "--launch-ahead", 2, "--lead", "1ms")
        for method in methods.values():
            self.assertGreater(method["agreement"]["picks_differed"], 0)

    def test_replicas_agree_each_for_itself(self):
        methods = self.compare("--spawn", 8, "--tp", 2, "--dp", 2, "--methods", "bf")
        # Three iterations of two replicas of two stages.
        self.assertGreaterEqual(methods["bf"]["agreement"]["decisions"], 3 * 2 * 2 * 12 * 2)
        self.assertEqual(len(methods["bf"]["per_stage"]), 2)

    def test_backpressure_and_chunks(self):
        for more in (["--limit", 2], ["--limit", 3, "--chunks-per-stage", 2], ["--limit", "4,3,2,1"]):
            with self.subTest(more):
                stages = 2 if "--chunks-per-stage" in more else 4
                methods = self.compare("--spawn", 2 * stages, "--tp", 2, "--methods", "bf,bfw", *more)
                for method in methods.values():
                    self.assertGreater(method["agreement"]["decisions"], 0)


if __name__ == "__main__":
    unittest.main()
