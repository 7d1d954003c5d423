"""Training runs that must all end with the same parameters."""

from sluice_command import SluiceTest

HINTS = ("bf", "fb", "b-priority", "f-priority", "bfw")
SCHEDULES = ("gpipe", "1f1b", "zb-h1")

TINY_MODEL = ["--layers", 4, "--width", 16, "--heads", 2, "--context", 16, "--micro-batch-size", 1]

# Ways to order and cut the work of a step; none may change a bit of the result.
METHODS = {
    "no pipeline": ["--no-pipeline"],
    **{hint: ["--hint", hint] for hint in HINTS},
    **{schedule: ["--schedule", schedule] for schedule in SCHEDULES},
    "interleaved": ["--schedule", "interleaved", "--stages", 2, "--chunks-per-stage", 2],
}
CUTS = {
    "1 stage": ["--stages", 1],
    "2 stages": ["--stages", 2],
    "2 stages, 1f1b": ["--stages", 2, "--schedule", "1f1b"],
    "2 stages of 2 chunks": ["--stages", 2, "--chunks-per-stage", 2],
    "2 stages of 2 chunks, limit 2": ["--stages", 2, "--chunks-per-stage", 2, "--limit", 2, "--hint", "bfw"],
    "1 stage of 4 chunks": ["--stages", 1, "--chunks-per-stage", 4, "--limit", 4],
}
TIMING = {
    "jitter j3": ["--jitter", "j3"],
    "jitter j3, bfw": ["--jitter", "j3", "--hint", "bfw"],
    "jitter j3, 1f1b": ["--jitter", "j3", "--schedule", "1f1b"],
    "heavy tail": ["--jitter", "tail:0.3,10"],
    "heavy tail, fb, 2 stages": ["--jitter", "tail:0.3,10", "--hint", "fb", "--stages", 2],
    "limit 1": ["--limit", 1],
    "limit 2": ["--limit", 2, "--hint", "bfw"],
    "limit 3, heavy tail": ["--limit", 3, "--jitter", "tail:0.3,10"],
    "launch-ahead 2": ["--launch-ahead", 2],
    "launch-ahead 2, bfw, limit 2": ["--launch-ahead", 2, "--hint", "bfw", "--limit", 2],
}


class TrainTest(SluiceTest):
    def assert_all_the_same(self, settings, ways):
        """The losses and the hash of every way, which must be one."""
        outcomes = {}
        for name, way in ways.items():
            results = self.results("train", *settings, *way)
            outcomes[name] = (results["losses"], results["parameters_sha256"])
        first, *others = outcomes
        for name in others:
            with self.subTest(name):
                self.assertEqual(outcomes[name], outcomes[first], f"{name} differs from {first}")
        return outcomes[first]
