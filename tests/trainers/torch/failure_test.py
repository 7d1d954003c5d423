"""What fails on one rank is raised on all, naming it, wherever they are; then the schedule goes on."""

import os
import signal
import threading
import time
import unittest

import torch
import torch.distributed as dist
from ranks import run_ranks
from sluice import Aborted, StallError
from sluice.torch import ReadinessSchedule, ReadinessScheduleSingle
from steps import WIDTH, loss_of, stage_of, step_arguments
from torch import nn

RANKS = 3
MICROBATCHES = 4
# Less than a rank would wait which has not been told.
TIMEOUT = 45


class Layer(nn.Module):
    """Calls `trouble` at the start of one forward."""

    def __init__(self, trouble=None, rank=1, call=1):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.trouble = trouble if dist.get_rank() == rank else None
        self.call = call
        self.calls = 0

    def forward(self, inputs):
        self.calls += 1
        if self.trouble and self.calls == self.call:
            self.trouble()
        return self.layer(inputs)


def told_shapes():
    """Of a stage that torch then need not run to know them."""
    rows = [torch.zeros(1, WIDTH, requires_grad=needed) for needed in (dist.get_rank() > 0, True)]
    return {"input_args": rows[0], "output_args": rows[1]}


def arguments(rows=MICROBATCHES):
    """Of this rank's `step`."""
    return step_arguments(rows)


def outcome(call):
    """Types and text of what the call raises; None for an end in order."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - which one it is, is what the test looks at
        return [each.__name__ for each in type(error).__mro__], str(error)
    return None


def step(schedule):
    args, kwargs = arguments()
    schedule.step(*args, **kwargs)


def break_down():
    raise KeyError("broken on purpose")


def fails_in(where):
    """Outcomes of two steps, the first of which rank 1 breaks."""
    calls = {"inference": 1, "first task": 2, "last task": 1 + MICROBATCHES}
    schedule = ReadinessSchedule(stage_of(Layer(break_down, call=calls[where])), MICROBATCHES, loss_of)
    outcomes = [outcome(lambda: step(schedule)) for _ in range(2)]
    outcomes.append(
        bool(all(parameter.grad is not None for parameter in schedule._stages[0].submod.parameters()))
    )
    schedule.close()
    return outcomes


def fails_before_the_step():
    """Rank 1 gives a batch that cannot be divided; in the first step, and in one when all are together."""
    schedule = ReadinessSchedule(stage_of(Layer()), MICROBATCHES, loss_of)

    def ragged():
        args, kwargs = arguments()
        if dist.get_rank() == 1:
            args = [torch.ones(MICROBATCHES + 1, WIDTH)]
        schedule.step(*args, **kwargs)

    return [outcome(call) for call in (ragged, lambda: step(schedule), ragged, lambda: step(schedule))]


def fails_in_the_loss():
    calls = [0]

    def loss(output, target):
        calls[0] += 1
        if calls[0] == 3:
            raise ArithmeticError("no loss")
        return loss_of(output, target)

    schedule = ReadinessScheduleSingle(stage_of(Layer()), MICROBATCHES, loss, hint="bfw")
    return [outcome(lambda: step(schedule)) for _ in range(2)]


def fails_when_made():
    """Rank 1 has no schedule to come with at first."""
    stage = stage_of(Layer())
    hint = "bf" if dist.get_rank() != 1 else "backwards"
    outcomes = []
    try:
        schedule = ReadinessSchedule(stage, MICROBATCHES, loss_of, hint=hint)
        outcomes.append(outcome(lambda: step(schedule)))
    except ValueError as error:
        outcomes.append((["ValueError"], str(error)))
        schedule = ReadinessSchedule(stage, MICROBATCHES, loss_of)
    return [*outcomes, outcome(lambda: step(schedule))]


def is_interrupted():
    """Ctrl-C on rank 1: in a task, and while it waits for the first activation, which rank 0 has late."""

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    def be_late():
        if dist.get_rank() == 0:
            time.sleep(1)

    outcomes = []
    module = Layer(interrupt, call=2)
    schedule = ReadinessSchedule(stage_of(module, **told_shapes()), MICROBATCHES, loss_of)
    outcomes.append(outcome(lambda: step(schedule)))
    module = Layer(be_late, rank=0)
    schedule = ReadinessSchedule(stage_of(module, **told_shapes()), MICROBATCHES, loss_of)
    if dist.get_rank() == 1:
        threading.Timer(0.3, interrupt).start()
    outcomes.append(outcome(lambda: step(schedule)))
    return outcomes


def dies_in(call):
    """Rank 1 is killed in that call of its module, the first of which is torch's, to know the shapes."""
    module = Layer(lambda: os.kill(os.getpid(), signal.SIGKILL), call=call)
    schedule = ReadinessSchedule(stage_of(module), MICROBATCHES, loss_of)
    return [outcome(lambda: step(schedule)) for _ in range(3)]


def leaves(closes):
    """Rank 1 makes one step less than the others, and ends."""
    schedule = ReadinessSchedule(stage_of(Layer()), MICROBATCHES, loss_of)
    step(schedule)
    if dist.get_rank() == 1:
        if closes:
            schedule.close()
        return []
    return [outcome(lambda: step(schedule))]


def is_missing():
    """Rank 1 makes no step at all."""
    schedule = ReadinessSchedule(stage_of(Layer()), MICROBATCHES, loss_of, join_timeout=2)
    dist.barrier()
    if dist.get_rank() == 1:
        return []
    return [outcome(lambda: step(schedule))]


def evaluates_alone():
    """Rank 1 evaluates while the others train, in the first step."""
    schedule = ReadinessSchedule(stage_of(Layer()), MICROBATCHES, loss_of)

    def differ():
        args, kwargs = arguments()
        (schedule.eval if dist.get_rank() == 1 else schedule.step)(*args, **kwargs)

    return [outcome(differ), outcome(lambda: step(schedule))]


def calls_itself():
    """What a module of rank 1 is told that steps and closes its own schedule; outcomes of two steps."""
    told = []

    def call():
        told.extend(outcome(each) for each in (lambda: step(schedule), schedule.close))

    schedule = ReadinessSchedule(stage_of(Layer(call, call=3)), MICROBATCHES, loss_of)
    return told, [outcome(lambda: step(schedule)) for _ in range(2)]


def run(function, *args, **options):
    return enumerate(run_ranks(RANKS, function, *args, timeout=TIMEOUT, **options))


def stands_still():
    """Rank 1 evaluates while the others train, after a step of all: it waits for them and they for it."""
    schedule = ReadinessSchedule(stage_of(Layer()), MICROBATCHES, loss_of, stall_timeout=3)
    step(schedule)
    args, kwargs = arguments()
    differ = schedule.eval if dist.get_rank() == 1 else schedule.step
    return [outcome(lambda: differ(*args, **kwargs)), outcome(lambda: step(schedule))]


class Failure(unittest.TestCase):
    def assert_raised(self, outcome, kind, *texts):
        kinds, said = outcome
        self.assertIn(kind.__name__, kinds)
        for text in texts:
            self.assertIn(text, said)

    def assert_told(self, outcome, *texts):
        self.assert_raised(outcome, Aborted, *texts)

    def test_an_exception_in_a_module(self):
        for where, kind, text in [
            ("inference", KeyError, "broken on purpose"),
            ("first task", RuntimeError, "failed to run forward"),
            ("last task", RuntimeError, "failed to run forward"),
        ]:
            with self.subTest(where=where):
                for rank, (first, second, trained) in run(fails_in, where):
                    if rank == 1:
                        self.assert_raised(first, kind, text)
                    else:
                        self.assert_told(first, "rank 1", text)
                    self.assertIsNone(second)
                    self.assertTrue(trained)

    def test_an_exception_before_a_step(self):
        for rank, (early, good, late, last) in run(fails_before_the_step):
            for failed in (early, late):
                if rank == 1:
                    self.assert_raised(failed, ValueError, "args: microbatch 1")
                else:
                    self.assert_told(failed, "rank 1", "args: microbatch 1")
            self.assertIsNone(good)
            self.assertIsNone(last)

    def test_an_exception_in_the_loss(self):
        for rank, (first, second) in run(fails_in_the_loss):
            if rank == 2:
                self.assert_raised(first, ArithmeticError, "no loss")
            else:
                self.assert_told(first, "rank 2", "no loss")
            self.assertIsNone(second)

    def test_a_schedule_that_cannot_be_made(self):
        for rank, (first, second) in run(fails_when_made):
            if rank == 1:
                self.assert_raised(first, ValueError, "hint: 'backwards'")
            else:
                self.assert_told(first, "rank 1", "hint: 'backwards'")
            self.assertIsNone(second)

    def test_an_interrupt(self):
        for rank, outcomes in run(is_interrupted):
            for each in outcomes:
                if rank == 1:
                    self.assert_raised(each, KeyboardInterrupt)
                else:
                    self.assert_told(each, "rank 1", "KeyboardInterrupt")

    def test_the_death_of_a_rank(self):
        for call, good in ((1, 0), (MICROBATCHES + 3, 1)):
            for rank, outcomes in run(dies_in, call, dead=(1,)):
                if rank == 1:
                    continue
                self.assertEqual(outcomes[:good], [None] * good)
                self.assert_told(outcomes[good], "rank 1 died")
                for later in outcomes[good + 1 :]:
                    self.assert_raised(later, RuntimeError, "cannot be used any more: rank 1 died")

    def test_a_rank_that_ends(self):
        for closes, text in ((False, "was deleted"), (True, "closed its schedule")):
            for rank, outcomes in run(leaves, closes):
                self.assertEqual(len(outcomes), rank != 1)
                for each in outcomes:
                    self.assert_told(each, f"rank 1: {text}")

    def test_a_rank_that_does_not_come(self):
        for rank, outcomes in run(is_missing):
            self.assertEqual(len(outcomes), rank != 1)
            for kinds, text in outcomes:
                # Whose time is over first tells the others.
                self.assertTrue({"TimeoutError", "Aborted"} & set(kinds))
                self.assertIn("rank 1 of 3 did not come within 2 s (join_timeout)", text)

    def test_a_rank_that_evaluates_while_others_train(self):
        for rank, (first, second) in run(evaluates_alone):
            self.assert_raised(first, RuntimeError, "rank 0 trains" if rank == 1 else "rank 1 evaluates")
            self.assertIsNone(second)

    def test_a_call_within_a_step(self):
        for rank, (told, outcomes) in run(calls_itself):
            self.assertEqual(outcomes, [None, None])
            self.assertEqual(len(told), 2 if rank == 1 else 0)
            for each, name in zip(told, ("step", "close")):
                self.assert_raised(each, RuntimeError, f"{name}: called within a step of the same schedule")

    def test_a_standstill(self):
        for rank, (first, second) in run(stands_still):
            self.assert_raised(first, Aborted if rank == 1 else StallError, "no progress on any rank")
            self.assert_raised(second, RuntimeError, "cannot be used any more: no progress on any rank")


if __name__ == "__main__":
    unittest.main()
