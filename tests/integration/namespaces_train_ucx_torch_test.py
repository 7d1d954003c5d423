"""Training with one rank on each of four hosts ends with the parameters that one process ends with."""

from namespace_training import NamespaceTrainingTest
from namespaces import main


class Training(NamespaceTrainingTest):
    def test_same_result_as_one_process(self):
        for way in (["--hint", "bf"], ["--hint", "bfw", "--limit", 2], ["--schedule", "1f1b"]):
            with self.subTest(way):
                self.assert_same_as_one_process(*way)

    def test_late_messages(self):
        self.assert_same_as_one_process("--hint", "bfw", "--jitter", "tail:0.3,10")


if __name__ == "__main__":
    main()
