"""`step` and `eval` with all that torch's schedules take give what torch's own schedules give."""

import copy
import unittest

import torch
import torch.distributed as dist
from ranks import run_ranks
from sluice.torch import ReadinessSchedule, ReadinessScheduleSingle
from steps import WIDTH, batch, last, loss_of, model, own_stages, same, torchs_own, train
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.pipelining.microbatch import TensorChunkSpec, sum_reducer

MICROBATCHES = 4
CPU = torch.device("cpu")


class Scaled(nn.Module):
    """Takes what each rank gives it beside the activation."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, inputs, factors=None, power=1):
        outputs = self.layer(inputs)
        return outputs if factors is None else outputs * factors**power


def weighted(output, target, weight=1.0):
    return weight * loss_of(output, target)


def first():
    return dist.get_rank() == 0


def outcomes(kind, module, use, **options):
    """What `use` makes of a schedule of that kind, and the gradients."""
    stage = PipelineStage(copy.deepcopy(module), dist.get_rank(), dist.get_world_size(), CPU)
    schedule = kind(stage, MICROBATCHES, options.pop("loss", loss_of), **options)
    results = [each.detach().clone() for each in use(schedule)]
    for parameter in stage.submod.parameters():
        results.append(parameter.grad.clone() if parameter.grad is not None else torch.zeros(0))
    return results


def own(schedule, *args, target=None, losses=None, **kwargs):
    """A step with what belongs to this rank; its output and losses."""
    if first():
        kwargs["args"] = args
    if last():
        kwargs.update(target=target, losses=losses)
    output = schedule.step(*kwargs.pop("args", ()), **kwargs)
    return [*([output] if isinstance(output, torch.Tensor) else output or []), *(losses or [])]


def taken_gradients(schedule):
    stages = getattr(schedule, "_stages", None) or [schedule._stage]
    parameters = list(stages[0].submod.parameters())
    gradients = [each.grad for each in parameters if each.grad is not None]
    for each in parameters:
        each.grad = None
    return gradients


def as_torchs():
    """Names of the uses whose outcome is not torch's, and how many were made."""
    inputs, target = batch(MICROBATCHES)
    factors = torch.linspace(1, 2, len(inputs)).unsqueeze(1)
    turned = factors.T

    def alternating(schedule):
        results = []
        for run in (schedule.step, schedule.eval, schedule.step, schedule.eval):
            kwargs = {"target": target, "losses": []} if last() else {}
            output = run(*([inputs] if first() else []), **kwargs)
            results += [] if output is None else [output, *kwargs["losses"]]
            # An evaluation of torch's would divide them once more.
            results += taken_gradients(schedule)
        return results

    def sizes(schedule):
        return own(schedule, inputs, target=target, losses=[]) + own(
            schedule, 2 * inputs, target=target, losses=[]
        )

    uses = {
        "losses": (lambda s: own(s, inputs, target=target, losses=[]), {}),
        "old losses": (lambda s: own(s, inputs, target=target, losses=[torch.ones(1)] * 9), {}),
        "no outputs": (lambda s: own(s, inputs, target=target, losses=[], return_outputs=False), {}),
        "loss_kwargs": (
            lambda s: own(s, inputs, target=target, losses=[], loss_kwargs={"weight": 3.0}),
            {"loss": weighted},
        ),
        "scale_grads": (lambda s: own(s, inputs, target=target), {"scale_grads": False}),
        "kwargs": (lambda s: own(s, inputs, target=target, factors=factors, power=2), {}),
        "kwargs_chunk_spec": (
            lambda s: own(s, inputs, target=target, factors=turned.expand(WIDTH, -1)),
            {"kwargs_chunk_spec": {"factors": TensorChunkSpec(1)}, "module": Turned()},
        ),
        "args_chunk_spec": (
            lambda s: own(s, inputs.T.contiguous(), target=target),
            {"args_chunk_spec": (TensorChunkSpec(1),), "module": Turned() if first() else Scaled()},
        ),
        "output_merge_spec": (
            lambda s: own(s, inputs, target=target),
            {"output_merge_spec": (TensorChunkSpec(1), sum_reducer), "module": Pair(), "loss": first_loss},
        ),
        "alternating": (alternating, {}),
        "twice": (sizes, {}),
    }
    wrong = []
    for name, (use, options) in uses.items():
        module = options.pop("module", None) or Scaled()
        expected = outcomes(ScheduleGPipe, module, use, **options)
        for ours in (ReadinessSchedule, ReadinessScheduleSingle):
            if not same(outcomes(ours, module, use, **options), expected):
                wrong.append((name, ours.__name__))
    return wrong, len(uses)


class Turned(Scaled):
    """Takes what is divided along its second extent."""

    def forward(self, inputs, factors=None):
        if factors is None:
            return self.layer(inputs.T)
        return super().forward(inputs, factors.T)


class Pair(Scaled):
    def forward(self, inputs):
        outputs = super().forward(inputs)
        return (outputs, outputs.mean()) if last() else outputs


def first_loss(output, target):
    return loss_of(output[0], target)


def given():
    """Whether microbatches that the caller made give the same as whole batches; in steps and evaluations."""
    inputs, target = batch(MICROBATCHES)
    factors = torch.linspace(1, 2, len(inputs)).unsqueeze(1)
    module = Scaled()
    kwargs = [{"factors": each, "power": 2} for each in factors.split(len(inputs) // MICROBATCHES)]
    args = [(each,) for each in inputs.tensor_split(MICROBATCHES)] if first() else None
    targets = list(target.tensor_split(MICROBATCHES)) if last() else None

    def whole(schedule):
        results = own(schedule, inputs, target=target, losses=[], factors=factors, power=2)
        losses = []
        output = schedule.eval(
            *([inputs] if first() else []),
            factors=factors,
            power=2,
            **({"target": target, "losses": losses} if last() else {}),
        )
        return results + ([] if output is None else [output, *losses])

    def split(schedule):
        results = []
        for run in (schedule.step, schedule.eval):
            losses = [] if last() else None
            output = run(arg_mbs=args, kwarg_mbs=kwargs, target_mbs=targets, losses=losses)
            results += [] if output is None else [output, *losses]
        silent = schedule.eval(arg_mbs=args, kwarg_mbs=kwargs, target_mbs=targets, return_outputs=False)
        return results if silent is None else []

    return [
        same(outcomes(kind, module, split), outcomes(kind, module, whole))
        for kind in (ReadinessSchedule, ReadinessScheduleSingle)
    ]


def evaluated_between():
    """Whether steps of two stages a rank give torch's results, with evaluations between them.

    And whether the evaluation, without target or loss, leaves a graph.
    """
    inputs, target = batch(MICROBATCHES)
    stages = own_stages(model(4), 2)
    expected = train(torchs_own(stages, MICROBATCHES), stages, inputs, target)
    stages = own_stages(model(4), 2)
    schedule = ReadinessSchedule(stages, MICROBATCHES, loss_of, hint="bfw", delays="tail:0.3,3")
    found = train(schedule, stages, inputs, target, steps=1)
    gradients = len(list(nn.ModuleList(stage.submod for stage in stages).parameters()))
    for steps in (1, 1):
        with torch.no_grad():
            output = schedule.eval(*([inputs] if first() else []))
        found = found[: len(found) - gradients] + train(schedule, stages, inputs, target, steps)
    return same(found, expected), output is None or output.requires_grad


def without_autograd():
    """Outputs of a step without autograd where it was said not to be needed, and torch's."""
    inputs, target = batch(MICROBATCHES)
    rows = torch.zeros(len(inputs) // MICROBATCHES, WIDTH)
    results = []
    for kind in (ScheduleInterleaved1F1B, ReadinessSchedule):
        module = copy.deepcopy(model(2)[dist.get_rank()])
        stages = [PipelineStage(module, dist.get_rank(), 2, CPU, input_args=rows, output_args=rows)]
        schedule = kind(stages, MICROBATCHES, loss_of, backward_requires_autograd=False)
        with torch.no_grad():
            losses = [] if last() else None
            output = schedule.step(
                *([inputs] if first() else []), target=target if last() else None, losses=losses
            )
        results.append([torch.zeros(1), *([] if output is None else [output, *losses])])
        results[-1] += [each.grad for each in stages[0].submod.parameters() if each.grad is not None]
    return same(*results)


class Stepping(unittest.TestCase):
    def test_what_torchs_schedules_take(self):
        for wrong, number in run_ranks(3, as_torchs):
            self.assertEqual(wrong, [])
            self.assertEqual(number, 11)

    def test_microbatches_that_the_caller_made(self):
        self.assertEqual(run_ranks(3, given), [[True, True]] * 3)

    def test_evaluations_between_steps(self):
        self.assertEqual(run_ranks(2, evaluated_between), [(True, True), (True, False)])

    def test_a_step_without_autograd(self):
        self.assertEqual(run_ranks(2, without_autograd), [True, True])


if __name__ == "__main__":
    unittest.main()
