"""Small stages, and everything that comes out of training them."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, ScheduleInterleaved1F1B

WIDTH = 32


def loss_of(output, target):
    return ((output - target) ** 2).mean()


def chunk():
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def model(chunks, seed=1):
    """The same on every rank."""
    torch.manual_seed(seed)
    return [chunk() for _ in range(chunks)]


def batch(microbatches, rows=4, seed=2):
    torch.manual_seed(seed)
    return torch.randn(microbatches * rows, WIDTH), torch.randn(microbatches * rows, WIDTH)


def chunks_of(rank, ranks, per_rank, placement="loop"):
    """Indices of a rank's stages."""
    if placement == "v":
        return sorted({rank, 2 * ranks - 1 - rank})
    return [rank + place * ranks for place in range(per_rank)]


def last():
    """Whether this rank has the last of stages placed in a loop."""
    return dist.get_rank() == dist.get_world_size() - 1


def stage_of(module, **options):
    """This rank's, where each has one."""
    return PipelineStage(module, dist.get_rank(), dist.get_world_size(), torch.device("cpu"), **options)


def step_arguments(rows):
    """Of this rank's `step`, on a batch of ones."""
    ones = torch.ones(rows, WIDTH)
    return [ones] if dist.get_rank() == 0 else [], {"target": ones} if last() else {}


def own_stages(chunks, per_rank, placement="loop"):
    """Stages of copies of this rank's chunks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return [
        PipelineStage(copy.deepcopy(chunks[index]), index, len(chunks), torch.device("cpu"))
        for index in chunks_of(rank, ranks, per_rank, placement)
    ]


def torchs_own(stages, microbatches, loss=loss_of, **options):
    """The schedule of torch that accumulates gradients in the order of microbatches."""
    if len(stages) == 1:
        return ScheduleGPipe(stages[0], microbatches, loss, **options)
    return ScheduleInterleaved1F1B(stages, microbatches, loss, **options)


def train(schedule, stages, inputs, target, steps=3):
    """Outputs and losses of each step, and the gradients of all."""
    results = []
    first, last = any(stage.is_first for stage in stages), any(stage.is_last for stage in stages)
    for _ in range(steps):
        losses = []
        output = schedule.step(
            *([inputs] if first else []), **({"target": target, "losses": losses} if last else {})
        )
        if last:
            results += [output.detach().clone(), *(loss.detach().clone() for loss in losses)]
    for stage in stages:
        results += [parameter.grad.clone() for parameter in stage.submod.parameters()]
    return results


def same(found, expected):
    """Bit for bit."""
    return len(found) == len(expected) > 0 and all(map(torch.equal, found, expected))


def alone(chunks, own, microbatches, order=None, steps=3):
    """As `train` returns it for the chunks `own`, from one process: all chunks, a microbatch at a time.

    order: of the microbatches.
    """
    chunks = copy.deepcopy(chunks)
    inputs, target = (each.tensor_split(microbatches) for each in batch(microbatches))
    results = []
    for _ in range(steps):
        ran = {}
        for microbatch in order or range(microbatches):
            output = nn.Sequential(*chunks)(inputs[microbatch])
            loss = loss_of(output, target[microbatch])
            loss.backward()
            ran[microbatch] = output.detach(), loss.detach()
        for parameter in nn.ModuleList(chunks).parameters():
            parameter.grad /= microbatches
        if len(chunks) - 1 in own:
            outputs, losses = zip(*(ran[microbatch] for microbatch in range(microbatches)))
            results += [torch.cat(outputs), *losses]
    return results + [parameter.grad for index in own for parameter in chunks[index].parameters()]
