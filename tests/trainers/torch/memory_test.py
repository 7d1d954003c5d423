"""Of what is received, no more is alive at a time than the limit says, and after a step nothing is."""

import unittest
from unittest import mock

import torch.distributed as dist
from ranks import run_ranks
from sluice.torch import ReadinessSchedule, _microbatches
from steps import batch, loss_of, model, own_stages, torchs_own
from torch.multiprocessing.reductions import StorageWeakRef

MICROBATCHES = 12
LIMIT = 3


class Received:
    """Counts the memory of what a rank's stages receive, whoever keeps it alive."""

    def __init__(self):
        self.peak = {"activations": 0, "gradients": 0}
        self._alive = {"activations": [], "gradients": []}

    def take(self, capsules, dtypes, device=None, *, maybe_absent=True):
        kind = "gradients" if maybe_absent else "activations"
        tensors = _take(capsules, dtypes, device, maybe_absent=maybe_absent)
        self._alive[kind] += [StorageWeakRef(tensor.untyped_storage()) for tensor in tensors]
        self.peak[kind] = max(self.peak[kind], self.alive(kind))
        return tensors

    def alive(self, kind):
        self._alive[kind] = [each for each in self._alive[kind] if not each.expired()]
        return len(self._alive[kind])


_take = _microbatches.take


def step(schedule, evaluates=False):
    inputs, target = batch(MICROBATCHES)
    args = [inputs] if dist.get_rank() == 0 else []
    kwargs = {"target": target} if dist.get_rank() == dist.get_world_size() - 1 else {}
    return (schedule.eval if evaluates else schedule.step)(*args, **kwargs)


def buffer_bytes(stages):
    """Of torch's own memory for what is received."""
    infos = [
        infos
        for stage in stages
        for infos in (*stage.args_recv_info.values(), *stage.grad_recv_info.values())
    ]
    buffers = [info.buffer for each in infos for info in each if info.buffer is not None]
    return sum(buffer.numel() * buffer.element_size() for buffer in buffers)


def measure(hint, per_rank):
    """Peaks of a step and of an evaluation, and what is alive after each."""
    stages = own_stages(model(dist.get_world_size() * per_rank), per_rank)
    schedule = ReadinessSchedule(stages, MICROBATCHES, loss_of, hint=hint, limit=LIMIT, delays="tail:0.3,3")
    results = []
    for evaluates in (False, True, False):
        received = Received()
        with mock.patch.object(_microbatches, "take", received.take):
            step(schedule, evaluates)
        results.append(
            (received.peak, received.alive("activations") + received.alive("gradients"), buffer_bytes(stages))
        )
    schedule.close()
    return results, schedule.last_step["peak_in_flight"]


def torchs_buffers():
    stages = own_stages(model(dist.get_world_size()), 1)
    step(torchs_own(stages, MICROBATCHES))
    return buffer_bytes(stages)


class Memory(unittest.TestCase):
    def test_no_more_than_the_limit_is_alive(self):
        for hint, per_rank in (("f-priority", 1), ("bfw", 1), ("bf", 2)):
            # With several stages, each may have one more.
            most = LIMIT + (per_rank if per_rank > 1 else 0)
            with self.subTest(hint=hint, per_rank=per_rank):
                for rank, (steps, in_flight) in enumerate(run_ranks(3, measure, hint, per_rank)):
                    self.assertLessEqual(in_flight, most)
                    for number, (peak, after, buffers) in enumerate(steps):
                        self.assertLessEqual(peak["activations"], most)
                        self.assertLessEqual(peak["gradients"], most)
                        # Something was counted.
                        self.assertEqual(peak["activations"] > 0, rank > 0 or per_rank > 1)
                        self.assertEqual(peak["gradients"] > 0, number != 1 and (rank < 2 or per_rank > 1))
                        self.assertEqual((after, buffers), (0, 0))

    def test_a_stage_that_may_take_all_does(self):
        """So that the limit is what kept it from that."""
        with mock.patch(f"{__name__}.LIMIT", MICROBATCHES):
            (training, *_), in_flight = run_ranks(3, measure, "f-priority", 1)[1]
        self.assertGreater(training[0]["activations"], LIMIT)
        self.assertGreater(in_flight, LIMIT)

    def test_torchs_schedule_has_memory_for_all_microbatches(self):
        activation = batch(MICROBATCHES)[0].numel() * 4 // MICROBATCHES
        self.assertEqual(
            run_ranks(3, torchs_buffers), [each * MICROBATCHES * activation for each in (1, 2, 1)]
        )


if __name__ == "__main__":
    unittest.main()
