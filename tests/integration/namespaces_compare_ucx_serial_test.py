"""`sluice compare` with one rank on each of four hosts."""

from namespace_runs import HOSTS, NamespaceRunTest
from namespaces import main


class Compare(NamespaceRunTest):
    MICROBATCHES, ITERATIONS = 16, 5

    def test_readiness_beats_1f1b(self):
        results = self.distributed(
            "compare", "--emulate", "f=2ms,b=4ms,w=2ms", "--stages", HOSTS, "--microbatches", self.MICROBATCHES,
            "--iterations", self.ITERATIONS, "--jitter", "tail:0.3,10", "--methods", "1f1b,bf,bfw",
            # An offer, an acceptance and a header at least, for every message of the three methods.
            at_least=3 * self.ITERATIONS * self.MICROBATCHES * 100,
        )  # fmt: skip
        self.assertEqual([method["name"] for method in results["methods"]], ["1f1b", "bf", "bfw"])
        for method in results["methods"]:
            self.assertEqual(len(method["per_stage"]), HOSTS)
        for method in results["methods"][1:]:
            self.assertGreater(method["speedup_vs_first"], 1, method)


if __name__ == "__main__":
    main()
