"""A small GPT of Megatron-Core, trained in a pipeline that runs whatever is ready.

    torchrun --nproc-per-node 4 megatron_training.py --pipeline 2 --tensor 2

Ranks use their GPUs where there are some, else the host. Lines for Sluice are marked with its name.
"""

import argparse
import os

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import initialize_rng_tracker, model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig

import sluice.megatron  # Sluice

VOCABULARY = 64
LENGTH = 16
BATCH = 2
MICROBATCHES = 8


def use_devices():
    """The device of this rank."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        model_parallel_cuda_manual_seed(1)
        return torch.device("cuda")
    # Megatron asks for these on the host too; without dropout it draws nothing.
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.Tensor.cuda = lambda tensor, *args, **kwargs: tensor
    initialize_rng_tracker(inference_rng_tracker=True)
    return torch.device("cpu")


def make_model(device):
    config = TransformerConfig(
        num_layers=4,
        hidden_size=64,
        num_attention_heads=4,
        pipeline_model_parallel_size=parallel_state.get_pipeline_model_parallel_world_size(),
        tensor_model_parallel_size=parallel_state.get_tensor_model_parallel_world_size(),
        pipeline_dtype=torch.float32,
        use_cpu_initialization=True,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        finalize_model_grads_func=finalize_model_grads,
    )
    torch.manual_seed(1 + parallel_state.get_pipeline_model_parallel_rank())
    model = GPTModel(
        config,
        get_gpt_layer_local_spec(),
        vocab_size=VOCABULARY,
        max_sequence_length=LENGTH,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=True,
    )
    return DistributedDataParallel(config, DistributedDataParallelConfig(), model.to(device))


def sequences(device):
    """Microbatches of numbers that count upwards by a step of their own; each replica has others."""
    generator = torch.Generator().manual_seed(parallel_state.get_data_parallel_rank())
    while True:
        first, step = torch.randint(VOCABULARY, (2, BATCH, 1), generator=generator)
        yield ((first + (1 + step % 3) * torch.arange(LENGTH + 1)) % VOCABULARY).to(device)


def mean_loss(losses):
    loss = losses.mean()
    return loss, {"loss": loss.detach().clone()}


def forward_step(iterator, model):
    numbers = next(iterator)
    positions = torch.arange(LENGTH, device=numbers.device).expand(BATCH, LENGTH)
    later = torch.ones(LENGTH, LENGTH, device=numbers.device).triu(1).bool()[None, None]
    return model(numbers[:, :-1], positions, later, labels=numbers[:, 1:]), mean_loss


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pipeline", type=int, default=2, help="stages of the pipeline")
    parser.add_argument("--tensor", type=int, default=1, help="ranks that share each layer")
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=arguments.tensor, pipeline_model_parallel_size=arguments.pipeline
    )
    device = use_devices()
    sluice.megatron.install(hint="bf", limit=MICROBATCHES)  # Sluice: before the next line
    forward_backward = get_forward_backward_func()

    model = make_model(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    data = sequences(device)
    for step in range(arguments.steps):
        model.zero_grad_buffer()
        kept = forward_backward(
            forward_step_func=forward_step,
            data_iterator=data,
            model=[model],
            num_microbatches=MICROBATCHES,
            seq_length=LENGTH,
            micro_batch_size=BATCH,
        )
        for parameter in model.parameters():
            parameter.grad = parameter.main_grad
        optimizer.step()
        if (
            kept
            and parallel_state.get_data_parallel_rank()
            == parallel_state.get_tensor_model_parallel_rank()
            == 0
        ):
            print(
                f"step {step}: loss {sum(float(each['loss']) for each in kept) / len(kept):.4f}", flush=True
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
