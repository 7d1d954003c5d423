"""Bad input raises what fits, naming the argument and the rank; `install` replaces names."""

import functools
import os
import sys
import types
import unittest

import sluice
import sluice.megatron
import torch.distributed as dist
from megatron.core import parallel_state, pipeline_parallel
from megatron.core.pipeline_parallel import schedules
from megatron.core.process_groups_config import ProcessGroupCollection
from ranks import run_ranks
from sluice.megatron import ForwardBackward, forward_backward_func, install, uninstall
from torch import nn
from training import batches, call, configuration, forward_step, own_chunks, raised_by, start, unwrapped

MICROBATCHES = 4

# Fields of the configuration that stand for another order than readiness gives, and words of the reason.
ORDER_BOUND = {
    "cuda_graph_impl": ("local", "sluice capture"),
    "enable_cuda_graph": (True, "sluice capture"),
    "external_cuda_graph": (True, "sluice capture"),
    "overlap_moe_expert_parallel_comm": (True, "Megatron's schedule"),
    "fine_grained_activation_offloading": (True, "Megatron's schedule"),
    "moe_paged_stash": (True, "Megatron's schedule"),
    "defer_embedding_wgrad_compute": (True, "k-th forward"),
    "hybrid_context_parallel": (True, "schedule of its own"),
}


class FullyShardedDataParallel(nn.Module):
    """Stands for Megatron's class of that name."""

    def __init__(self, module):
        super().__init__()
        self.module = module


def with_field(field, value):
    config = configuration()
    setattr(config, field, value)
    return own_chunks(config)


def encoder_and_decoder():
    models = own_chunks(configuration())
    models[0].model_type = types.SimpleNamespace(name="encoder_and_decoder")
    return models


def refused():
    """What each bad call raises, on every rank alike."""
    start(dist.get_world_size())
    function = ForwardBackward()
    models = own_chunks(configuration())
    collection = ProcessGroupCollection()
    collection.tp = collection.cp = parallel_state.get_tensor_model_parallel_group()
    several = types.SimpleNamespace()
    alone = types.SimpleNamespace(pp_group=parallel_state.get_tensor_model_parallel_group())

    def outcome(models=models, microbatches=MICROBATCHES, **arguments):
        return raised_by(lambda: call(function, models, microbatches, **arguments))

    raised = {
        "no communicator": outcome(pg_collection=collection),
        "no groups": outcome(p2p_communicator=several),
        "several modules": outcome(p2p_communicator=several, pg_collection=collection),
        "several collections": outcome(p2p_communicator=several, pg_collection=several),
        "one stage": outcome(p2p_communicator=alone, pg_collection=collection),
        "two chunks": outcome(models=own_chunks(configuration(), 2)),
        "no chunk": raised_by(lambda: call(function, [None], MICROBATCHES, model=[])),
        "no module": raised_by(lambda: call(function, [None], MICROBATCHES, model="model")),
        "iterators": outcome(data_iterator=[iter([]), iter([])]),
        "no microbatches": outcome(microbatches=0),
        "sharded": outcome(models=[FullyShardedDataParallel(models[0])]),
        "encoder and decoder": outcome(models=encoder_and_decoder()),
        "several tensors": outcome(adjust_tensor_shapes_fn=lambda received, sent: (received * 2, sent)),
        "positional": raised_by(lambda: function(forward_step)),
    }
    for field, (value, _) in ORDER_BOUND.items():
        raised[field] = outcome(models=with_field(field, value))
    raised["afterwards"] = outcome()
    function.close()
    return raised


REFUSED = {
    "no communicator": ("ValueError", "p2p_communicator, pg_collection: give both or neither"),
    "no groups": ("ValueError", "p2p_communicator, pg_collection: give both or neither"),
    "several modules": ("ValueError", "p2p_communicator: must have a pp_group"),
    "several collections": ("ValueError", "pg_collection: must have the groups tp and cp"),
    "one stage": ("ValueError", "forward_backward_no_pipelining"),
    "two chunks": ("ValueError", "model: 2 chunks, but config.virtual_pipeline_model_parallel_size is None"),
    "no chunk": ("ValueError", "model: has no chunks"),
    "no module": ("TypeError", "model: a chunk is a str"),
    "iterators": ("ValueError", "data_iterator: 2 iterators for 1 chunks"),
    "no microbatches": ("ValueError", "num_microbatches: must be a whole number of at least 1, not 0"),
    "sharded": ("ValueError", "model: FullyShardedDataParallel"),
    "encoder and decoder": ("ValueError", "model_type=encoder_and_decoder"),
    "several tensors": ("ValueError", "adjust_tensor_shapes_fn: gives 2 tensors to receive"),
    "positional": ("TypeError", "positional"),
    **{field: ("ValueError", f"config.{field}={value!r}") for field, (value, _) in ORDER_BOUND.items()},
}


def broken(model_rank):
    """Passes that go wrong on one rank, each of them followed by a good call."""
    start(dist.get_world_size())
    function = ForwardBackward()
    models = own_chunks(configuration())
    here = dist.get_rank() == model_rank

    def raises(iterator, model):
        output, loss = forward_step(iterator, model)
        if here and unwrapped(model).decoder.layers[0].current_microbatch == 2:
            raise KeyError("broken on purpose")
        return output, loss

    def twice(iterator, model):
        if here:
            next(iterator)
            next(iterator)
        return forward_step(iterator, model)

    def short(iterator, model):
        output, loss = forward_step(iterator, model)
        return output[:-1] if here else output, loss

    def tuples(iterator, model):
        output, loss = forward_step(iterator, model)
        return (output, output) if here else output, loss

    def in_double(iterator, model):
        output, loss = forward_step(iterator, model)
        return output.double() if here else output, loss

    def late(iterator, model):
        if here:
            raise StopIteration
        return forward_step(iterator, model)

    outcomes = {}
    for step in (raises, twice, short, tuples, in_double, late):
        outcomes[step.__name__] = raised_by(
            functools.partial(call, function, models, MICROBATCHES, step=step)
        )
        outcomes[f"{step.__name__} then"] = raised_by(lambda: call(function, models, MICROBATCHES))
    microbatches = MICROBATCHES + here
    outcomes["other numbers"] = raised_by(lambda: call(function, models, microbatches))
    outcomes["other numbers then"] = raised_by(lambda: call(function, models, MICROBATCHES))
    outcomes["bad number"] = raised_by(lambda: call(function, models, 0 if here else MICROBATCHES))
    outcomes["bad number then"] = raised_by(lambda: call(function, models, MICROBATCHES))
    outcomes["no module"] = raised_by(lambda: call(function, ["model"] if here else models, MICROBATCHES))
    outcomes["no module then"] = raised_by(lambda: call(function, models, MICROBATCHES))
    function.close()
    other = ForwardBackward(limit=3 if here else 4)
    outcomes["other limits"] = raised_by(lambda: call(other, models, MICROBATCHES))
    outcomes["bad from the start"] = raised_by(
        lambda: call(ForwardBackward(), models, 0 if here else MICROBATCHES)
    )
    return outcomes


def one_is_missing():
    start(dist.get_world_size())
    function = ForwardBackward(join_timeout=1)
    models = own_chunks(configuration())
    if dist.get_rank() == 1:
        return None
    return raised_by(lambda: call(function, models, MICROBATCHES))


def one_dies(model_rank):
    start(dist.get_world_size())
    models = own_chunks(configuration())

    def dies(iterator, model):
        if dist.get_rank() == model_rank and unwrapped(model).decoder.layers[0].current_microbatch == 2:
            os._exit(1)
        return forward_step(iterator, model)

    return raised_by(functools.partial(call, ForwardBackward(), models, MICROBATCHES, step=dies))


def with_two_chunks():
    start(dist.get_world_size(), chunks=2)
    function = ForwardBackward()
    items = list(batches(2 * MICROBATCHES))
    iterator = iter(items)

    def reads_always(given, model):
        next(given)
        return forward_step(iter(items), model)

    outcomes = []
    for arguments in (
        {"data_iterator": [iterator, iterator], "step": reads_always},
        {"adjust_tensor_shapes_fn": lambda *shapes: shapes},
    ):
        models = own_chunks(configuration(2), 2)
        outcomes.append(raised_by(functools.partial(call, function, models, MICROBATCHES, **arguments)))
    return outcomes


class Refusal(unittest.TestCase):
    def test_what_cannot_be_run_is_named(self):
        for raised in run_ranks(2, refused):
            self.assertIsNone(raised.pop("afterwards"))
            self.assertEqual(set(raised), set(REFUSED))
            for name, (kind, text) in REFUSED.items():
                with self.subTest(name):
                    self.assertIsNotNone(raised[name])
                    self.assertEqual(raised[name][0], kind)
                    self.assertIn(text, raised[name][1])
            for field, (_, reason) in ORDER_BOUND.items():
                self.assertIn(reason, raised[field][1])

    def test_settings(self):
        for settings, text in [
            ({"hint": "nonsense"}, "hint: 'nonsense' is not one of"),
            ({"hint": "bfw"}, "hint: 'bfw' places weight gradients"),
            ({"hint": sluice.Hint("pace")}, "hint: 'pace' places weight gradients"),
            ({"limit": 0}, "limit: must be a whole number of at least 1, not 0"),
            ({"limit": "8"}, "limit: must be a whole number"),
        ]:
            with self.subTest(settings), self.assertRaisesRegex(ValueError, text):
                install(**settings)

    def test_a_failure_of_one_rank_is_raised_on_all_and_can_be_followed_by_good_calls(self):
        failing = 1
        own = {
            "raises": ("KeyError", "broken on purpose"),
            "twice": ("RuntimeError", "data_iterator: forward_step_func took a second item for microbatch"),
            "short": ("ValueError", "pipeline rank 1, model chunk 0: the output has shape (5, 2, 16)"),
            "tuples": ("TypeError", "pipeline rank 1, model chunk 0: forward_step_func gave a tuple"),
            "in_double": ("ValueError", "pipeline rank 1, model chunk 0: the output is torch.float64"),
            "bad number": ("ValueError", "num_microbatches"),
            "no module": ("TypeError", "model: a chunk is a str"),
            "bad from the start": ("ValueError", "num_microbatches"),
        }
        for rank, outcomes in enumerate(run_ranks(3, broken, failing)):
            for name, outcome in outcomes.items():
                with self.subTest(rank=rank, name=name):
                    if name.endswith("then"):
                        self.assertIsNone(outcome)
                    elif name in ("other numbers", "other limits"):
                        self.assertEqual(outcome[0], "ConfigError")
                        self.assertIn("num_microbatches" if name == "other numbers" else "limit", outcome[1])
                        self.assertIn("rank 1 has", outcome[1])
                    elif rank == failing and name in own:
                        self.assertEqual(outcome[0], own[name][0])
                        self.assertIn(own[name][1], outcome[1])
                    elif name == "bad from the start":
                        self.assertEqual(outcome[0], "ConfigError")
                        self.assertIn("rank 1 has", outcome[1])
                    elif rank != failing:
                        self.assertEqual(outcome[0], "Aborted")
                        self.assertIn("rank 1", outcome[1])

    def test_a_missing_rank_is_named(self):
        kind, text = run_ranks(2, one_is_missing)[0]
        self.assertEqual(kind, "TimeoutError")
        self.assertIn("ranks [1] of [0, 1] did not come", text)

    def test_a_rank_that_dies_is_named(self):
        for outcome in run_ranks(3, one_dies, 1, dead=(1,))[::2]:
            self.assertEqual(outcome[0], "Aborted")
            self.assertIn("rank 1", outcome[1])

    def test_what_several_chunks_cannot_have(self):
        results = run_ranks(2, with_two_chunks)
        kinds = {read[0] for read, _ in results}
        self.assertLessEqual({"ValueError"}, kinds)
        self.assertLessEqual(kinds, {"ValueError", "Aborted"})
        for read, adjusted in results:
            self.assertIn("data_iterator: model chunks 0 and 1 read the same iterator", read[1])
            self.assertEqual(adjusted[0], "ValueError")
            self.assertIn("adjust_tensor_shapes_fn: not supported with several model chunks", adjusted[1])


class Install(unittest.TestCase):
    def setUp(self):
        self.trainer = types.ModuleType("a_trainer")
        self.trainer.get_forward_backward_func = schedules.get_forward_backward_func
        sys.modules["a_trainer"] = self.trainer

    def tearDown(self):
        uninstall()
        del sys.modules["a_trainer"]

    def test_all_names_give_the_function_until_it_is_uninstalled(self):
        original = schedules.get_forward_backward_func
        function = install(hint="fb", limit=4)
        for module in (schedules, pipeline_parallel, self.trainer):
            self.assertIs(module.get_forward_backward_func(2, None), function)
            self.assertIs(module.get_forward_backward_func(pp_size=4, vp_size=2), function)
            self.assertIs(module.get_forward_backward_func(1, None), schedules.forward_backward_no_pipelining)
        again = install()
        self.assertIsNot(again, function)
        self.assertIs(self.trainer.get_forward_backward_func(2, None), again)
        uninstall()
        uninstall()
        for module in (schedules, pipeline_parallel, self.trainer):
            self.assertIs(module.get_forward_backward_func, original)

    def test_there_is_one_with_the_defaults(self):
        self.assertIsInstance(forward_backward_func, ForwardBackward)
        self.assertIs(sluice.megatron.forward_backward_func, forward_backward_func)


if __name__ == "__main__":
    unittest.main()
