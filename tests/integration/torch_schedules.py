"""Asks torch.distributed.pipelining for its schedules and has it read ours. Run by a Python that has torch.

    torch_schedules.py dump FOLDER   reads cases as JSON, writes FOLDER/<name>.csv and <name>.comms.csv
    torch_schedules.py load FOLDER   reads cases as JSON, prints for each what torch makes of FOLDER/<name>.csv

A case has `name`, `schedule` (a class of torch's), `ranks`, `stages_per_rank` and `microbatches`.
"""

import csv
import json
import sys
import types

from torch.distributed.pipelining import schedules


def make(case):
    """The schedule object of rank 0; it computes the orders of all ranks when it is made."""
    stages = [
        types.SimpleNamespace(
            num_stages=case["ranks"] * case["stages_per_rank"],
            group_size=case["ranks"],
            group_rank=0,
            stage_index=index,
            is_first=index == 0,
            is_last=False,
            submod=None,
        )
        for index in range(case["stages_per_rank"])
    ]
    if case["schedule"] in ("ScheduleGPipe", "Schedule1F1B"):
        return getattr(schedules, case["schedule"])(stages[0], case["microbatches"])
    return getattr(schedules, case["schedule"])(stages, case["microbatches"])


def dump(case, folder):
    schedule = make(case)
    if isinstance(schedule, schedules.PipelineScheduleMulti):
        schedule._dump_csv(f"{folder}/{case['name']}.csv", format="compute_only")
        schedule._dump_csv(f"{folder}/{case['name']}.comms.csv", format="compute_comms")
        return
    with open(f"{folder}/{case['name']}.csv", "w", newline="") as file:
        csv.writer(file).writerows(schedule._get_pipeline_order().values())


def load(case, folder):
    """The cells as torch reads them, once torch has checked the order and put in the communication."""
    path = f"{folder}/{case['name']}.csv"
    make(case)._load_csv(path)
    with open(path, newline="") as file:
        return [[str(schedules._Action.from_str(cell)) for cell in row] for row in csv.reader(file)]


if __name__ == "__main__":
    command, folder = sys.argv[1:]
    cases = json.load(sys.stdin)
    if command == "dump":
        for each in cases:
            dump(each, folder)
    else:
        json.dump({each["name"]: load(each, folder) for each in cases}, sys.stdout)
