"""`sluice.torch.ReadinessSchedule` against torch's own schedules on the same stages."""

import unittest

import torch.distributed as dist
from ranks import run_ranks
from sluice.torch import ReadinessSchedule, ReadinessScheduleSingle, register
from steps import (
    WIDTH,
    batch,
    loss_of,
    model,
    own_stages,
    same,
    stage_of,
    step_arguments,
    torchs_own,
    train,
)
from torch import nn
from torch.distributed.pipelining import Schedule1F1B
from torch.distributed.pipelining.schedules import (
    PipelineScheduleMulti,
    PipelineScheduleSingle,
    get_schedule_class,
)

MICROBATCHES = 8
LIMIT = 4


def equal(hint, per_rank):
    chunks = model(dist.get_world_size() * per_rank)
    inputs, target = batch(MICROBATCHES)
    stages = own_stages(chunks, per_rank)
    expected = train(torchs_own(stages, MICROBATCHES), stages, inputs, target)
    stages = own_stages(chunks, per_rank)
    schedule = ReadinessSchedule(stages, MICROBATCHES, loss_of, hint=hint, limit=LIMIT)
    found = train(schedule, stages, inputs, target)
    schedule.close()
    return {"equal": same(found, expected), "peak": schedule.last_step["peak_in_flight"]}


def raised_by(call):
    try:
        call()
    except Exception as error:  # noqa: BLE001 - which one it is, is what the test looks at
        return type(error).__name__, str(error)
    return None


def used_and_closed():
    args, kwargs = step_arguments(MICROBATCHES)
    schedule = ReadinessScheduleSingle(stage_of(nn.Linear(WIDTH, WIDTH)), MICROBATCHES, loss_of, hint="bfw")
    schedule.step(*args, **kwargs)
    evaluated = schedule.eval(*args, **kwargs)
    schedule.step(*args, **kwargs)
    schedule.close()
    return None if evaluated is None else list(evaluated.shape), raised_by(
        lambda: schedule.step(*args, **kwargs)
    )


class Readiness(unittest.TestCase):
    def test_outputs_losses_and_gradients_are_torchs_bit_for_bit(self):
        for ranks, hint, per_rank in ((1, "bf", 2), (2, "bf", 1), (4, "bfw", 2)):
            with self.subTest(ranks=ranks, hint=hint, per_rank=per_rank):
                for rank in run_ranks(ranks, equal, hint, per_rank):
                    self.assertTrue(rank["equal"])
                    # With several chunks, each may hold one more than the limit says.
                    self.assertLessEqual(rank["peak"], LIMIT + (per_rank if per_rank > 1 else 0))

    def test_evaluates_between_steps_and_is_closed(self):
        results = run_ranks(3, used_and_closed)
        self.assertEqual([shape for shape, _ in results], [None, None, [MICROBATCHES, WIDTH]])
        for _, (kind, text) in results:
            self.assertEqual(kind, "RuntimeError")
            self.assertIn("closed", text)

    def test_is_found_by_its_name(self):
        register()
        for name in ("Readiness", "ReadinessBFW", "ReadinessFPriority", "ReadinessPaceSingle"):
            found = get_schedule_class(name.upper())
            self.assertEqual(found.__name__, name)
            base = PipelineScheduleSingle if name.endswith("Single") else PipelineScheduleMulti
            self.assertTrue(issubclass(found, base))
        self.assertIs(get_schedule_class("1F1B"), Schedule1F1B)


if __name__ == "__main__":
    unittest.main()
