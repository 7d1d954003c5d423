"""What cannot be run is refused with a fitting exception that names the argument, and the rank or stage."""

import unittest
import warnings

import sluice
import torch
import torch.distributed as dist
from ranks import run_ranks
from sluice.torch import ReadinessSchedule, ReadinessScheduleSingle
from steps import WIDTH, loss_of
from torch import nn
from torch.distributed.pipelining import PipelineStage, SplitPoint, pipeline

MICROBATCHES = 4
# Less than a rank would wait which has not been told.
TIMEOUT = 45


def stage_of(module, index=None, stages=None):
    index = dist.get_rank() if index is None else index
    return PipelineStage(module, index, stages or dist.get_world_size(), torch.device("cpu"))


def raised_by(call):
    """Types and text; None for an end in order."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - which one it is, is what the test looks at
        return [each.__name__ for each in type(error).__mro__], str(error)
    return None


def refused_when_made():
    """By name: what making a schedule raises on this rank, and what it should."""
    rank = dist.get_rank()
    layer = nn.Linear(WIDTH, WIDTH)
    one = stage_of(layer)
    four = [stage_of(layer, index, 4) for index in (rank, rank + 2)]
    schedule = sluice.Schedule.gpipe(sluice.Pipeline.chain(2, MICROBATCHES))
    orders = [schedule.order(0), schedule.order(1)[:-1]]
    halved = sluice.Schedule("halved", orders, schedule.pipeline)
    longer = sluice.Schedule.gpipe(sluice.Pipeline.chain(2, 2 * MICROBATCHES))

    def make(stages=one, microbatches=MICROBATCHES, **options):
        return lambda: ReadinessSchedule(stages, microbatches, loss_of, **options)

    return {
        name: (raised_by(call), kind.__name__, text)
        for name, call, kind, text in [
            ("no stage", make([]), ValueError, "stages: "),
            (
                "a stage too few",
                make(four[:1]),
                ValueError,
                f"stages: rank {rank} of 2 was given stages [{rank}]",
            ),
            ("another order", make(four[::-1]), ValueError, f"stages: rank {rank} of 2 was given stages"),
            (
                "another placement",
                make(four, placement="v"),
                ValueError,
                f"stages: rank {rank} of 2 was given stages",
            ),
            ("uneven", make(stage_of(layer, 2 * rank, 3)), ValueError, "stages: 3 stages cannot be divided"),
            (
                "single",
                lambda: ReadinessScheduleSingle(four[0], MICROBATCHES, loss_of),
                ValueError,
                f"stages: rank {rank} of 2 was given stages [{rank}]",
            ),
            ("no microbatch", make(microbatches=0), ValueError, "n_microbatches: must be at least 1, not 0"),
            ("microbatches", make(microbatches=2.0), TypeError, "n_microbatches: must be an int, not 2.0"),
            ("placement", make(placement="w"), ValueError, "placement: must be one of loop, v, not 'w'"),
            ("limit", make(limit=0), ValueError, "limit: must be at least 1, not 0"),
            ("limit of two", make(four, limit=1), ValueError, "limit: must be at least 2, not 1"),
            ("limit of text", make(limit="8"), TypeError, "limit: must be an int, not '8'"),
            ("stall_timeout", make(stall_timeout=0), ValueError, "stall_timeout: must be positive, not 0"),
            ("hint", make(hint="backwards"), ValueError, "hint: 'backwards' is not one of bf"),
            ("hint of a number", make(hint=3), TypeError, "hint: must be one of bf"),
            (
                "no file",
                make(hint="there_is_none.csv"),
                ValueError,
                "hint: path: cannot read there_is_none.csv",
            ),
            ("nothing twice", make(hint=halved), ValueError, "hint: schedule: "),
            (
                "longer",
                make(hint=longer),
                ValueError,
                "hint: schedule gpipe has 8 microbatches, n_microbatches is 4",
            ),
            (
                "smaller",
                make(four, hint=schedule),
                ValueError,
                "hint: schedule gpipe has its stages on ranks [0, 1]",
            ),
        ]
    }


def differs(options_of_two):
    """What a step raises where rank 2 has other options than the others."""
    options = dict(limit=8, hint="bf", loss_fn=loss_of, n_microbatches=MICROBATCHES)
    if dist.get_rank() == 2:
        options.update(options_of_two)
    schedule = ReadinessSchedule(stage_of(nn.Linear(WIDTH, WIDTH)), **options)
    args = [torch.ones(2 * MICROBATCHES, WIDTH)] if dist.get_rank() == 0 else []
    return raised_by(lambda: schedule.step(*args))


class Returns(nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.answer = answer

    def forward(self, inputs):
        return self.answer(self.layer(inputs))


def in_static_mode():
    """What a step raises where rank 0 gives what is no tensor, and torch does not look before."""
    rows = torch.zeros(1, WIDTH, requires_grad=True)
    module = Returns(lambda output: output.tolist() if dist.get_rank() == 0 else output)
    stage = PipelineStage(
        module, dist.get_rank(), dist.get_world_size(), torch.device("cpu"), input_args=rows, output_args=rows
    )
    schedule = ReadinessSchedule(stage, MICROBATCHES, loss_of)
    args = [torch.ones(MICROBATCHES, WIDTH)] if dist.get_rank() == 0 else []
    return raised_by(lambda: schedule.step(*args, target=torch.ones(MICROBATCHES, WIDTH)))


def refused_in_steps():
    """By name: what a step raises on the ranks 0 and 1, and what it should."""
    rank = dist.get_rank()
    rows = torch.ones(MICROBATCHES, WIDTH)
    more = torch.ones(MICROBATCHES + 1, WIDTH)
    whole = [(each,) for each in rows.split(1)]
    dictionary = Returns(lambda output: {"output": output})

    def step(*args, module=None, **kwargs):
        schedule = ReadinessSchedule(stage_of(module or nn.Linear(WIDTH, WIDTH)), MICROBATCHES, loss_of)
        kind = schedule.eval if kwargs.pop("evaluates", False) else schedule.step
        return raised_by(lambda: kind(*args, **kwargs))

    def without_gradients(**kwargs):
        with torch.no_grad():
            return step(*([rows] if rank == 0 else []), **kwargs)

    given = {"arg_mbs": whole} if rank == 0 else {}
    return {
        "ragged batch": step(*([more] if rank == 0 else [])),
        "ragged target": step(*([rows] if rank == 0 else []), **({"target": more} if rank == 1 else {})),
        "small batch": step(*([rows[:2]] if rank == 0 else [])),
        "both": step(*([rows] if rank == 0 else []), **({"arg_mbs": whole} if rank == 0 else {})),
        "too few": step(**({"arg_mbs": whole[1:]} if rank == 0 else {})),
        "no tuples": step(**({"arg_mbs": list(rows)} if rank == 0 else {})),
        "no gradients": without_gradients(),
        "no gradients, given": without_gradients(target_mbs=list(rows.split(1)) if rank == 1 else None),
        "no losses": step(evaluates=True, losses=[] if rank == 1 else None, **given),
        "dictionary": step(*([rows] if rank == 0 else []), module=dictionary if rank == 0 else None),
    }


class Skips(nn.Module):
    """What its first block gives is an input of the last part."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, inputs):
        first = self.blocks[0](inputs)
        return self.blocks[2](self.blocks[1](first)) + first


def skips():
    """What each class raises for a connection that leaves out a stage, where there is no backward."""
    rows = torch.ones(MICROBATCHES, WIDTH)
    splits = {f"blocks.{index}": SplitPoint.BEGINNING for index in (1, 2)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = pipeline(Skips(), mb_args=(rows[:1],), split_spec=splits)
    raised = []
    for kind in (ReadinessSchedule, ReadinessScheduleSingle):
        schedule = kind(pipe.build_stage(dist.get_rank(), torch.device("cpu")), MICROBATCHES, loss_of)
        raised.append(raised_by(lambda: schedule.eval(*([rows] if dist.get_rank() == 0 else []))))
    return raised


class BadInput(unittest.TestCase):
    def assert_raised(self, found, kind, text):
        self.assertIsNotNone(found)
        self.assertIn(kind, found[0])
        self.assertIn(text, found[1])

    def test_when_a_schedule_is_made(self):
        for refused in run_ranks(2, refused_when_made):
            for name, (found, kind, text) in refused.items():
                with self.subTest(name):
                    self.assert_raised(found, kind, text)

    def test_configurations_that_differ(self):
        reversed_csv = sluice.Schedule.from_csv("0F0,0F1,0B0,0B1\n1F1,1B1,1F0,1B0\n", "turned")
        self.assertNotEqual(
            reversed_csv.to_csv(), sluice.Schedule.gpipe(sluice.Pipeline.chain(2, 2)).to_csv()
        )
        for options, text in [
            ({"limit": 4}, "limit: rank 2 has 4, ranks 0 and 1 have 8"),
            ({"hint": "bfw"}, "hint: rank 2 has bfw, ranks 0 and 1 have bf"),
            ({"n_microbatches": 8}, "n_microbatches: rank 2 has 8, ranks 0 and 1 have 4"),
            ({"loss_fn": None}, "loss_fn: rank 2 has None, ranks 0 and 1 have given"),
            ({"seed": 1}, "seed: rank 2 has 1, ranks 0 and 1 have 0"),
        ]:
            with self.subTest(text):
                for found in run_ranks(3, differs, options, timeout=TIMEOUT):
                    self.assert_raised(found, "ValueError", text)

    def test_in_steps(self):
        first, last = run_ranks(2, refused_in_steps, timeout=TIMEOUT)
        no_gradients = "requires gradients to be enabled"
        for name, raises, kind, text in [
            (
                "ragged batch",
                0,
                "ValueError",
                "args: microbatch 1 has shapes [(1, 32)], microbatch 0 has [(2, 32)]",
            ),
            ("ragged target", 1, "ValueError", "target: microbatch 1 has shapes"),
            ("small batch", 0, "ValueError", "args: the batch makes 2 microbatches only"),
            ("both", 0, "TypeError", "step: give either whole batches or arg_mbs, kwarg_mbs and target_mbs"),
            ("too few", 0, "ValueError", "Expecting 4 arg_mbs but got 3"),
            ("no tuples", 0, "TypeError", "arg_mbs: microbatch 0 is a Tensor"),
            ("no losses", 1, "RuntimeError", "Expecting 4 losses but got 0"),
            ("dictionary", 0, "Exception", "dict"),
        ]:
            with self.subTest(name):
                own, other = (first, last) if raises == 0 else (last, first)
                self.assert_raised(own[name], kind, text)
                if name != "no losses":  # which is found when all have finished
                    self.assert_raised(other[name], "Aborted", f"rank {raises}: {own[name][0][0]}")
        for each in (first, last):
            for name in ("no gradients", "no gradients, given"):
                self.assert_raised(each[name], "RuntimeError", no_gradients)

    def test_a_connection_that_leaves_out_a_stage(self):
        (several, single), *others = run_ranks(3, skips, timeout=TIMEOUT)
        self.assert_raised(several, "RuntimeError", "skip connections")
        self.assert_raised(
            single, "RuntimeError", "stage 0: output 0 goes to stage 2; a stage can only feed the next one"
        )
        for several, single in others:
            for raised in (several, single):
                self.assertIsNotNone(raised)

    def test_an_output_that_is_no_tensor(self):
        first, last = run_ranks(2, in_static_mode, timeout=TIMEOUT)
        self.assert_raised(first, "TypeError", "stage 0: output 0 is a list")
        self.assert_raised(last, "Aborted", "stage 0: output 0 is a list")


if __name__ == "__main__":
    unittest.main()
