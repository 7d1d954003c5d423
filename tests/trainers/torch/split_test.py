"""Backwards in two halves: torch's where that saves work, else whole, said once; gradients are torch's."""

import copy
import unittest
import warnings
from unittest import mock

import sluice
import torch
import torch.distributed as dist
from ranks import run_ranks
from sluice.torch import ReadinessSchedule
from sluice.torch._backward import Backwards
from steps import last, same
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.utils.checkpoint import checkpoint

RANKS = 3
MICROBATCHES = 6
ROWS = 2
WIDTH = 8
STEPS = 2
CPU = torch.device("cpu")


class AtOnce(torch.autograd.Function):
    """A linear layer whose backward computes both gradients, whichever is asked for."""

    runs = 0

    @staticmethod
    def forward(ctx, inputs, weight):
        ctx.save_for_backward(inputs, weight)
        return inputs @ weight.T

    @staticmethod
    def backward(ctx, gradient):
        AtOnce.runs += 1
        inputs, weight = ctx.saved_tensors
        return gradient @ weight, gradient.T @ inputs


class Usual(nn.Module):
    told_shapes = False

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, inputs):
        return torch.relu(self.layer(inputs))


class Custom(Usual):
    def forward(self, inputs):
        return AtOnce.apply(inputs, self.layer.weight)


class Mixed(Usual):
    def forward(self, inputs):
        return self.layer(AtOnce.apply(inputs, self.layer.weight))


class Beside(Usual):
    """An output that depends on a parameter and on no input."""

    def forward(self, inputs, scale=None):
        outputs = self.layer(inputs if scale is None else inputs * scale)
        return outputs if last() else (outputs, 1 + self.layer.bias**2)


class Rerun(Usual):
    """torch cannot find out its shapes, as that runs the backward for the inputs alone."""

    told_shapes = True

    def forward(self, inputs):
        return (
            checkpoint(super().forward, inputs, use_reentrant=True)
            if inputs.requires_grad
            else super().forward(inputs)
        )


class Looks(nn.Module):
    """The first stage passes words on, which have no gradient."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WIDTH, WIDTH)

    def forward(self, inputs):
        if dist.get_rank() == 0:
            return (inputs * 2).long().clamp(0, WIDTH - 1)
        return (
            self.table(inputs.clamp(0, WIDTH - 1)).mean(1)
            if inputs.dtype == torch.long
            else inputs * self.table.weight[0]
        )


class Bare(nn.Module):
    """No parameters but on the first stage."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH) if dist.get_rank() == 0 else nn.Tanh()

    def forward(self, inputs):
        return self.layer(inputs)


def squared(output, target):
    return ((output - target[..., :1]) ** 2).mean()


def last_microbatch_first():
    """Ranks backwards so that they run out of turn, and their weight gradients apart."""
    pipeline = sluice.Pipeline.chain(RANKS, MICROBATCHES, split_backward=True)
    turned = list(reversed(range(MICROBATCHES)))
    orders = [
        [sluice.Task("F", each, stage) for each in turned]
        + [sluice.Task("B", each, stage) for each in turned]
        + [sluice.Task("W", each, stage) for each in range(MICROBATCHES)]
        for stage in range(RANKS)
    ]
    return sluice.Schedule("turned", orders, pipeline)


def shapes(module):
    """Of inputs and outputs, for torch not to run the module to know them."""
    if not getattr(module, "told_shapes", False):
        return []
    return [torch.zeros(ROWS, WIDTH, requires_grad=needed) for needed in (dist.get_rank() > 0, True)]


def train(kind, module, **options):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(6)
    data = torch.rand(MICROBATCHES * ROWS, WIDTH)
    stage = PipelineStage(copy.deepcopy(module), rank, ranks, CPU, *shapes(module))
    schedule = kind(stage, MICROBATCHES, squared, **options)
    for _ in range(STEPS):
        output = schedule.step(*([data] if rank == 0 else []), **({"target": data} if last() else {}))
    gradients = [each.grad for each in stage.submod.parameters() if each.grad is not None]
    return [torch.zeros(1), *gradients, *([] if output is None else [output.detach()])]


def outcomes(module_class):
    """For each hint: whether results are torch's, what was warned of, and how many backwards ran apart."""
    torch.manual_seed(7 + dist.get_rank())
    module = module_class()
    expected = train(ScheduleGPipe, module)
    found = []
    for hint in ("bf", "bfw", last_microbatch_first()):
        AtOnce.runs = 0
        with (
            warnings.catch_warnings(record=True) as warned,
            mock.patch.object(
                Backwards, "_run_apart", autospec=True, side_effect=Backwards._run_apart
            ) as apart,
        ):
            warnings.simplefilter("always")
            results = train(ReadinessSchedule, module, hint=hint, limit=MICROBATCHES)
        texts = [str(each.message) for each in warned if "run whole" in str(each.message)]
        found.append(
            {
                "equal": same(results, expected),
                "warned": texts,
                "apart": apart.call_count,
                "runs": AtOnce.runs,
            }
        )
    return found


class Deferred(Usual):
    """Its backward, whoever runs it, leaves the weight gradient to what `runner` returns."""

    told_shapes = True

    def __init__(self):
        super().__init__()
        self.left = []

    def forward(self, inputs):
        return Leaves.apply(inputs, self.layer.weight, self.left)

    def runner(self):
        left, self.left[:] = list(self.left), []

        def run():
            for inputs, gradient in left:
                added = gradient.T @ inputs
                weight = self.layer.weight
                weight.grad = added if weight.grad is None else weight.grad + added

        return run


class Leaves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs, weight, left):
        ctx.save_for_backward(inputs, weight)
        ctx.left = left
        return inputs @ weight.T

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight = ctx.saved_tensors
        ctx.left.append((inputs.detach(), gradient))
        return gradient @ weight, None, None


def with_dw_builder():
    """Whether stages that split by a `dw_builder` of their own give what torch's schedule gives without."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7 + rank)
    module = Custom()
    expected = train(ScheduleGPipe, module)
    deferred = Deferred()
    deferred.load_state_dict(module.state_dict())
    torch.manual_seed(6)
    data = torch.rand(MICROBATCHES * ROWS, WIDTH)
    equal = []
    for hint in ("bf", "bfw"):
        own = copy.deepcopy(deferred)
        stage = PipelineStage(own, rank, ranks, CPU, *shapes(own), dw_builder=own.runner)
        schedule = ReadinessSchedule(stage, MICROBATCHES, squared, hint=hint)
        for _ in range(STEPS):
            output = schedule.step(*([data] if rank == 0 else []), **({"target": data} if last() else {}))
        found = [own.layer.weight.grad, *([] if output is None else [output.detach()])]
        equal.append(same(found, expected[1:]))
    return equal


class Split(unittest.TestCase):
    def assert_equal_to_torchs(self, module):
        ranks = run_ranks(RANKS, outcomes, module)
        for rank in ranks:
            self.assertEqual([each["equal"] for each in rank], [True] * 3)
            self.assertEqual(rank[0]["warned"], [])
        return ranks

    def assert_whole(self, module, reason):
        """Stages but the first one, which has all its work in the second half anyway."""
        ranks = self.assert_equal_to_torchs(module)
        for index, (_, bfw, turned) in enumerate(ranks[1:], start=1):
            for each in (bfw, turned):
                self.assertEqual(len(each["warned"]), 1)
                self.assertIn(f"stage {index}: ", each["warned"][0])
                self.assertIn(reason, each["warned"][0])
        # It has all microbatches before it is asked for the first, and so runs others out of turn.
        self.assertGreater(ranks[-1][2]["apart"], 0)
        return ranks

    def test_torchs_own_halves(self):
        for module in (Usual, Mixed):
            for rank in self.assert_equal_to_torchs(module):
                self.assertEqual([each["warned"] for each in rank], [[], [], []])
                self.assertEqual([each["apart"] for each in rank], [0, 0, 0])

    def test_a_backward_that_does_both_at_once(self):
        for rank in self.assert_whole(Custom, "AtOnceBackward")[1:]:
            for each in rank:
                # Once for each microbatch of both steps; and for torch to know the shapes.
                self.assertEqual(each["runs"], STEPS * MICROBATCHES + 1)

    def test_a_checkpoint_that_runs_its_own_backward(self):
        self.assert_whole(Rerun, "checkpoint")

    def test_a_parameter_beside_the_inputs(self):
        ranks = self.assert_equal_to_torchs(Beside)
        self.assertIn("beside the inputs", ranks[1][1]["warned"][0])

    def test_inputs_without_gradients(self):
        for rank in self.assert_equal_to_torchs(Looks):
            self.assertEqual([each["warned"] for each in rank], [[], [], []])

    def test_stages_without_parameters(self):
        self.assert_whole(Bare, "no weight gradients")

    def test_a_dw_builder(self):
        self.assertEqual(run_ranks(RANKS, with_dw_builder), [[True, True]] * RANKS)


if __name__ == "__main__":
    unittest.main()
