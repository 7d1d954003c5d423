"""Stages that DDP and `fully_shard` keep in step with other replicas, whose tasks run in another order."""

import copy
import unittest

import torch
import torch.distributed as dist
from ranks import run_ranks
from sluice.torch import ReadinessSchedule, ReadinessScheduleSingle
from steps import WIDTH, batch, loss_of, model, same, torchs_own
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.tensor import DTensor, distribute_module
from torch.nn.parallel import DistributedDataParallel

MICROBATCHES = 8
ROWS = 4
CPU = torch.device("cpu")


def ddp(module, mesh):
    return DistributedDataParallel(module, process_group=mesh.get_group())


def ddp_hooked(module, mesh):
    """Gradients are reduced in another type."""
    wrapped = ddp(module, mesh)
    wrapped.register_comm_hook(mesh.get_group(), fp16_compress_hook)
    return wrapped


class PartlyUsed(nn.Module):
    def __init__(self, used):
        super().__init__()
        self.used = used
        self.unused = nn.Linear(WIDTH, WIDTH)

    def forward(self, inputs):
        return self.used(inputs)


def ddp_unused(module, mesh):
    return DistributedDataParallel(
        PartlyUsed(module),
        process_group=mesh.get_group(),
        find_unused_parameters=True,
        gradient_as_bucket_view=True,
    )


def sharded(module, mesh):
    for layer in module.children():
        fully_shard(layer, mesh=mesh)
    return fully_shard(module, mesh=mesh)


def mixed(module, mesh):
    """Gradients are summed in another type than the parameters have."""
    return fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))


def replicated_stages(wrap, per_rank, told=False):
    """told: whether torch is told the shapes; else it runs the module first, which sets DDP's reducer up."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
    pipeline = mesh.get_group("pp")
    rank, ranks = dist.get_rank(pipeline), dist.get_world_size(pipeline)
    chunks = model(ranks * per_rank)
    stages = []
    for index in range(rank, len(chunks), ranks):
        shapes = (
            [torch.zeros(ROWS, WIDTH, requires_grad=grad) for grad in (index > 0, True)]
            if told
            else [None, None]
        )
        module = wrap(copy.deepcopy(chunks[index]), mesh["dp"])
        stages.append(PipelineStage(module, index, len(chunks), CPU, *shapes, group=pipeline))
    return mesh.get_local_rank("dp"), stages


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def trained(schedule, stages, replica):
    """Losses and outputs, and gradients behind each step; an evaluation lies between two steps."""
    inputs, target = batch(MICROBATCHES, ROWS, seed=2 + replica)
    args = [inputs] if stages[0].is_first else []
    results = []
    for run in (schedule.step, schedule.eval, schedule.step):
        losses = []
        output = run(*args, **({"target": target, "losses": losses} if stages[-1].is_last else {}))
        results += [each.detach().clone() for each in losses]
        results += [] if output is None else [output.detach().clone()]
        for stage in stages if run == schedule.step else []:
            gradients = [whole(each.grad) for each in stage.submod.parameters() if each.grad is not None]
            assert gradients, "nothing was reduced"
            results += [each.detach().clone() for each in gradients]
            stage.submod.zero_grad()
    return results


def equal(wrap, per_rank, hint):
    replica, stages = replicated_stages(wrap, per_rank, told=wrap in (ddp, ddp_hooked, ddp_unused))
    expected = trained(torchs_own(stages, MICROBATCHES), stages, replica)
    replica, stages = replicated_stages(wrap, per_rank)
    kind = ReadinessScheduleSingle if per_rank == 1 else ReadinessSchedule
    schedule = kind(
        stages if per_rank > 1 else stages[0],
        MICROBATCHES,
        loss_of,
        hint=hint,
        # Each replica is late at other messages.
        delays="tail:0.3,3",
        seed=replica + 1,
    )
    found = trained(schedule, stages, replica)
    schedule.close()
    return same(found, expected)


def resharded(hint):
    """Whether parameters are sharded again after a step and after an evaluation, as asked."""
    replica, stages = replicated_stages(sharded, 2)
    schedule = ReadinessSchedule(stages, MICROBATCHES, loss_of, hint=hint)
    trained(schedule, stages, replica)
    return all(isinstance(each, DTensor) for stage in stages for each in stage.submod.parameters())


class Inner(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner


def refusals():
    mesh = init_device_mesh("cpu", (2,))
    raised = {}
    for name, module in {
        "ddp": Inner(ddp(nn.Linear(WIDTH, WIDTH), mesh)),
        "fsdp": Inner(sharded(nn.Sequential(nn.Linear(WIDTH, WIDTH)), mesh)),
        "static graph": DistributedDataParallel(nn.Linear(WIDTH, WIDTH), static_graph=True),
        "batch norm": nn.Sequential(nn.SyncBatchNorm(WIDTH)),
        "tensor parallel": distribute_module(nn.Linear(WIDTH, WIDTH), mesh),
    }.items():
        stage = PipelineStage(module, dist.get_rank(), dist.get_world_size(), CPU)
        try:
            ReadinessSchedule(stage, MICROBATCHES, loss_of)
        except ValueError as error:
            raised[name] = str(error)
    return raised


class Replicas(unittest.TestCase):
    def test_replicas_that_run_other_orders_reduce_what_torchs_schedule_does(self):
        for wrap, per_rank, hint in [
            (ddp, 1, "bf"),
            (ddp_hooked, 2, "bfw"),
            (ddp_unused, 2, "bf"),
            (sharded, 1, "bf"),
            (sharded, 2, "bfw"),
            (mixed, 2, "bf"),
        ]:
            with self.subTest(wrap=wrap.__name__, per_rank=per_rank, hint=hint):
                self.assertEqual(run_ranks(4, equal, wrap, per_rank, hint), [True] * 4)

    def test_parameters_are_sharded_again(self):
        self.assertEqual(run_ranks(4, resharded, "bf"), [True] * 4)

    def test_collectives_that_follow_the_order_of_tasks_are_refused(self):
        for raised in run_ranks(2, refusals):
            for name, words in {
                "ddp": "module inner: reduces gradients at every backward",
                "fsdp": "module inner: reduces gradients at every backward",
                "static graph": "static_graph=True",
                "batch norm": "SyncBatchNorm",
                "tensor parallel": "is a DTensor over 2 ranks",
            }.items():
                self.assertIn("stage", raised[name])
                self.assertIn(words, raised[name])


if __name__ == "__main__":
    unittest.main()
