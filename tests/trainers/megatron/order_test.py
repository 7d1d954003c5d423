"""What must not depend on the order of microbatches, in a run whose order is far from theirs."""

import contextlib
import unittest

import sluice
from megatron.core import parallel_state
from ranks import run_ranks
from sluice.megatron import ForwardBackward
from training import call, configuration, gradients, in_one_process, order_of, own_chunks, same, start

# Of two ranks, by rank. Backwards are in the order of microbatches, as gradients accumulate.
FORWARDS = [[2, 0, 3, 1], [0, 3, 1, 2]]
MICROBATCHES = 4


def schedule(chunks):
    """Chunk by chunk, with the forwards in the order above."""
    pipeline = sluice.Pipeline(
        [chunk % 2 for chunk in range(2 * chunks)],
        [(chunk, chunk + 1) for chunk in range(2 * chunks - 1)],
        MICROBATCHES,
        unsplittable=list(range(2 * chunks)),
    )
    orders = []
    for rank, forwards in enumerate(FORWARDS):
        own = range(rank, 2 * chunks, 2)
        orders.append(
            [sluice.Task("F", microbatch, chunk) for chunk in own for microbatch in forwards]
            + [
                sluice.Task("B", microbatch, chunk)
                for chunk in reversed(own)
                for microbatch in range(MICROBATCHES)
            ]
        )
    return sluice.Schedule("shuffled", orders, pipeline)


def shuffled(chunks):
    start(2, chunks)
    events = []

    @contextlib.contextmanager
    def no_sync():
        events.append("no_sync")
        yield
        events.append("sync")

    def wrap(chunk):
        place = getattr(chunk, "vp_stage", 0)
        chunk.set_is_first_microbatch = lambda: events.append(f"first {place}")
        chunk.layer[0].weight.register_hook(lambda gradient: events.append(f"backward {place}"))
        return chunk

    results = []
    for with_grad_sync in (False, True):
        events.clear()
        config = configuration(chunks, no_sync_func=no_sync)
        models = own_chunks(config, chunks, wrap=wrap)
        places = {id(next(model.parameters())): place for place, model in enumerate(models)}

        def named(what, places=places):
            return lambda parameters: events.append(f"{what} {places[id(next(iter(parameters)))]}")

        if with_grad_sync:
            config.grad_sync_func = named("grad_sync")
            config.param_sync_func = named("param_sync")
        function = ForwardBackward(hint=schedule(chunks))
        ours = {"returned": [call(function, models, MICROBATCHES)], "gradients": gradients(models)}
        function.close()
        results.append(
            {
                "same": same(ours, in_one_process(config, MICROBATCHES, chunks, calls=1)),
                "order": order_of(models),
                "events": list(events),
                "rank": parallel_state.get_pipeline_model_parallel_rank(),
            }
        )
    return results


def steps_of(chunks, with_grad_sync, rank):
    """What the functions of the configuration are to be called for, in order."""
    own = "grad_sync" if with_grad_sync and (chunks > 1 or rank > 0) else None
    events = ["no_sync"]
    gathers = {0: [0, 1]} if with_grad_sync and chunks > 1 else {}
    events += [f"param_sync {chunk}" for chunk in gathers.get(0, [])]
    for chunk in range(chunks):
        if gathers and 1 < chunk + 1 < chunks:
            events.append(f"param_sync {chunk + 1}")
        events.append(f"first {chunk}")
    for chunk in reversed(range(chunks)):
        events += [f"backward {chunk}"] * (MICROBATCHES - 1)
        events += (
            ["sync", f"backward {chunk}"]
            if own is None
            else [f"backward {chunk}", "sync", f"grad_sync {chunk}"]
        )
        events += ["no_sync"] if chunks > 1 else []
    return events + (["sync"] if chunks > 1 else [])


class Order(unittest.TestCase):
    maxDiff = None

    def test_a_shuffled_run(self):
        for chunks in (1, 3):
            for results in run_ranks(2, shuffled, chunks):
                for with_grad_sync, result in zip((False, True), results):
                    rank = result["rank"]
                    with self.subTest(chunks=chunks, with_grad_sync=with_grad_sync, rank=rank):
                        self.assertTrue(result["same"])
                        self.assertEqual(result["order"], [FORWARDS[rank]] * chunks)
                        self.assertEqual(result["events"], steps_of(chunks, with_grad_sync, rank))


if __name__ == "__main__":
    unittest.main()
