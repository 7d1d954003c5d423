"""Commands that run under the NVTX probe, and what it wrote down."""

import collections
import json
import os
import subprocess

from sluice_command import BINARY, SluiceTest

PROBE = os.environ["SLUICE_NVTX_PROBE"]


class NvtxTest(SluiceTest):
    def calls(self, *arguments):
        """Runs a command that must end well; the NVTX calls it made."""
        path = self.folder / "calls.jsonl"
        environment = {**os.environ, "NVTX_INJECTION64_PATH": PROBE, "NVTX_PROBE_OUT": str(path)}
        done = subprocess.run(
            [BINARY, *map(str, arguments)], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, f"sluice {arguments}: {done.stderr}")
        # NVTX says nothing of a tool that it does not find.
        self.assertTrue(os.path.exists(PROBE))
        if not path.exists():
            return []
        calls = [json.loads(line) for line in path.read_text().splitlines()]
        path.unlink()
        return calls

    def assert_balanced(self, calls):
        """Each range that is started ends once, in its process; each that is pushed is popped, on its thread."""
        started = [(call["process"], call["range"]) for call in calls if call["call"] == "start"]
        ended = [(call["process"], call["range"]) for call in calls if call["call"] == "end"]
        self.assertEqual(len(set(started)), len(started))
        self.assertEqual(sorted(ended), sorted(started))
        depth = collections.Counter()
        for call in calls:
            if call["call"] == "push":
                self.assertEqual(call["depth"], depth[call["thread"]])
                depth[call["thread"]] += 1
            elif call["call"] == "pop":
                depth[call["thread"]] -= 1
                self.assertEqual(call["depth"], depth[call["thread"]])
        self.assertEqual(set(depth.values()), {0})


def task_of(payload):
    """What the payload of a task's range or an arrival's mark says; docs/profiling.md has the same lines."""
    return {
        "microbatch": payload & 0xFFFFFF,
        "place": payload >> 24 & 0xFFFF,
        "slot": payload >> 40 & 0xFFFF,
        "iteration": payload >> 56,
    }


def count(calls, call, key="message"):
    """How often each message, or category, of the calls of one kind."""
    return collections.Counter(each[key] for each in calls if each["call"] == call)
