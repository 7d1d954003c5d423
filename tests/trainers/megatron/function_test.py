"""`sluice.megatron.ForwardBackward` against Megatron's own functions on the same models."""

import unittest

from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from ranks import run_ranks
from sluice.megatron import ForwardBackward
from training import configuration, in_one_process, same, start, trained

LATE = "tail:0.3,3"


def equal(ranks, chunks, cases):
    start(ranks, chunks)
    found = []
    for microbatches, hint, limit, delays in cases:
        config = configuration(chunks)
        own, _ = trained(get_forward_backward_func(), config, microbatches, chunks)
        function = ForwardBackward(hint=hint, limit=limit, delays=delays)
        ours, _ = trained(function, config, microbatches, chunks)
        function.close()
        found.append(
            {
                "megatron": same(ours, own),
                "one process": same(ours, in_one_process(config, microbatches, chunks)),
                "peak": function.last_step["peak_in_flight"],
            }
        )
    return found


def batched():
    """With two ranks of two chunks and these settings, Megatron's own function gives wrong gradients."""
    start(2, 2)
    config = configuration(2, overlap_p2p_comm=False, batch_p2p_comm=True)
    function = ForwardBackward(delays=LATE)
    ours, _ = trained(function, config, 8, 2)
    function.close()
    return same(ours, in_one_process(config, 8, 2))


class Function(unittest.TestCase):
    def test_losses_and_gradients_are_megatrons_bit_for_bit(self):
        for ranks, chunks, cases in [
            (2, 1, [(8, "bf", 4, "j0"), (4, "fb", 2, LATE)]),
            (3, 1, [(8, "b-priority", 4, LATE), (4, "bf", 8, LATE)]),
            (4, 1, [(8, "bf", 8, LATE), (4, "f-priority", 3, LATE)]),
            (2, 2, [(8, "bf", 4, LATE), (4, "fb", 4, LATE)]),
            (4, 2, [(8, "bf", 8, LATE)]),
        ]:
            with self.subTest(ranks=ranks, chunks=chunks):
                for found in run_ranks(ranks, equal, ranks, chunks, cases):
                    for result, (_, _, limit, _) in zip(found, cases):
                        self.assertTrue(result["megatron"])
                        self.assertTrue(result["one process"])
                        self.assertLessEqual(result["peak"], limit + (chunks if chunks > 1 else 0))

    def test_two_ranks_of_two_chunks_with_batched_messages(self):
        self.assertEqual(run_ranks(2, batched), [True, True])


if __name__ == "__main__":
    unittest.main()
