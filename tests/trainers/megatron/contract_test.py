"""What Megatron's functions take and do besides training: each time as theirs, on the same models."""

import collections
import functools
import gc
import types
import unittest
import weakref

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.pipeline_parallel.p2p_communication import P2PCommunicator
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.transformer.moe.router import MoEAuxLossAutoScaler
from ranks import run_ranks
from sluice.megatron import ForwardBackward
from torch import nn
from training import (
    BATCH,
    HIDDEN,
    SEQUENCE,
    batches,
    call,
    configuration,
    forward_step,
    gradients,
    own_chunks,
    same,
    start,
    unwrapped,
    with_loss,
)

MICROBATCHES = 6
LATE = "tail:0.4,3"


class Timers:
    """How often each timer was started and stopped; those of Megatron's messages aside."""

    def __init__(self):
        self.counts = collections.Counter()

    def __call__(self, name, log_level=None):
        return types.SimpleNamespace(
            start=lambda barrier=False: self._count(name, "start"), stop=lambda: self._count(name, "stop")
        )

    def _count(self, name, what):
        if not name.endswith(("send", "recv")):
            self.counts[name, what] += 1


def shares_storage(microbatch, target, output):
    """What is kept is scaled with the loss: that is how Megatron's functions do it."""
    loss = ((output - target) ** 2).mean()
    return loss, {"loss": loss.detach()}


def counts_tokens(microbatch, target, output):
    loss = ((output - target) ** 2).sum()
    return loss, torch.tensor(3 + microbatch, dtype=torch.int), {"loss": loss.detach().clone()}


def longer(lengths):
    return functools.partial(batches, lengths=lengths)


def explicit_groups(config):
    """Those of Megatron, given by hand."""
    collection = ProcessGroupCollection()
    collection.tp = parallel_state.get_tensor_model_parallel_group()
    collection.cp = parallel_state.get_context_parallel_group()
    collection.pp = parallel_state.get_pipeline_model_parallel_group()
    collection.dp_cp = parallel_state.get_data_parallel_group(with_context_parallel=True)
    collection.embd = collection.pos_embd = None
    return {"p2p_communicator": P2PCommunicator(collection.pp, config), "pg_collection": collection}


# Fields of the configuration and arguments of the call, by what they show.
CASES = {
    "outputs are freed": ({"deallocate_pipeline_outputs": True}, {}),
    "what is kept shares storage with the loss": ({}, {"step": with_loss(shares_storage)}),
    "a loss with its tokens": ({}, {"step": with_loss(counts_tokens)}),
    "a loss for each token": ({"calculate_per_token_loss": True}, {"step": with_loss(counts_tokens)}),
    "scaled gradients": ({"grad_scale_func": lambda loss: loss * 1024}, {}),
    "freed outputs and scaled gradients": (
        {"deallocate_pipeline_outputs": True, "grad_scale_func": lambda loss: loss * 1024},
        {},
    ),
    "sequences of several lengths": ({"variable_seq_lengths": True}, {"data": longer([6, 3, 5, 2])}),
    "bfloat16 between stages": ({"pipeline_dtype": torch.bfloat16}, {"dtype": torch.bfloat16}),
    "an evaluation": ({}, {"forward_only": True}),
    "a first evaluation": ({}, {"forward_only": True, "first_val_step": True}),
    "not the first evaluation": ({}, {"forward_only": True, "first_val_step": False}),
    "other data than losses": ({}, {"forward_only": True, "collect_non_loss_data": True}),
    "no loss function": ({}, {"forward_only": True, "step": with_loss(None)}),
    "all gradients reduced": ({}, {"force_all_reduce": True}),
    "experts": ({"num_moe_experts": 2, "grad_scale_func": lambda loss: loss * 8}, {}),
    "a decoder's length": ({}, {"seq_length": 99, "decoder_seq_length": SEQUENCE}),
    "explicit groups": ({}, {"groups": explicit_groups}),
}


def outcome(function, fields, arguments):
    arguments = dict(arguments)
    timers, told = Timers(), []

    def finalize(models, tokens, **others):
        collection = others.pop("pg_collection")
        told.append(
            (len(models), tokens, others, all(hasattr(collection, each) for each in ("tp", "pp", "embd")))
        )

    config = configuration(timers=timers, finalize_model_grads_func=finalize)
    # The constructor would ask for more than the functions read.
    for field, value in fields.items():
        setattr(config, field, value)
    arguments.update(arguments.pop("groups", lambda config: {})(config))
    dtype = arguments.pop("dtype", torch.float32)
    firsts = []

    def wrap(chunk):
        chunk.set_is_first_microbatch = lambda: firsts.append(len(chunk.ran))
        return chunk.to(dtype)

    if dtype != torch.float32:
        arguments["data"] = lambda count: (
            (microbatch, data.to(dtype), target.to(dtype)) for microbatch, data, target in batches(count)
        )
    MoEAuxLossAutoScaler.main_loss_backward_scale = torch.zeros(1)
    models = own_chunks(config, wrap=wrap)
    returned = [call(function, models, MICROBATCHES, **arguments) for _ in range(2)]
    return {
        "returned": returned,
        "gradients": [] if arguments.get("forward_only") else gradients(models),
        "finalize": told,
        "timers": timers.counts,
        "firsts": firsts,
        "experts": MoEAuxLossAutoScaler.main_loss_backward_scale,
    }


def contract():
    start(dist.get_world_size())
    function = ForwardBackward(delays=LATE, limit=4)
    differing = {}
    for name, (fields, arguments) in CASES.items():
        expected = outcome(get_forward_backward_func(), fields, arguments)
        found = outcome(function, fields, arguments)
        differing[name] = [key for key in expected if not same(found[key], expected[key])]
        if not any(expected["returned"]) and dist.get_rank() == dist.get_world_size() - 1:
            differing[name].append("nothing returned")
    function.close()
    return differing


def other_numbers():
    """Evaluations and calls with other numbers of microbatches in between."""
    start(dist.get_world_size())
    config = configuration()
    function = ForwardBackward(delays=LATE)
    results = []
    for each in (get_forward_backward_func(), function):
        models = own_chunks(config)
        returned = [
            call(each, models, microbatches, forward_only=forward_only)
            for microbatches, forward_only in [
                (2, False),
                (6, False),
                (3, True),
                (2, True),
                (2, False),
                (6, False),
            ]
        ]
        results.append({"returned": returned, "gradients": gradients(models)})
    function.close()
    return same(*results)


def freed():
    """Elements of outputs that are held between forward and backward, with and without deallocation."""
    start(dist.get_world_size())
    held = {}
    for deallocate in (False, True):
        outputs, most = [], 0

        def step(iterator, model, outputs=outputs):
            output, loss = forward_step(iterator, model)
            if not unwrapped(model).post_process:
                outputs.append(weakref.ref(output))
            return output, loss

        def look(gradient, outputs=outputs):
            nonlocal most
            most = max(most, sum(each().numel() for each in outputs if each() is not None))

        models = own_chunks(configuration(deallocate_pipeline_outputs=deallocate))
        models[0].layer[0].weight.register_hook(look)
        gc.collect()
        function = ForwardBackward()
        call(function, models, MICROBATCHES, step=step)
        function.close()
        held[deallocate] = most
    return held


def wider():
    """Stages that send twice the hidden size."""
    start(dist.get_world_size())
    config = configuration()
    sizes = [HIDDEN, *[2 * HIDDEN] * (dist.get_world_size() - 1), HIDDEN]

    def make(chunks):
        torch.manual_seed(5)
        return [nn.Linear(sizes[chunk], sizes[chunk + 1]) for chunk in range(chunks)]

    def adjusted(received, sent):
        return [[(*shape[:-1], 2 * shape[-1]) for shape in shapes] for shapes in (received, sent)]

    function = ForwardBackward()
    results = []
    for each in (get_forward_backward_func(), function):
        models = own_chunks(config, make=make)
        returned = call(each, models, MICROBATCHES, adjust_tensor_shapes_fn=adjusted)
        results.append({"returned": returned, "gradients": gradients(models)})
    function.close()
    return same(*results)


def checkpointed(most):
    """How many microbatches were in flight that were not told to checkpoint all."""
    start(dist.get_world_size())
    kept = set()
    peak, told = 0, []

    def step(iterator, model, all_layers):
        nonlocal peak
        output, loss = forward_step(iterator, model)
        told.append(all_layers)
        if not all_layers:
            kept.add(len(told))
            peak = max(peak, len(kept))
            output.register_hook(functools.partial(lambda number, gradient: kept.discard(number), len(told)))
        return output, loss

    models = own_chunks(configuration(num_microbatches_with_partial_activation_checkpoints=most))
    function = ForwardBackward(delays=LATE)
    call(function, models, MICROBATCHES, step=step)
    function.close()
    return {"peak": peak, "told": told}


class Contract(unittest.TestCase):
    maxDiff = None

    def test_each_case_is_as_with_megatrons_function(self):
        for differing in run_ranks(2, contract):
            self.assertEqual(differing, {name: [] for name in CASES})

    def test_numbers_of_microbatches_change(self):
        self.assertEqual(run_ranks(3, other_numbers), [True] * 3)

    def test_a_sent_output_is_freed(self):
        first, last = run_ranks(2, freed)
        whole = SEQUENCE * BATCH * HIDDEN
        self.assertGreaterEqual(first[False], whole)
        self.assertLessEqual(first[True], MICROBATCHES)
        self.assertEqual(last, {False: 0, True: 0})

    def test_adjusted_shapes(self):
        self.assertEqual(run_ranks(2, wider), [True, True])

    def test_few_microbatches_keep_some_activations(self):
        for found in run_ranks(2, checkpointed, 1):
            self.assertEqual(found["peak"], 1)
            self.assertEqual(len(found["told"]), MICROBATCHES)
            self.assertLessEqual(set(found["told"]), {False, True})


if __name__ == "__main__":
    unittest.main()
