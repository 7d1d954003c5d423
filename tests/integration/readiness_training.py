"""One rank of a training that torchrun starts: torch's schedule, and Sluice's in its place, on the same stages.

usage: readiness_training.py equal HINT STAGES_A_RANK DELAYS | readiness_training.py failure

`equal` compares outputs, losses and gradients of three steps bit for bit; `failure` lets rank 1 fail. Both print a
line of JSON a rank.
"""

import copy
import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.pipelining.schedules import get_schedule_class

from sluice.torch import ReadinessSchedule, ReadinessScheduleSingle, register

MICROBATCHES = 8
STEPS = 3
LIMIT = 4
WIDTH = 32


def loss_of(output, target):
    return ((output - target) ** 2).mean()


def chunk():
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def stages_of(modules, per_rank):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return [
        PipelineStage(module, rank + place * ranks, per_rank * ranks, torch.device("cpu"))
        for place, module in enumerate(modules)
    ]


def train(modules, schedule, inputs, target):
    """Everything that came out: outputs and losses of each step, and the gradients of the last."""
    results = []
    first, last = dist.get_rank() == 0, dist.get_rank() == dist.get_world_size() - 1
    for _ in range(STEPS):
        losses = []
        given = {"target": target, "losses": losses} if last else {}
        output = schedule.step(*([inputs] if first else []), **given)
        results += [loss.detach().clone() for loss in losses]
        if output is not None:
            results.append(output.clone())
        with torch.no_grad():
            for module in modules:
                for parameter in module.parameters():
                    parameter.sub_(parameter.grad, alpha=0.1)
    return results + [parameter.grad for module in modules for parameter in module.parameters()]


def equal(hint, per_rank, delays):
    torch.manual_seed(0)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    chunks = [chunk() for _ in range(per_rank * ranks)]
    inputs, target = torch.randn(4 * MICROBATCHES, WIDTH), torch.randn(4 * MICROBATCHES, WIDTH)

    own = [copy.deepcopy(chunks[rank + place * ranks]) for place in range(per_rank)]
    stages = stages_of(own, per_rank)
    if per_rank == 1:
        reference = ScheduleGPipe(stages[0], MICROBATCHES, loss_of)
    else:
        reference = ScheduleInterleaved1F1B(stages, MICROBATCHES, loss_of)
    expected = train(own, reference, inputs, target)

    own = [copy.deepcopy(chunks[rank + place * ranks]) for place in range(per_rank)]
    schedule = ReadinessSchedule(
        stages_of(own, per_rank), MICROBATCHES, loss_of, hint=hint, limit=LIMIT, delays=delays
    )
    found = train(own, schedule, inputs, target)
    schedule.close()
    same = len(found) == len(expected) and all(map(torch.equal, found, expected))
    return {"equal": same, "values": len(found), "peak": schedule.last_step["peak_in_flight"]}


class FailsLater(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.calls = 0

    def forward(self, inputs):
        self.calls += 1
        if dist.get_rank() == 1 and self.calls == 2 * MICROBATCHES:
            raise KeyError("broken on purpose")
        return self.layer(inputs)


def failure():
    first, last = dist.get_rank() == 0, dist.get_rank() == dist.get_world_size() - 1
    batch = torch.ones(MICROBATCHES, WIDTH)
    inputs, target = [batch] if first else [], {"target": batch} if last else {}
    register()
    assert get_schedule_class("ReadinessBFW").__name__ == "ReadinessBFW"
    good = ReadinessScheduleSingle(
        stages_of([nn.Linear(WIDTH, WIDTH)], 1)[0], MICROBATCHES, loss_of, hint="bfw"
    )
    good.step(*inputs, **target)
    evaluated = good.eval(*inputs, **target)
    good.step(*inputs, **target)
    good.close()
    try:
        good.step(*inputs, **target)
    except RuntimeError as error:
        closed = str(error)
    bad = ReadinessSchedule(stages_of([FailsLater()], 1)[0], MICROBATCHES, loss_of)
    raised = None
    for _ in range(3):
        try:
            bad.step(*inputs, **target)
        except Exception as error:  # noqa: BLE001 - which one it is, is what the test looks at
            raised = error
            break
    try:
        bad.step(*inputs, **target)
    except RuntimeError as error:
        again = str(error)
    return {
        "closed": closed,
        "evaluated": None if evaluated is None else list(evaluated.shape),
        "raised": type(raised).__name__,
        "text": str(raised),
        "again": again,
    }


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if sys.argv[1] == "equal":
        result = equal(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        result = failure()
    print(json.dumps({"rank": dist.get_rank(), **result}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
