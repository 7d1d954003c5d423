"""`--nvtx` and `--profile-iterations`, as a tool of NVTX sees them. Needs no LibTorch."""

import re
import sqlite3
import subprocess
import sys
import unittest

from nvtx_calls import NvtxTest, count, task_of
from sluice_command import SOURCE_DIR

STAGES = 3
MICROBATCHES = 4
ITERATIONS = 2
EMULATE = ["--emulate", "f=1ms,b=2ms,w=1ms", "--stages", STAGES, "--microbatches", MICROBATCHES]
COMPARE = ["compare", *EMULATE, "--iterations", ITERATIONS, "--methods", "1f1b,bfw"]
TRAIN = ["train", *EMULATE, "--steps", ITERATIONS]


class Annotations(NvtxTest):
    def test_a_comparison(self):
        calls = self.calls(*COMPARE, "--nvtx", "--record", "run.json")
        self.assert_balanced(calls)
        # A warm-up comes first.
        tasks = MICROBATCHES * (ITERATIONS + 1)
        expected = {}
        for chunk in range(STAGES):
            expected[f"F chunk {chunk}"] = 2 * tasks
            # 1f1b runs whole backwards, bfw splits them all.
            expected[f"B+W chunk {chunk}"] = expected[f"B chunk {chunk}"] = expected[f"W chunk {chunk}"] = tasks
        self.assertEqual(count(calls, "start"), expected)
        arrivals = {
            f"{kind} edge {edge}": 2 * tasks for kind in ("activation", "gradient") for edge in range(STAGES - 1)
        }
        decisions = {"decide F": 2 * STAGES * tasks, "decide B": 2 * STAGES * tasks, "decide W": STAGES * tasks}
        self.assertEqual(count(calls, "mark"), {**arrivals, **decisions})
        ranges = {f"iteration {method}": STAGES * (ITERATIONS + 1) for method in ("1f1b", "bfw")}
        pushed = count(calls, "push")
        waits = {message: pushed.pop(message) for message in list(pushed) if message.startswith("wait: ")}
        self.assertEqual(pushed, ranges)
        self.assertGreater(waits.get("wait: message", 0), 0)
        self.assertGreater(waits.get("wait: device", 0), 0)
        reasons = {"message", "limit", "device", "order", "agreement", "receiver"}
        self.assertLessEqual({wait.removeprefix("wait: ") for wait in waits}, reasons)
        self.assertEqual({call["domain"] for call in calls if "domain" in call}, {"sluice"})

    def test_every_task_is_named_by_its_payload(self):
        calls = self.calls(*COMPARE, "--nvtx")
        starts = [call for call in calls if call["call"] == "start" and call["message"].startswith("F ")]
        seen = [(task["iteration"], task["place"], task["microbatch"])
                for task in (task_of(call["payload"]) for call in starts)]  # fmt: skip
        expected = [(i, chunk, m) for i in range(ITERATIONS + 1) for chunk in range(STAGES) for m in range(MICROBATCHES)]
        self.assertEqual(sorted(seen), sorted(2 * expected))
        for call in starts:
            self.assertEqual(call["message"], f"F chunk {task_of(call['payload'])['place']}")

    def test_threads_are_named(self):
        calls = self.calls(*COMPARE, "--nvtx")
        named = {call["name"]: call["named"] for call in calls if call["call"] == "name thread"}
        expected = {f"rank {stage} (stage {stage}), {method}" for stage in range(STAGES) for method in ("1f1b", "bfw")}
        self.assertEqual(set(named), expected)
        self.assertEqual(len(set(named.values())), len(named))
        self.assertEqual({call["thread"] for call in calls if call["call"] == "push"}, set(named.values()))

    def test_without_the_options_nothing_is_called(self):
        self.assertEqual(self.calls(*COMPARE), [])
        self.assertEqual(self.calls(*TRAIN), [])

    def test_training(self):
        calls = self.calls(*TRAIN, "--nvtx")
        self.assert_balanced(calls)
        self.assertEqual(count(calls, "push")["iteration bf"], STAGES * ITERATIONS)
        self.assertEqual(count(calls, "start", "category")["forward"], STAGES * MICROBATCHES * ITERATIONS)

    def test_a_recording_replays_all_the_same(self):
        self.succeed(*COMPARE, "--nvtx", "--record", "run.json")
        self.succeed("trace", "replay", "run.json#bfw")

    def test_a_file_of_options_gives_them_too(self):
        (self.folder / "run.toml").write_text('nvtx = true\nprofile-iterations = "1"\n')
        calls = self.calls(*TRAIN, "--config", "run.toml")
        self.assertEqual(count(calls, "start")["profile"], 1)
        self.assertGreater(len(count(calls, "start")), 1)


class ProfileIterations(NvtxTest):
    def profiled(self, *arguments):
        """The iterations that lie in the profile range, by what they are called, and the calls."""
        calls = self.calls(*arguments)
        self.assert_balanced(calls)
        (start,) = [i for i, call in enumerate(calls) if call.get("message") == "profile"]
        (end,) = [i for i, call in enumerate(calls)
                  if call["call"] == "end" and call["range"] == calls[start]["range"]]  # fmt: skip
        self.assertEqual(calls[start]["category"], "profile")
        self.assertTrue(calls[start]["registered"])
        return {(call["message"], call["payload"]) for call in calls[start:end] if call["call"] == "push"
                and call["category"] == "iteration"}  # fmt: skip

    def test_a_comparison(self):
        covered = self.profiled(*COMPARE, "--nvtx", "--profile-iterations", "1-2")
        self.assertEqual(covered, {(f"iteration {method}", i) for method in ("1f1b", "bfw") for i in (1, 2)})

    def test_training(self):
        covered = self.profiled(*TRAIN, "--nvtx", "--profile-iterations", "0")
        self.assertEqual(covered, {("iteration bf", 0)})

    def test_the_range_alone(self):
        calls = self.calls(*TRAIN, "--profile-iterations", "1")
        self.assertEqual(count(calls, "start"), {"profile": 1})
        self.assertEqual(count(calls, "push"), {})


class JoinWithARecording(NvtxTest):
    """The script of docs/profiling.md, on an export made of what the probe saw."""

    PUSH_POP = 59
    START_END = 60
    MARK = 34

    def export(self, calls):
        """The columns that the script reads, as Nsight Systems documents them: registered messages are strings of
        another table, and a payload of 64 bits is signed."""
        strings = {}
        events = []
        opened = {}
        for call in calls:
            kind = call["call"]
            if kind in ("push", "start", "mark"):
                payload = call["payload"]
                signed = payload - (1 << 64) if payload is not None and payload >> 63 else payload
                text = strings.setdefault(call["message"], len(strings) + 1)
                event = [call["time_ns"], None, None, call["thread"], signed, None, text]
            if kind == "push":
                event[2] = self.PUSH_POP
                opened.setdefault(call["thread"], []).append(event)
            elif kind == "start":
                event[2] = self.START_END
                opened[call["range"], "range"] = event
            elif kind == "mark":
                events.append([*event[:2], self.MARK, *event[3:]])
            elif kind in ("pop", "end"):
                event = opened[call["thread"]].pop() if kind == "pop" else opened.pop((call["range"], "range"))
                event[1] = call["time_ns"]
                events.append(event)
        with sqlite3.connect(self.folder / "report.sqlite") as file:
            file.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
            file.executemany("INSERT INTO StringIds VALUES (?, ?)", [(key, text) for text, key in strings.items()])
            file.execute('CREATE TABLE NVTX_EVENTS (start INT, "end" INT, eventType INT, globalTid INT, '
                         "uint64Value INT, text TEXT, textId INT)")  # fmt: skip
            file.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?, ?)", events)
        file.close()

    def test_it_finds_every_recorded_task(self):
        (script,) = re.findall(r"^```python\n(.*?)^```$", (SOURCE_DIR / "docs/profiling.md").read_text(), re.M | re.S)
        (self.folder / "join.py").write_text(script)
        self.export(self.calls(*COMPARE, "--nvtx", "--profile-iterations", "1", "--record", "run.json"))
        for method, passes in (("bfw", "BFW"), ("1f1b", "BF")):
            with self.subTest(method):
                done = subprocess.run(
                    [sys.executable, "join.py", "report.sqlite", "run.json", method], cwd=self.folder,
                    capture_output=True, text=True, timeout=60,
                )  # fmt: skip
                self.assertEqual(done.returncode, 0, done.stderr)
                rows = [line.split() for line in done.stdout.splitlines()]
                self.assertEqual([row[:4] for row in rows],
                                 [["chunk", str(chunk), name, str(MICROBATCHES * ITERATIONS)]
                                  for chunk in range(STAGES) for name in passes])  # fmt: skip
                for row in rows:
                    # A range begins before its task and ends after it.
                    self.assertGreaterEqual(int(row[7]), 0, row)
                    self.assertAlmostEqual(int(row[6]) - int(row[5]), int(row[7]), delta=1)


class BadInput(NvtxTest):
    def test_what_is_no_range(self):
        for value in ("x", "1-", "-1", "2-1", "1-2-3", "1 - 2", "99999999999999999999"):
            with self.subTest(value):
                self.refuse("profile-iterations", *TRAIN, f"--profile-iterations={value}")
                self.refuse("profile-iterations", *COMPARE, f"--profile-iterations={value}")
        self.refuse("profile-iterations", *TRAIN, "--profile-iterations", "")

    def test_iterations_that_the_run_does_not_have(self):
        self.refuse("profile-iterations", *TRAIN, "--profile-iterations", ITERATIONS)
        self.refuse("profile-iterations", *COMPARE, "--profile-iterations", f"0-{ITERATIONS + 1}")

    def test_without_a_pipeline(self):
        self.refuse("nvtx", "train", "--no-pipeline", "--nvtx")
        self.refuse("profile-iterations", "train", "--no-pipeline", "--profile-iterations", "1")

    def test_a_value_for_the_flag(self):
        self.refuse("nvtx", *TRAIN, "--nvtx=perhaps")


if __name__ == "__main__":
    unittest.main()
