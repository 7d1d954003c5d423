"""What stages give each other: several tensors of any type and form, some without a gradient; not copied."""

import copy
import unittest

import torch
import torch.distributed as dist
from ranks import run_ranks
from sluice._process.tensors import give, take
from sluice.torch import ReadinessSchedule
from steps import same
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

MICROBATCHES = 4
ROWS = 2
WIDTH = 8
CPU = torch.device("cpu")
TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.bool,
    torch.uint8,
    torch.int64,
]
FORMS = [(), (0,), (3, 0), (5,), (2, 3, 4)]


def passengers(number):
    """Of every type and form, with elements that depend on the microbatch; and some that lie strewn."""
    values = torch.arange(24) + number
    tensors = [
        values[: torch.Size(form).numel()].reshape(form).to(dtype) for dtype in TYPES for form in FORMS
    ]
    square = values[:16].reshape(4, 4).float()
    return [
        *tensors,
        square.T,
        square[1:3],
        square[:, ::2],
        square[0].expand(3, 4),
        torch.complex(square, square).conj(),
    ]


class Carries(nn.Module):
    """A layer that takes passengers along: from the first stage to the last, which keeps them."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.kept = []

    def forward(self, inputs, numbers, *others):
        if dist.get_rank() == 0:
            others = passengers(int(numbers[0]))
        outputs = self.layer(inputs)
        if dist.get_rank() == dist.get_world_size() - 1:
            self.kept.append((int(numbers[0]), [each.clone() for each in others]))
            return outputs
        return (outputs, numbers, *others)


def bits(tensor):
    tensor = tensor.resolve_conj().contiguous()
    return tensor.dtype, tensor.shape, tensor.reshape(-1).view(torch.uint8) if tensor.numel() else None


def identical(found, expected):
    first, second = bits(found), bits(expected)
    return first[:2] == second[:2] and (first[2] is None or torch.equal(first[2], second[2]))


def carried():
    """Which passengers of a step did not arrive as they were sent, and how many did."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    module = Carries()
    schedule = ReadinessSchedule(
        PipelineStage(module, rank, ranks, CPU), MICROBATCHES, squared, delays="tail:0.3,3"
    )
    numbers = torch.arange(MICROBATCHES).repeat_interleave(ROWS)
    target = torch.ones(MICROBATCHES * ROWS, WIDTH)
    args = [target, numbers] if rank == 0 else []
    wrong, right = [], 0
    for run in (schedule.step, schedule.eval):
        module.kept.clear()
        run(*args, **({"target": target} if rank == ranks - 1 else {}))
        for number, found in module.kept[-MICROBATCHES:] if module.kept else []:
            for place, (one, other) in enumerate(zip(found, passengers(number))):
                right += identical(one, other)
                wrong += [] if identical(one, other) else [(number, place, one.dtype, one.shape)]
    return wrong, right


def squared(output, target):
    return ((output - target).abs() ** 2).mean()


def total(output, target):
    """Its gradient is one element that is seen everywhere."""
    return output.sum()


class Plain(nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, dtype=dtype)

    def forward(self, inputs):
        return self.layer(inputs)


class Turned(Plain):
    """Gives what is not contiguous, and so gets a gradient that is not."""

    def forward(self, inputs):
        return self.layer(inputs).T.contiguous().T


class Same(Plain):
    """Passes the gradient on as it is."""

    def forward(self, inputs):
        return inputs + 0 * self.layer(inputs).detach()


class HalfUsed(Plain):
    """Two outputs, the second of which the next stage does not use: it has no gradient."""

    def forward(self, inputs, _unused=None):
        outputs = self.layer(inputs)
        return outputs if dist.get_rank() == dist.get_world_size() - 1 else (outputs, 2 * outputs)


def results_of(kind, module, loss, dtype, **options):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    data = torch.randn(MICROBATCHES * ROWS, WIDTH, dtype=dtype)
    stage = PipelineStage(copy.deepcopy(module), rank, ranks, CPU)
    schedule = kind(stage, MICROBATCHES, loss, **options)
    output = None
    for _ in range(2):
        output = schedule.step(
            *([data] if rank == 0 else []), **({"target": data} if rank == ranks - 1 else {})
        )
    gradients = [each.grad for each in stage.submod.parameters() if each.grad is not None]
    return [*gradients, torch.zeros(1), *([] if output is None else [output.detach()])]


def as_torchs():
    """Names of what does not come out as torch's GPipe makes it."""
    wrong = []
    torch.manual_seed(4 + dist.get_rank())
    cases = [(str(dtype), Plain(dtype), dtype) for dtype in TYPES[:4]]
    cases += [("turned", Turned(), torch.float32), ("half used", HalfUsed(), torch.float32)]
    for name, module, dtype in cases:
        theirs = module
        if name == "turned":  # on gloo, torch's schedules fail with it
            theirs = Plain()
            theirs.load_state_dict(module.state_dict())
        expected = results_of(ScheduleGPipe, theirs, squared, dtype)
        for hint in ("bf", "bfw"):
            if not same(results_of(ReadinessSchedule, module, squared, dtype, hint=hint), expected):
                wrong.append((name, hint))
    return wrong


def expanded():
    """Whether gradients of a sum are what one process computes. torch's schedules fail with it on gloo."""
    torch.manual_seed(5)
    modules = [Plain(), Same()]
    found = results_of(ReadinessSchedule, modules[dist.get_rank()], total, torch.float32)
    torch.manual_seed(3)
    data = torch.randn(MICROBATCHES * ROWS, WIDTH)
    alone = nn.Sequential(*copy.deepcopy(modules))
    for _ in range(2):
        for inputs in data.split(ROWS):
            total(alone(inputs), None).backward()
        for each in modules[0].parameters():
            each.grad = None
        for each in alone[0].parameters():
            each.grad /= MICROBATCHES
    expected = [each.grad for each in alone[0].parameters()] if dist.get_rank() == 0 else []
    return all(map(torch.equal, found, expected)), len(expected)


class Types(unittest.TestCase):
    def test_all_arrive_as_they_were_sent(self):
        results = run_ranks(3, carried)
        self.assertEqual([wrong for wrong, _ in results], [[], [], []])
        self.assertEqual(results[-1][1], 2 * MICROBATCHES * (len(TYPES) * len(FORMS) + 5))

    def test_gradients_are_torchs_bit_for_bit(self):
        self.assertEqual(run_ranks(3, as_torchs), [[], [], []])

    def test_a_gradient_that_is_one_element_everywhere(self):
        self.assertEqual(run_ranks(2, expanded), [(True, 2), (True, 0)])


class Capsules(unittest.TestCase):
    def test_contiguous_tensors_are_not_copied(self):
        whole = torch.randn(6, 4)
        for tensor in (
            whole,
            whole[2:4],
            nn.Parameter(whole),
            whole.to(torch.float8_e4m3fn),
            whole.view(3, 8),
        ):
            [taken] = take(give([tensor]), [tensor.dtype], CPU)
            self.assertEqual(taken.data_ptr(), tensor.data_ptr())
            self.assertTrue(identical(taken, tensor.detach()))

    def test_what_is_strewn_is_gathered(self):
        whole = torch.randn(6, 4)
        for tensor in (whole.T, whole[:, 1:3], whole[0].expand(6, 4)):
            [taken] = take(give([tensor]), [tensor.dtype])
            self.assertTrue(taken.is_contiguous())
            self.assertTrue(torch.equal(taken, tensor))

    def test_an_absent_gradient_is_no_empty_tensor(self):
        empty = torch.empty(0, dtype=torch.uint8)
        self.assertEqual(take(give([None]), [torch.float32]), [None])
        self.assertTrue(identical(take(give([empty]), [torch.uint8], maybe_absent=False)[0], empty))
        self.assertEqual(take(give([torch.zeros(0)]), [torch.float32])[0].shape, (0,))

    def test_a_tensor_too_many(self):
        with self.assertRaisesRegex(ValueError, "2 tensors arrived where 1 were expected"):
            take(give([torch.zeros(1)] * 2), [torch.float32])


if __name__ == "__main__":
    unittest.main()
