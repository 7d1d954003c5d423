"""Megatron's GPT with tied embeddings, tensor parallel in a pipeline: as with Megatron's own function."""

import functools
import unittest

import torch
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import initialize_rng_tracker
from ranks import run_ranks
from sluice.megatron import ForwardBackward
from training import BATCH, call, configuration, gradients, same, start

MICROBATCHES = 4
LENGTH = 8
VOCABULARY = 32
LATE = "tail:0.4,3"


def model(config, place, chunks):
    stage, stages = (
        parallel_state.get_pipeline_model_parallel_rank(),
        parallel_state.get_pipeline_model_parallel_world_size(),
    )
    torch.manual_seed(1 + stage + stages * place)
    gpt = GPTModel(
        config,
        get_gpt_layer_local_spec(),
        vocab_size=VOCABULARY,
        max_sequence_length=LENGTH,
        pre_process=stage == 0 and place == 0,
        post_process=stage == stages - 1 and place == chunks - 1,
        position_embedding_type="learned_absolute",
        share_embeddings_and_output_weights=True,
        vp_stage=place if chunks > 1 else None,
    )
    return DistributedDataParallel(config, DistributedDataParallelConfig(), gpt)


def tokens(microbatches):
    generator = torch.Generator().manual_seed(7)
    for _ in range(microbatches):
        drawn = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=generator)
        yield drawn[:, :-1], drawn[:, 1:]


def mean(losses):
    loss = losses.mean()
    return loss, {"loss": loss.detach().clone()}


def step(iterator, gpt):
    inputs, labels = next(iterator)
    positions = torch.arange(LENGTH).expand(BATCH, LENGTH)
    later = torch.ones(LENGTH, LENGTH).triu(1).bool()[None, None]
    return gpt(inputs, positions, later, labels=labels), mean


def trained(function, chunks, free_outputs):
    config = configuration(
        chunks,
        num_layers=4,
        finalize_model_grads_func=finalize_model_grads,
        deallocate_pipeline_outputs=free_outputs,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
    )
    models = [model(config, place, chunks) for place in range(chunks)]
    run = functools.partial(call, function, models, MICROBATCHES, step=step, data=tokens, seq_length=LENGTH)
    return {"returned": [run(), run(forward_only=True)], "gradients": gradients(models)}


def equal(chunks):
    start(pipeline=2, chunks=chunks, tensor=2)
    # Without dropout nothing is drawn, and Megatron's own tracker needs a device.
    initialize_rng_tracker(inference_rng_tracker=True, force_reset=True)
    # With several chunks and gloo, Megatron's frees outputs that are not sent yet.
    own = trained(get_forward_backward_func(), chunks, free_outputs=chunks == 1)
    function = ForwardBackward(delays=LATE)
    ours = trained(function, chunks, free_outputs=True)
    function.close()
    moved = [bool(gradient.abs().max() > 0) for gradient in own["gradients"]]
    return same(ours, own), all(moved) and len(moved) > 0


class Gpt(unittest.TestCase):
    def test_losses_and_gradients_are_megatrons_bit_for_bit(self):
        for chunks in (1, 2):
            with self.subTest(chunks=chunks):
                self.assertEqual(run_ranks(4, equal, chunks), [(True, True)] * 4)


if __name__ == "__main__":
    unittest.main()
