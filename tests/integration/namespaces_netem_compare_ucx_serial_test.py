"""`sluice compare` over slow, uneven and lossy links (`tc netem`); skipped where the kernel has no netem."""

from namespace_runs import HOSTS, NamespaceRunTest
from namespaces import Link, main


class Compare(NamespaceRunTest):
    LINK = Link(delay_ms=3, jitter_ms=2, loss_percent=0.5)
    MICROBATCHES, ITERATIONS = 16, 5

    def test_readiness_beats_1f1b(self):
        results = self.distributed(
            "compare", "--emulate", "f=2ms,b=4ms,w=2ms", "--stages", HOSTS, "--microbatches", self.MICROBATCHES,
            "--iterations", self.ITERATIONS, "--methods", "1f1b,bf",
            at_least=2 * self.ITERATIONS * self.MICROBATCHES * 100,
        )  # fmt: skip
        self.assertEqual([method["name"] for method in results["methods"]], ["1f1b", "bf"])
        self.assertGreater(results["methods"][1]["speedup_vs_first"], 1, results["methods"])


if __name__ == "__main__":
    main()
