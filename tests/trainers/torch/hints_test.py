"""Every hint and placement gives torch's outputs, losses and gradients, whatever order the tasks ran in."""

import pathlib
import tempfile
import unittest
from unittest import mock

import sluice
import torch.distributed as dist
from ranks import run_ranks
from sluice.torch import ReadinessSchedule
from sluice.torch._microbatches import Microbatches
from steps import alone, batch, chunks_of, loss_of, model, own_stages, same, torchs_own, train

MICROBATCHES = 8
LIMIT = 4
LATE = "tail:0.3,3"
REVERSED = list(reversed(range(MICROBATCHES)))


def ours(chunks, per_rank, placement="loop", **options):
    stages = own_stages(chunks, per_rank, placement)
    schedule = ReadinessSchedule(
        stages, MICROBATCHES, loss_of, limit=LIMIT, placement=placement, delays=LATE, **options
    )
    results = train(schedule, stages, *batch(MICROBATCHES))
    schedule.close()
    return results


def expected_of(chunks, per_rank, placement="loop"):
    """Of torch's schedule, or of the stages one after the other where torch's accumulates in another order."""
    if placement == "v":
        return alone(
            chunks, chunks_of(dist.get_rank(), dist.get_world_size(), per_rank, placement), MICROBATCHES
        )
    stages = own_stages(chunks, per_rank)
    return train(torchs_own(stages, MICROBATCHES), stages, *batch(MICROBATCHES))


def all_hints():
    """(placement, stages a rank, hint) that differ from what is expected, and how many were compared."""
    wrong, compared = [], 0
    for placement, per_rank in (("loop", 1), ("loop", 2), ("v", 2)):
        chunks = model(dist.get_world_size() * per_rank)
        expected = expected_of(chunks, per_rank, placement)
        for hint in sluice.Hint.names():
            compared += 1
            if not same(ours(chunks, per_rank, placement, hint=hint), expected):
                wrong.append((placement, per_rank, hint))
    return wrong, compared


def reference():
    """Whether the stages one after the other give what torch's schedules give."""
    return [
        same(
            alone(model(2 * per_rank), chunks_of(dist.get_rank(), 2, per_rank), MICROBATCHES),
            expected_of(model(2 * per_rank), per_rank),
        )
        for per_rank in (1, 2)
    ]


def as_hint(folder):
    """Schedules as hints, in every form, that differ from what is expected."""
    chunks = model(4)
    expected = expected_of(chunks, 2)
    interleaved = torchs_own(own_stages(chunks, 2), MICROBATCHES)
    file = pathlib.Path(folder) / f"{dist.get_rank()}.csv"
    interleaved._dump_csv(file)
    looped = sluice.Pipeline.interleaved(2, 2, MICROBATCHES)
    hints = {
        "path": file,
        "text": str(file),
        "schedule": sluice.Schedule.load(file),
        "hint": sluice.Hint.from_schedule(sluice.Schedule.load(file)),
        # In its order it would have all microbatches in flight, and so wait for ever.
        "more than the limit": sluice.Schedule.looped_bfs(looped),
        "named": sluice.Hint("bfw"),
    }
    return [name for name, hint in hints.items() if not same(ours(chunks, 2, hint=hint), expected)]


def with_weight_gradients():
    """Whether ZB-H1 and ZB-V as hints give what is expected, and split."""
    results = []
    for placement, per_rank, schedule in (
        ("loop", 1, sluice.Schedule.zb_h1(sluice.Pipeline.chain(2, MICROBATCHES, split_backward=True))),
        ("v", 2, sluice.Schedule.zb_v(sluice.Pipeline.v_shape(2, MICROBATCHES, split_backward=True))),
    ):
        chunks = model(2 * per_rank)
        with mock.patch.object(
            Microbatches, "weight_grad", autospec=True, side_effect=Microbatches.weight_grad
        ) as ran:
            found = ours(chunks, per_rank, placement, hint=schedule)
        results.append((same(found, expected_of(chunks, per_rank, placement)), ran.call_count))
    return results


def last_first():
    """Whether gradients are what is expected where the ranking is from the last microbatch to the first.

    And in which order the backwards of the last step ran.
    """
    pipeline = sluice.Pipeline.chain(2, MICROBATCHES)
    order = [sluice.Task(each, microbatch) for each in "FB" for microbatch in REVERSED]
    orders = [[sluice.Task(task.pass_, task.microbatch, stage) for task in order] for stage in range(2)]
    chunks = model(2)
    stages = own_stages(chunks, 1)
    schedule = ReadinessSchedule(
        stages, MICROBATCHES, loss_of, limit=MICROBATCHES, hint=sluice.Schedule("reversed", orders, pipeline)
    )
    with mock.patch.object(Microbatches, "backward", autospec=True, side_effect=Microbatches.backward) as ran:
        found = train(schedule, stages, *batch(MICROBATCHES))
    schedule.close()
    backwards = [call.args[2] for call in ran.call_args_list]
    return same(found, expected_of(chunks, 1)), backwards[-MICROBATCHES:]


def in_both_orders():
    """Whether gradients are the same where microbatches run from the last to the first."""
    in_order, reverse = (alone(model(2), [0, 1], MICROBATCHES, order=each) for each in (None, REVERSED))
    return same(in_order, reverse)


class Hints(unittest.TestCase):
    def test_results_are_torchs_bit_for_bit(self):
        for ranks in range(1, 5):
            with self.subTest(ranks=ranks):
                for wrong, compared in run_ranks(ranks, all_hints):
                    self.assertEqual(wrong, [])
                    self.assertEqual(compared, 3 * len(sluice.Hint.names()))

    def test_the_reference_of_v_placements_is_torchs(self):
        self.assertEqual(run_ranks(2, reference), [[True, True]] * 2)

    def test_a_schedule_ranks_in_every_form(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run_ranks(2, as_hint, folder), [[], []])

    def test_a_schedule_with_weight_gradients_splits(self):
        for rank in run_ranks(2, with_weight_gradients):
            for equal, weight_gradients in rank:
                self.assertTrue(equal)
                self.assertGreater(weight_gradients, 0)

    def test_gradients_are_accumulated_in_the_order_of_microbatches(self):
        results = run_ranks(2, last_first)
        self.assertEqual([equal for equal, _ in results], [True, True])
        # The last stage has all microbatches before it is asked, so it runs them as they are ranked.
        self.assertNotEqual(results[1][1], sorted(results[1][1]))

    def test_the_order_of_accumulation_shows_in_the_bits(self):
        self.assertEqual(run_ranks(1, in_both_orders), [False])


if __name__ == "__main__":
    unittest.main()
