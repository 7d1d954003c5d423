"""Checks the model of this folder with SPIN: every behaviour within small bounds; planted mistakes are found.

usage: check_models.py --list            names of the checks
       check_models.py [--trail] NAME... runs them, all without a name; --trail shows how a mistake shows
"""

import argparse
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
MODEL = pathlib.Path(__file__).resolve().parent / "agreement.pml"
MEMORY_MIB = 1900
DEPTH = 2000
TIMEOUT_S = 300

# What an error looks like in the output of the checker.
DIVERGES = r"assertion violated .*sequence\["
UNDECIDED = r"assertion violated .*put_in\["
HANGS = r"invalid end state"
SPINS = r"non-progress cycle"

LEADER, BITMAP, SCALAR = ({"RULE": rule} for rule in ("LEADER", "BITMAP", "SCALAR"))
# The published rule goes with the published limit.
FIRST_PICK = {**SCALAR, "PUBLISHED_LIMIT": 1, "ANY_ORDER": 1}
THREE_RANKS = {"RANKS": 3, "BATCHES": 2}
TWO_STAGES = {"STAGES": 2, "LIMIT0": 3, "LIMIT1": 2}
NARROWING = {"STAGES": 2, "LIMIT0": 3, "LIMIT1": 1}
LAUNCH_AHEAD = {"DEPTH": 2, "LIMIT0": 3}


@dataclasses.dataclass(frozen=True)
class Check:
    """A configuration of the model, and the one mistake that it is given."""

    settings: dict
    # Found with the mistake; without it the same configuration is sound.
    mistake: str = ""
    error: str = ""
    # Looks for runs that never end, in place of assertions and end states.
    endless: bool = False


CHECKS = {
    # One sequence on all ranks; every run ends with every task run; what all could run is decided on.
    "leader": Check({**LEADER, "BATCHES": 4}),
    "leader_launch_ahead": Check({**LEADER, **LAUNCH_AHEAD}),
    "leader_three_ranks": Check({**LEADER, "RANKS": 3}),
    "leader_two_stages": Check({**LEADER, **TWO_STAGES, "BATCHES": 4}),
    "leader_narrowing_limits": Check({**LEADER, **NARROWING, "BATCHES": 4}),
    "leader_reversed_hint": Check({**LEADER, **TWO_STAGES, "REVERSED": 1}),
    "leader_published_limit": Check({**LEADER, "PUBLISHED_LIMIT": 1, "ANY_ORDER": 1}),
    "bitmap": Check(BITMAP),
    "bitmap_any_order": Check({**BITMAP, "ANY_ORDER": 1}),
    "bitmap_launch_ahead": Check({**BITMAP, **LAUNCH_AHEAD}),
    "bitmap_three_ranks": Check({**BITMAP, **THREE_RANKS, "LIMIT0": 1}),
    "bitmap_two_stages": Check({**BITMAP, **TWO_STAGES}),
    "bitmap_narrowing_limits": Check({**BITMAP, **NARROWING}),
    "bitmap_reversed_hint": Check({**BITMAP, **TWO_STAGES, "REVERSED": 1}),
    "bitmap_published_limit": Check({**BITMAP, "PUBLISHED_LIMIT": 1, "ANY_ORDER": 1, "LIMIT0": 1}),
    "first_pick": Check({**FIRST_PICK, "BATCHES": 4}),
    "first_pick_launch_ahead": Check({**FIRST_PICK, "DEPTH": 2}),
    "first_pick_three_ranks": Check({**FIRST_PICK, **THREE_RANKS}),
    "first_pick_two_stages": Check({**FIRST_PICK, **NARROWING}),
    # No run goes on for ever, whatever the scheduler does: fairness need not be assumed.
    "leader_ends": Check({**LEADER, "BATCHES": 4}, endless=True),
    "bitmap_ends": Check(BITMAP, endless=True),
    "bitmap_two_stages_end": Check({**BITMAP, **NARROWING}, endless=True),
    "first_pick_ends": Check(FIRST_PICK, endless=True),
    # Planted mistakes.
    "leader_retry_on_own_change": Check(LEADER, "RETRY_ON_OWN_CHANGE", HANGS),
    "bitmap_retry_on_own_change": Check(BITMAP, "RETRY_ON_OWN_CHANGE", HANGS),
    "first_pick_retry_on_own_change": Check(FIRST_PICK, "RETRY_ON_OWN_CHANGE", HANGS),
    "bitmap_retry_without_change": Check(BITMAP, "RETRY_WITHOUT_CHANGE", SPINS, endless=True),
    "bitmap_advance_on_completion": Check({**BITMAP, **LAUNCH_AHEAD}, "ADVANCE_ON_COMPLETION", DIVERGES),
    "leader_no_reservation": Check(LEADER, "NO_RESERVATION", HANGS),
    "bitmap_no_reservation": Check(BITMAP, "NO_RESERVATION", HANGS),
    "bitmap_two_stages_no_reservation": Check({**BITMAP, **NARROWING}, "NO_RESERVATION", HANGS),
    # What the published rule does not give: it defers although a task is shared, and with slots that are
    # given out in order of arrival its ranks may name different tasks for ever.
    "first_pick_defers_a_shared_task": Check(FIRST_PICK, "COMMON_MUST_DECIDE", UNDECIDED),
    "first_pick_with_slots": Check({**SCALAR, "BATCHES": 4}, "", HANGS),
}


class Wrong(Exception):
    pass


def run(folder, *command):
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace", timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def must(folder, *command):
    code, output = run(folder, *command)
    if code != 0 or re.search(r"(?mi)\berror\b", output):
        raise Wrong(f"{' '.join(command)} failed:\n{output}")


def verify(folder, defines, endless):
    """The checker's output for one configuration, searched to the end or to its first error."""
    must(folder, "spin", "-a", *defines, str(MODEL))
    search = ["-DNP"] if endless else ["-DSAFETY"]
    must(folder, "cc", "-O2", "-w", f"-DMEMLIM={MEMORY_MIB}", *search, "-o", "pan", "pan.c")
    # -q: no message may be left over at the end.
    _, output = run(folder, "./pan", f"-m{DEPTH}", *(["-l"] if endless else ["-q"]))
    return output


def require_sound(output):
    """The search was complete and found nothing."""
    complete = re.search(r"State-vector \d+ byte, depth reached \d+, errors: 0\n", output)
    cut = re.search(r"(?i)search not completed|search depth too small|out of memory|truncat|hash-compact|"
                    r"bit statespace search[^\n]*\+", output)  # fmt: skip
    if not complete or cut:
        raise Wrong(f"not verified:\n{output}")


def require_error(output, error):
    found = re.search(r"(?m)^pan:\d+: (.*)$", output)
    if not found or not re.search(r"errors: [1-9]", output):
        raise Wrong(f"the mistake was not found:\n{output}")
    if not re.search(error, found[1]):
        raise Wrong(f"found something else than {error!r}: {found[1]}")
    return found[1]


def states(output):
    stored = re.search(r"(\d+) states, stored", output)
    return f"{int(stored[1]):,} states" if stored else "no states"


def checked_elsewhere(wanted):
    return any(
        (other.settings, other.endless, other.error) == (wanted.settings, wanted.endless, "")
        for other in CHECKS.values()
    )


def check(name, trail):
    wanted = CHECKS[name]
    defines = [f"-D{key}={value}" for key, value in wanted.settings.items()]
    with tempfile.TemporaryDirectory(prefix="sluice_models_") as folder:
        if not wanted.error or (wanted.mistake and not checked_elsewhere(wanted)):
            output = verify(folder, defines, wanted.endless)
            require_sound(output)
            print(f"{name}: sound, {states(output)}")
        if not wanted.error:
            return
        if wanted.mistake:
            defines.append(f"-D{wanted.mistake}")
        found = require_error(verify(folder, defines, wanted.endless), wanted.error)
        print(f"{name}: {wanted.mistake or 'as expected'}: {found[:100]}")
        if trail:
            print(run(folder, "spin", "-t", "-p", "-k", "agreement.pml.trail", *defines, str(MODEL))[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--trail", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(CHECKS))
        return 0
    unknown = [name for name in arguments.names if name not in CHECKS]
    if unknown:
        parser.error(f"no check {', '.join(unknown)}")
    missing = [tool for tool in ("spin", "cc") if shutil.which(tool) is None]
    if missing:
        print(f"skipped: no {' and no '.join(missing)} on this machine")
        return SKIPPED
    wrong = 0
    for name in arguments.names or CHECKS:
        start = time.monotonic()
        try:
            check(name, arguments.trail)
        except (Wrong, subprocess.TimeoutExpired) as error:
            wrong += 1
            print(f"{name}: FAILED: {error}", file=sys.stderr)
        print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
