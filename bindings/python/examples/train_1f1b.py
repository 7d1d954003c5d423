"""Trains a small language model, a stage a process: torchrun --standalone --nproc-per-node 4 <this file>."""

import sys
import zlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import Schedule1F1B

WORDS, WIDTH, LENGTH, ROWS = 96, 64, 32, 16
MICROBATCHES = 8
STEPS = 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, hidden):
        normed = self.attention_norm(hidden)
        later = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        hidden = hidden + self.attention(normed, normed, normed, attn_mask=later, need_weights=False)[0]
        return hidden + self.mlp(self.mlp_norm(hidden))


def module_of(stage, stages):
    """A stage of the model: the first one also embeds, the last one also predicts words."""
    torch.manual_seed(stage)
    parts = [Block(), Block()]
    if stage == 0:
        parts.insert(0, nn.Embedding(WORDS, WIDTH))
    if stage == stages - 1:
        parts += [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)]
    return nn.Sequential(*parts)


def loss_of(predicted, words):
    return nn.functional.cross_entropy(predicted.flatten(0, 1), words.flatten())


def checksum(tensors):
    """Of every bit."""
    total = 0
    for tensor in tensors:
        total = zlib.crc32(bytes(tensor.detach().reshape(-1).view(torch.uint8).tolist()), total)
    return f"{total:08x}"


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
module = module_of(rank, ranks)
stage = PipelineStage(module, rank, ranks, torch.device("cpu"))
schedule = Schedule1F1B(stage, n_microbatches=MICROBATCHES, loss_fn=loss_of)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)

data = torch.Generator().manual_seed(1)
for step in range(STEPS):
    words = torch.randint(WORDS, (ROWS, LENGTH + 1), generator=data)
    optimizer.zero_grad()
    losses = []
    if rank == 0:
        schedule.step(words[:, :-1])
    elif rank == ranks - 1:
        schedule.step(target=words[:, 1:], losses=losses)
    else:
        schedule.step()
    gradients = checksum(parameter.grad for parameter in module.parameters())
    # In one piece: the ranks share the output.
    sys.stdout.write(f"step {step} stage {rank} gradients {gradients} losses {checksum(losses)}\n")
    optimizer.step()

dist.destroy_process_group()
