"""Ranks that communicate within passes run the same tasks in the same order; replicas reduce in one."""

import functools
import unittest

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
from ranks import run_ranks
from sluice.megatron import ForwardBackward
from torch import nn
from training import HIDDEN, SEQUENCE, configuration, mean_square, own_chunks, same, start, trained, with_loss

MICROBATCHES = 8
LIMIT = 6
LATE = "tail:0.4,3"


class TensorParallel(nn.Module):
    """Sums over the tensor-parallel group in each pass."""

    def __init__(self, config):
        super().__init__()
        options = {"config": config, "init_method": functools.partial(nn.init.normal_, std=0.2), "bias": True}
        self.up = ColumnParallelLinear(
            HIDDEN, 2 * HIDDEN, gather_output=False, skip_bias_add=False, **options
        )
        self.down = RowParallelLinear(
            2 * HIDDEN, HIDDEN, input_is_parallel=True, skip_bias_add=False, **options
        )

    def forward(self, inputs):
        return self.down(nn.functional.gelu(self.up(inputs)[0]))[0]


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs, group):
        ctx.group = group
        return _sum(inputs, group)

    @staticmethod
    def backward(ctx, gradient):
        return _sum(gradient, ctx.group), None


def _sum(tensor, group):
    tensor = tensor.contiguous().clone()
    dist.all_reduce(tensor, group=group)
    return tensor


class SharedActivations(nn.Linear):
    """Sums over the ranks of a group in each pass, as attention does over parts of a sequence."""

    def __init__(self, group):
        super().__init__(HIDDEN, HIDDEN)
        self.group = group

    def forward(self, inputs):
        return _Summed.apply(torch.tanh(super().forward(inputs)), self.group)


def averaged_among_replicas(microbatch, target, output):
    """What is kept tells whether the replicas were at the same microbatch."""
    loss, kept = mean_square(microbatch, target, output)
    group = parallel_state.get_data_parallel_group()
    return loss, {
        "loss": _sum(kept["loss"], group),
        "microbatches": _sum(torch.tensor([microbatch**2]), group),
    }


def in_groups(sizes, chunks, make_layer, fields, settings, loss=mean_square):
    """Whether the results are Megatron's, and where this rank is and what it ran."""
    start(pipeline=2, chunks=chunks, **sizes)
    config = configuration(chunks)
    for field, value in fields.items():
        setattr(config, field, value)

    def make(count):
        torch.manual_seed(3)
        return [make_layer(config) for _ in range(count)]

    def train(function):
        models = own_chunks(config, chunks, make=make)
        # What a rank has is a part of the sequence, where the ranks of its group have the others.
        parts = sizes.get("context", 1) * (sizes.get("tensor", 1) if config.sequence_parallel else 1)
        arguments = {"step": with_loss(loss), "seq_length": parts * SEQUENCE}
        return trained(function, config, MICROBATCHES, models=models, **arguments)

    own, _ = train(get_forward_backward_func())
    function = ForwardBackward(
        delays=LATE, limit=LIMIT, seed=parallel_state.get_data_parallel_rank(), **settings
    )
    ours, order = train(function)
    function.close()
    return same(ours, own), parallel_state.get_pipeline_model_parallel_rank(), order


def of_context(config):
    return SharedActivations(parallel_state.get_context_parallel_group())


def of_replicas(config):
    return SharedActivations(parallel_state.get_data_parallel_group())


class Agreement(unittest.TestCase):
    def check(self, *arguments, **more):
        for chunks in (1, 2):
            with self.subTest(chunks=chunks):
                orders = {}
                for equal, stage, order in run_ranks(
                    4, in_groups, arguments[0], chunks, *arguments[1:], **more
                ):
                    self.assertTrue(equal)
                    self.assertEqual(orders.setdefault(stage, order), order)
                    for ran in order:
                        self.assertEqual(sorted(ran[:MICROBATCHES]), list(range(MICROBATCHES)))
                self.assertEqual(sorted(orders), [0, 1])

    def test_tensor_parallel_ranks(self):
        self.check({"tensor": 2}, TensorParallel, {}, {})

    def test_tensor_and_sequence_parallel_ranks(self):
        self.check({"tensor": 2}, TensorParallel, {"sequence_parallel": True}, {})

    def test_context_parallel_ranks(self):
        self.check({"context": 2}, of_context, {}, {})

    def test_replicas_that_are_asked_to(self):
        self.check({}, of_replicas, {}, {"agree_replicas": True}, loss=averaged_among_replicas)

    def test_replicas_that_share_experts(self):
        self.check({}, of_replicas, {"expert_model_parallel_size": 2}, {})


def data_parallel(chunks, aligned, distributed):
    """Replicas that run in orders of their own."""
    start(pipeline=2, chunks=chunks)
    started = []

    def reduce(place, model, parameters):
        started.append((place, len(list(parameters))))
        # A reduction may wait for the other replicas; messages go on meanwhile.
        dist.barrier(group=parallel_state.get_data_parallel_group())
        model.start_grad_sync()

    def train(function):
        config = configuration(chunks, finalize_model_grads_func=finalize_model_grads)
        ddp = DistributedDataParallelConfig(
            overlap_grad_reduce=True, bucket_size=500, use_distributed_optimizer=distributed
        )
        models = own_chunks(config, chunks, wrap=lambda chunk: DistributedDataParallel(config, ddp, chunk))
        config.no_sync_func = [model.no_sync for model in models] if chunks > 1 else models[0].no_sync
        if aligned:
            syncs = [functools.partial(reduce, place, model) for place, model in enumerate(models)]
            config.grad_sync_func = syncs if chunks > 1 else syncs[0]
        started.clear()
        return trained(function, config, MICROBATCHES, calls=1, models=models)[0]

    own = train(get_forward_backward_func())
    function = ForwardBackward(delays=LATE, limit=LIMIT, seed=parallel_state.get_data_parallel_rank())
    ours = train(function)
    function.close()
    return {
        "equal": same(ours, own),
        "replicas": parallel_state.get_data_parallel_world_size(),
        "stage": parallel_state.get_pipeline_model_parallel_rank(),
        "started": list(started),
    }


class Reduction(unittest.TestCase):
    def test_replicas_reduce_chunks_in_one_order_with_megatrons_results(self):
        for chunks, aligned, distributed in [
            (1, False, False),
            (1, True, True),
            (2, False, True),
            (2, True, False),
        ]:
            with self.subTest(chunks=chunks, aligned=aligned, distributed=distributed):
                for result in run_ranks(4, data_parallel, chunks, aligned, distributed):
                    self.assertTrue(result["equal"])
                    self.assertEqual(result["replicas"], 2)
                    # With one chunk, the first stage reduces within its last backward.
                    explicit = aligned and (chunks > 1 or result["stage"] > 0)
                    expected = list(reversed(range(chunks))) if explicit else []
                    self.assertEqual([chunk for chunk, _ in result["started"]], expected)
                    self.assertTrue(all(count > 0 for _, count in result["started"]))


if __name__ == "__main__":
    unittest.main()
