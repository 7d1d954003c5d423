"""Training over slow, uneven and lossy links (`tc netem`); skipped where the kernel has no netem."""

from namespace_training import NamespaceTrainingTest
from namespaces import Link, main


class Training(NamespaceTrainingTest):
    LINK = Link(delay_ms=3, jitter_ms=2, loss_percent=0.5)

    def test_same_result_as_one_process(self):
        self.assert_same_as_one_process("--hint", "bf")


if __name__ == "__main__":
    main()
