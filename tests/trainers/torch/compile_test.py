"""Stages that `torch.compile` has compiled: run as torch's schedules run them, or refused as torch does."""

import unittest

import torch
import torch.distributed as dist
from ranks import run_ranks
from sluice.torch import ReadinessSchedule
from steps import batch, loss_of, model, same, torchs_own, train
from torch.distributed.pipelining import PipelineStage, ScheduleInterleavedZeroBubble

MICROBATCHES = 4
# Traces forward and backward as the default backend does, without generating code.
BACKEND = "aot_eager"


def compiled_stages():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = model(2 * ranks)
    return [
        PipelineStage(torch.compile(chunks[index], backend=BACKEND), index, len(chunks), torch.device("cpu"))
        for index in range(rank, len(chunks), ranks)
    ]


def equal():
    inputs, target = batch(MICROBATCHES)
    stages = compiled_stages()
    expected = train(torchs_own(stages, MICROBATCHES), stages, inputs, target)
    stages = compiled_stages()
    schedule = ReadinessSchedule(stages, MICROBATCHES, loss_of, delays="tail:0.3,3")
    found = train(schedule, stages, inputs, target)
    schedule.close()
    return same(found, expected)


def raised_by(schedule, **options):
    try:
        schedule(compiled_stages(), MICROBATCHES, loss_of, **options)
    except RuntimeError as error:
        return str(error)
    return None


def refused():
    return raised_by(ReadinessSchedule, hint="bfw"), raised_by(ScheduleInterleavedZeroBubble)


class Compiled(unittest.TestCase):
    def test_gradients_are_torchs_bit_for_bit(self):
        self.assertEqual(run_ranks(2, equal), [True] * 2)

    def test_a_split_backward_is_refused_as_torch_refuses_it(self):
        for ours, torchs in run_ranks(1, refused):
            self.assertIsNotNone(torchs)
            self.assertIn("compile", ours)
            self.assertIn("splits backwards", ours)


if __name__ == "__main__":
    unittest.main()
