"""A tiny model, trained over hosts and by one process."""

from namespace_runs import HOSTS, NamespaceRunTest
from sluice_command import write_text
from train_runs import TINY_MODEL

MICROBATCHES, STEPS = 6, 2
WIDTH, CONTEXT = TINY_MODEL[TINY_MODEL.index("--width") + 1], TINY_MODEL[TINY_MODEL.index("--context") + 1]


class NamespaceTrainingTest(NamespaceRunTest):
    def setUp(self):
        super().setUp()
        text = self.folder / "text.txt"
        write_text(text)
        self.settings = [*TINY_MODEL, "--microbatches", MICROBATCHES, "--steps", STEPS, "--text", text]
        alone = self.results("train", *self.settings, "--no-pipeline")
        self.alone = (alone["losses"], alone["parameters_sha256"])

    def assert_same_as_one_process(self, *way):
        # Every rank sends an activation or a gradient of each microbatch at least.
        tensors = STEPS * MICROBATCHES * WIDTH * CONTEXT * 4
        results = self.distributed("train", *self.settings, "--stages", HOSTS, *way, at_least=tensors)
        self.assertEqual(len(results["per_stage"]), HOSTS)
        self.assertEqual((results["losses"], results["parameters_sha256"]), self.alone)
