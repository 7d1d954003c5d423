"""What torch's own tests ask of a schedule, asked of ours: stages however made, and what is left behind."""

import copy
import gc
import unittest

import torch
import torch.distributed as dist
from ranks import run_ranks
from sluice.torch import ReadinessSchedule, ReadinessScheduleSingle
from steps import WIDTH, alone, batch, last, loss_of, model, own_stages, same, torchs_own, train
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    ScheduleGPipe,
    ScheduleInterleavedZeroBubble,
    build_stage,
    pipe_split,
    pipeline,
)
from torch.testing._internal.distributed.fake_pg import FakeStore

MICROBATCHES = 4
ROWS = 4
CPU = torch.device("cpu")
LATE = "tail:0.3,3"


class Traced(nn.Module):
    """To be split in three; a constant goes from part to part beside what is trained."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.register_buffer("shift", torch.linspace(0, 1, WIDTH))

    def forward(self, inputs, extra=None):
        hidden = self.layers[0](inputs)
        hidden = hidden if extra is None else hidden + extra
        shift = self.shift.clone()
        pipe_split()
        hidden = self.layers[1](torch.relu(hidden) + shift)
        pipe_split()
        return self.layers[2](torch.relu(hidden))


def with_kwargs(schedule, stages, inputs, target, extra):
    """As `steps.train`, with what the first stage takes beside its input."""
    results = []
    for _ in range(2):
        losses = []
        given = {"args": [inputs], "kwargs": {"extra": extra} if extra is not None else {}}
        given = given if stages[0].is_first else {"args": [], "kwargs": {}}
        output = schedule.step(
            *given["args"], **given["kwargs"], **({"target": target, "losses": losses} if last() else {})
        )
        results += (
            [] if output is None else [output.detach().clone(), *(each.detach().clone() for each in losses)]
        )
    return results + [each.grad.clone() for each in stages[0].submod.parameters()]


def traced(extra, own_function, hint):
    """Whether stages traced from a model give torch's results, and have the model's parameters by name."""
    inputs, target = batch(MICROBATCHES, ROWS)
    extra = torch.ones_like(inputs) if extra else None

    def stage():
        torch.manual_seed(3)
        whole = Traced()
        part = pipeline(whole, (inputs[:ROWS],), {"extra": extra[:ROWS]} if extra is not None else None)
        if own_function:
            return whole, build_stage(
                part.get_stage_module(dist.get_rank()), dist.get_rank(), part.info(), CPU
            )
        return whole, part.build_stage(dist.get_rank(), CPU)

    _, theirs = stage()
    expected = with_kwargs(ScheduleGPipe(theirs, MICROBATCHES, loss_of), [theirs], inputs, target, extra)
    whole, ours = stage()
    schedule = ReadinessScheduleSingle(ours, MICROBATCHES, loss_of, hint=hint, delays=LATE)
    found = with_kwargs(schedule, [ours], inputs, target, extra)
    return same(found, expected), set(ours.submod.state_dict()) <= set(whole.state_dict())


def told_shapes(hint):
    """Whether stages that are told all shapes run as torch's do, without a first run that finds them out."""

    def stage():
        module = copy.deepcopy(model(3)[dist.get_rank()])
        calls = []
        module.register_forward_hook(lambda *_: calls.append(1))
        shapes = [torch.zeros(ROWS, WIDTH, requires_grad=needed) for needed in (dist.get_rank() > 0, True)]
        return PipelineStage(module, dist.get_rank(), 3, CPU, *shapes), calls

    inputs, target = batch(MICROBATCHES, ROWS)
    theirs, _ = stage()
    expected = train(ScheduleGPipe(theirs, MICROBATCHES, loss_of), [theirs], inputs, target)
    ours, calls = stage()
    found = train(ReadinessScheduleSingle(ours, MICROBATCHES, loss_of, hint=hint), [ours], inputs, target)
    return same(found, expected), len(calls)


def fed_back():
    """Whether outputs of steps without a loss are right when each is the next one's input."""
    chunks = model(3)
    inputs, _ = batch(MICROBATCHES, ROWS)
    expected = inputs
    stage = PipelineStage(copy.deepcopy(chunks[dist.get_rank()]), dist.get_rank(), 3, CPU)
    schedule = ReadinessScheduleSingle(stage, MICROBATCHES)
    for _ in range(8):
        if dist.get_rank() == 0:
            schedule.step(inputs)
            inputs = torch.empty_like(inputs)
            dist.recv(inputs, src=2)
        elif last():
            output = schedule.step()
            dist.send(output.detach(), dst=0)
        else:
            schedule.step()
        expected = torch.cat([nn.Sequential(*chunks)(each) for each in expected.split(ROWS)]).detach()
    return not last() or torch.equal(output, expected)


class HeldBack(torch.autograd.Function):
    """A product whose weight gradient is left to somebody else."""

    @staticmethod
    def forward(ctx, inputs, weight, held):
        ctx.save_for_backward(inputs, weight)
        ctx.held = held
        return inputs @ weight

    @staticmethod
    def backward(ctx, gradient):
        inputs, weight = ctx.saved_tensors
        ctx.held.append((inputs, gradient))
        return gradient @ weight.T, None, None


class OwnWeightGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH)
        self.held = []
        self.built = 0

    def forward(self, inputs):
        return HeldBack.apply(inputs, self.weight, self.held)

    def builder(self):
        """What torch calls for each backward; it returns what computes that one's weight gradient."""
        self.built += 1
        inputs, gradient = self.held.pop()

        def run():
            product = inputs.T @ gradient
            self.weight.grad = product if self.weight.grad is None else self.weight.grad + product

        return run


def placed_unevenly():
    """Whether three stages on one rank, and two between them on another, give what one process gives."""
    placement = [0, 0, 1, 1, 0]
    own = [index for index, rank in enumerate(placement) if rank == dist.get_rank()]
    chunks = model(len(placement))
    expected = alone(chunks, own, MICROBATCHES)
    stages = [PipelineStage(copy.deepcopy(chunks[index]), index, len(chunks), CPU) for index in own]
    schedule = ReadinessSchedule(stages, MICROBATCHES, loss_of, placement=placement, delays=LATE)
    return same(train(schedule, stages, *batch(MICROBATCHES)), expected)


def sizes_change(hint):
    """Whether steps of other sizes than the first one's give what new schedules of torch give."""
    right = []
    stages = own_stages(model(4), 2)
    schedule = ReadinessSchedule(stages, MICROBATCHES, loss_of, hint=hint)
    for rows in (ROWS, 1, 2 * ROWS):
        inputs, target = batch(MICROBATCHES, rows)
        theirs = own_stages(model(4), 2)
        expected = train(torchs_own(theirs, MICROBATCHES), theirs, inputs, target, steps=1)
        for stage in stages:
            stage.submod.zero_grad()
        right.append(same(train(schedule, stages, inputs, target, steps=1), expected))
    return right


def own_weight_gradients(hint):
    """Whether a `dw_builder` is called once a backward, and gives the gradients that it gives torch."""

    def stages():
        torch.manual_seed(4)
        modules = [OwnWeightGradient() for _ in range(4)][dist.get_rank() :: 2]
        return [
            PipelineStage(module, dist.get_rank() + 2 * place, 4, CPU, dw_builder=module.builder)
            for place, module in enumerate(modules)
        ]

    inputs, target = batch(MICROBATCHES, ROWS)
    theirs = stages()
    expected = train(torchs_own(theirs, MICROBATCHES), theirs, inputs, target, steps=2)
    ours = stages()
    schedule = ReadinessSchedule(ours, MICROBATCHES, loss_of, hint=hint, delays=LATE)
    found = train(schedule, ours, inputs, target, steps=2)
    return same(found, expected), {stage.submod.built for stage in ours}


class Uneven(nn.Module):
    """Outputs that need no gradient, or whose gradient nobody computes; parameters frozen or not used."""

    def __init__(self, place):
        super().__init__()
        self.place = place
        self.layer, self.frozen, self.unused = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.frozen.requires_grad_(False)

    def forward(self, hidden, marks=None, aside=None):
        marks = torch.arange(len(hidden)) if marks is None else marks
        hidden = self.frozen(self.layer(hidden)) + marks.unsqueeze(1)
        return hidden if self.place == 3 else (hidden, marks, hidden * 2)


def uneven(hint):
    """Whether gradients are those of torch's zero-bubble schedule where some are missing."""

    def stages():
        torch.manual_seed(5)
        modules = [Uneven(place) for place in range(4)]
        return [
            PipelineStage(modules[place], place, 4, CPU) for place in (dist.get_rank(), dist.get_rank() + 2)
        ]

    inputs, target = batch(MICROBATCHES, ROWS)
    results = []
    for kind in (ScheduleInterleavedZeroBubble, ReadinessSchedule):
        own = stages()
        schedule = kind(own, MICROBATCHES, loss_of, **({"hint": hint} if kind is ReadinessSchedule else {}))
        for _ in range(2):
            schedule.step(
                *([inputs] if dist.get_rank() == 0 else []), **({"target": target} if last() else {})
            )
        gradients = [parameter.grad for stage in own for parameter in stage.submod.parameters()]
        results.append(
            ([each is None for each in gradients], [each for each in gradients if each is not None])
        )
    (absent, expected), (also_absent, found) = results
    return absent == also_absent, all(map(torch.allclose, found, expected)), any(absent)


def left_behind(hint):
    """Tensors alive after each of several steps, none collected; and what the stages still hold."""
    inputs, target = batch(MICROBATCHES, ROWS)
    stages = own_stages(model(4), 2)
    schedule = ReadinessSchedule(stages, MICROBATCHES, loss_of, hint=hint)
    gc.collect()
    gc.disable()
    alive = []
    for _ in range(4):
        train(schedule, stages, inputs, target, steps=1)
        alive.append(sum(isinstance(each, torch.Tensor) for each in gc.get_objects()))
    kept = [
        len(each) for stage in stages for each in (stage.fwd_cache, stage.bwd_cache, stage.backward_state)
    ]
    outputs = [len(stage.output_chunks) for stage in stages if not stage.is_last]
    return len(set(alive[1:])), max(kept + outputs)


def many():
    """Whether schedules of a process group and of parts of it, used by turns, closed, dropped, are right."""
    inputs, target = batch(MICROBATCHES, ROWS)
    pairs = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    pair = pairs[dist.get_rank() // 2]
    chunks = model(4)

    def stage(group):
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        return PipelineStage(copy.deepcopy(chunks[rank]), rank, ranks, CPU, group=group)

    def gradients_of(stage):
        return [each.grad for each in stage.submod.parameters()]

    def expected(group):
        own = stage(group)
        train(ScheduleGPipe(own, MICROBATCHES, loss_of), [own], inputs, target)
        return gradients_of(own)

    right = []
    whole, half = expected(None), expected(pair)
    if dist.get_rank() < 2:  # the other pair does without
        early = stage(pair)
        train(ReadinessScheduleSingle(early, MICROBATCHES, loss_of), [early], inputs, target)
        right.append(same(gradients_of(early), half))
    used = [stage(None), stage(pair), stage(None)]
    schedules = [ReadinessScheduleSingle(each, MICROBATCHES, loss_of, delays=LATE) for each in used]
    for step in range(3):
        for schedule, own in zip(schedules, used):
            train(schedule, [own], inputs, target, steps=1)
        if step == 1:
            schedules[0].close()
            schedules[0] = ReadinessScheduleSingle(used[0], MICROBATCHES, loss_of, hint="fb")
    return right + [same(gradients_of(own), each) for own, each in zip(used, (whole, half, whole))]


def in_a_fake_group(kind):
    """Whether one rank whose group exchanges nothing evaluates, then trains."""
    dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    inputs, target = batch(MICROBATCHES, ROWS)
    stage = PipelineStage(model(1)[0], 0, 1, CPU)
    schedule = kind(stage, MICROBATCHES, loss_of)
    evaluated = schedule.eval(inputs, target=target)
    untouched = all(each.grad is None for each in stage.submod.parameters())
    trained = schedule.step(inputs, target=target)
    return (
        untouched,
        torch.equal(evaluated, trained),
        all(each.grad is not None for each in stage.submod.parameters()),
    )


class AsInTorchsTests(unittest.TestCase):
    def test_traced_stages(self):
        for extra, own_function, hint in [(False, False, "bf"), (True, True, "bfw"), (True, False, "fb")]:
            with self.subTest(extra=extra, own_function=own_function, hint=hint):
                self.assertEqual(run_ranks(3, traced, extra, own_function, hint), [(True, True)] * 3)

    def test_stages_that_are_told_shapes(self):
        for hint in ("bf", "bfw"):
            self.assertEqual(run_ranks(3, told_shapes, hint), [(True, 3 * MICROBATCHES)] * 3)

    def test_outputs_become_inputs(self):
        self.assertEqual(run_ranks(3, fed_back), [True] * 3)

    def test_uneven_placement(self):
        self.assertEqual(run_ranks(2, placed_unevenly), [True] * 2)

    def test_sizes_that_change(self):
        for hint in ("bf", "bfw"):
            self.assertEqual(run_ranks(2, sizes_change, hint), [[True] * 3] * 2)

    def test_weight_gradients_of_ones_own(self):
        for hint in ("bf", "bfw"):
            self.assertEqual(run_ranks(2, own_weight_gradients, hint), [(True, {2 * MICROBATCHES})] * 2)

    def test_gradients_that_are_missing(self):
        for hint in ("bf", "bfw"):
            self.assertEqual(run_ranks(2, uneven, hint), [(True, True, True)] * 2)

    def test_nothing_is_left_behind(self):
        for hint in ("bf", "bfw"):
            self.assertEqual(run_ranks(2, left_behind, hint), [(1, 0)] * 2)

    def test_several_schedules_in_one_process_group(self):
        for right in run_ranks(4, many):
            self.assertTrue(all(right), right)

    def test_a_process_group_that_exchanges_nothing(self):
        for kind in (ReadinessSchedule, ReadinessScheduleSingle):
            self.assertEqual(run_ranks(1, in_a_fake_group, kind), [(True, True, True)])


if __name__ == "__main__":
    unittest.main()
