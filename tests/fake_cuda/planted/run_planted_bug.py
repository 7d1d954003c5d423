"""Checks that a planted bug is reported every time, and the same program without it never.

    run_planted_bug.py PROGRAM NAME thread-sanitizer|fake-device|either|refusal
"""

import argparse
import os
import subprocess
import sys

WRONG_RUNS = 3
CORRECT_RUNS = 4
RACE = "WARNING: ThreadSanitizer: data race"
MISUSE = "fakecuda: "
REFUSAL = "nccl: "
REPORTS = {
    "thread-sanitizer": (RACE,),
    "fake-device": (MISUSE,),
    "either": (RACE, MISUSE),
    "refusal": (REFUSAL,),
}


def run(program, name, how, seed):
    """Runs the program under delays of its own; its exit status and what it said."""
    environment = dict(os.environ, FAKECUDA_SEED=str(seed), FAKECUDA_DELAY_US=str(100 * seed))
    # The programs wait for their device themselves: no need to wait at the exit for threads that may race.
    environment["TSAN_OPTIONS"] = environment.get("TSAN_OPTIONS", "") + ":atexit_sleep_ms=0"
    done = subprocess.run([program, name, how], env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("name")
    parser.add_argument("found_by", choices=REPORTS)
    arguments = parser.parse_args()

    for seed in range(1, WRONG_RUNS + 1):
        status, said = run(arguments.program, arguments.name, "wrong", seed)
        if status == 0 or not any(report in said for report in REPORTS[arguments.found_by]):
            sys.exit(f"{arguments.name}, seed {seed}: the bug was not found (status {status})\n{said}")
    for seed in range(CORRECT_RUNS):
        status, said = run(arguments.program, arguments.name, "correct", seed)
        if status != 0 or said:
            sys.exit(f"{arguments.name}, seed {seed}: the correct program was reported (status {status})\n{said}")


if __name__ == "__main__":
    main()
