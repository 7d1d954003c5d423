"""DeepSpeed's pipeline engine, run readiness-first, against itself."""

import os
import unittest

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed  # noqa: E402
import deepspeed.comm.torch  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from deepspeed.pipe import PipelineModule  # noqa: E402
from ranks import run_ranks  # noqa: E402
from sluice import Pipeline, Schedule  # noqa: E402
from sluice.deepspeed import install  # noqa: E402
from torch import nn  # noqa: E402

MICROBATCHES = 6
WIDTH = 16
STEPS = 3
LATE = "tail:0.4,3"


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, inputs):
        return torch.tanh(self.layer(inputs))


class Several(nn.Module):
    """Passes two tensors on, and numbers that have no gradient."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, inputs):
        if isinstance(inputs, torch.Tensor):
            inputs = (inputs, inputs, torch.arange(3))
        first, second, numbers = inputs
        return torch.tanh(self.layer(first)) * numbers.sum(), self.layer(second) + first, numbers


class Fails(Plain):
    def forward(self, inputs):
        if dist.get_rank() == 1:
            raise KeyError("broken on purpose")
        return super().forward(inputs)


def loss_of(outputs, target):
    first = outputs if isinstance(outputs, torch.Tensor) else outputs[0] + outputs[1]
    return ((first - target) ** 2).mean()


def engine_of(layer):
    # It would compile collectives that nothing here uses.
    deepspeed.comm.torch.build_shm_op = lambda: None
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    torch.manual_seed(1)
    ranks = dist.get_world_size()
    module = PipelineModule([layer() for _ in range(ranks)], num_stages=ranks, loss_fn=loss_of)
    engine, *_ = deepspeed.initialize(
        model=module,
        config={
            "train_micro_batch_size_per_gpu": 2,
            "gradient_accumulation_steps": MICROBATCHES,
            "steps_per_print": 1000,
        },
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
    )
    return engine


def data():
    torch.manual_seed(2)
    while True:
        yield torch.randn(2, WIDTH), torch.randn(2, WIDTH)


def trained(engine):
    batches = data()
    losses = [engine.train_batch(batches) for _ in range(STEPS)]
    losses.append(engine.eval_batch(batches))
    losses.append(engine.train_batch(batches))
    return [*losses, *(parameter.detach().clone() for parameter in engine.module.parameters())]


def both(layer, options):
    expected = trained(engine_of(layer))
    engine = engine_of(layer)
    if options.get("hint") == "1f1b":
        pipeline = Pipeline.chain(dist.get_world_size(), MICROBATCHES)
        options = {**options, "hint": Schedule.one_f_one_b(pipeline)}
    install(engine, **options)
    found = trained(engine)
    return len(found) == len(expected) and all(
        map(torch.equal, found, expected)
    ), engine._exec_schedule.last_step


def fails():
    engine = engine_of(Fails)
    install(engine)
    try:
        engine.train_batch(data())
    except Exception as error:  # noqa: BLE001 - which one it is, is what the test looks at
        return type(error).__name__, str(error)
    return None


def refused():
    engine = engine_of(Plain)
    raised = []
    for given, options in [
        (engine, {"hint": "bfw"}),
        (engine, {"limit": 0}),
        (engine.module, {}),
    ]:
        try:
            install(given, **options)
        except (TypeError, ValueError) as error:
            raised.append((type(error).__name__, str(error)))
    return raised


class Install(unittest.TestCase):
    def test_losses_and_parameters_are_deepspeeds_bit_for_bit(self):
        for ranks, layer, options in [
            (2, Plain, {"delays": LATE}),
            (3, Several, {"delays": LATE, "hint": "fb", "limit": 3}),
            (2, Several, {"hint": "1f1b"}),
        ]:
            with self.subTest(ranks=ranks, layer=layer.__name__, **options):
                for equal, last_step in run_ranks(ranks, both, layer, options):
                    self.assertTrue(equal)
                    self.assertEqual(last_step["tasks"], 2 * MICROBATCHES)
                    self.assertLessEqual(last_step["peak_in_flight"], options.get("limit", MICROBATCHES))

    def test_an_exception_of_one_rank_is_raised_on_all(self):
        (other, text), (kind, _) = run_ranks(2, fails)
        self.assertEqual((other, kind), ("Aborted", "KeyError"))
        self.assertIn("rank 1", text)

    def test_names_what_it_refuses(self):
        for (kind, split), (_, limit), (wrong, engine) in run_ranks(2, refused):
            self.assertEqual((kind, wrong), ("ValueError", "TypeError"))
            self.assertIn("hint: 'bfw' splits backwards", split)
            self.assertIn("limit: must be a whole number", limit)
            self.assertIn("engine: must be a deepspeed PipelineEngine", engine)


if __name__ == "__main__":
    unittest.main()
