"""What becomes of a run of several processes when one of them fails: an error everywhere, soon, that names
the rank at fault."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import time
import unittest

from process_runs import EMULATED, ProcessTest, children_of, runs, wait_for
from sluice_command import RUN_FAILED, USAGE

RANKS = 4
# Far more than any test lets it run.
ENDLESS = ["compare", *EMULATED, "--methods", "bf", "--iterations", 1_000_000]
SOON = 5


class Failure(ProcessTest):
    def await_start(self, leader):
        """Until the leading rank has shown its first iteration."""
        line = leader.stderr.readline()
        self.assertIn("iteration ", line)

    def start_endless(self, *more):
        ranks = self.start_ranks(RANKS, lambda rank: [*ENDLESS, *more])
        self.await_start(ranks[0])
        return ranks

    def errors_of(self, process, seconds):
        """The process ends by itself, in failure; its errors."""
        _, errors = process.communicate(timeout=seconds)
        self.assertEqual(process.returncode, RUN_FAILED, errors)
        return errors


class Death(Failure):
    def test_every_rank_by_kill_at_a_random_moment(self):
        waited_for = 0
        for dead in range(RANKS):
            moment = random.uniform(0, 0.3)
            with self.subTest(rank=dead, moment=moment):
                ranks = self.start_endless()
                time.sleep(moment)
                ranks[dead].kill()
                killed = time.monotonic()
                for rank, process in enumerate(ranks):
                    if rank == dead:
                        continue
                    errors = self.errors_of(process, SOON - (time.monotonic() - killed))
                    self.assertIn(f"rank {dead} died", errors)
                    waits = re.search(rf"^(waiting for|no task here waits for) rank {dead}\b", errors, re.MULTILINE)
                    self.assertTrue(waits, errors)
                    waited_for += waits[1] == "waiting for"
        # At some moments, such as between two iterations, nothing waits for a rank.
        self.assertGreater(waited_for, 0, "no rank says what waited for the dead one")

    def test_of_one_that_was_spawned(self):
        parent = self.start([*ENDLESS, "--spawn", RANKS])
        self.await_start(parent)
        ranks = self.spawned_ranks(parent, RANKS)
        os.kill(ranks[2], signal.SIGKILL)
        errors = self.errors_of(parent, 2 * SOON)
        self.assertIn("rank 2 died", errors)
        self.assertEqual([pid for pid in ranks.values() if runs(pid)], [])

    def test_of_the_one_that_spawned_them(self):
        parent = self.start([*ENDLESS, "--spawn", RANKS])
        self.await_start(parent)
        ranks = self.spawned_ranks(parent, RANKS)
        parent.kill()
        wait_for(lambda: not any(runs(pid) for pid in ranks.values()), SOON, "the ranks have ended")

    def test_an_interrupt_ends_all(self):
        parent = self.start([*ENDLESS, "--spawn", RANKS])
        self.await_start(parent)
        ranks = self.spawned_ranks(parent, RANKS)
        parent.send_signal(signal.SIGINT)
        parent.communicate(timeout=2 * SOON)
        self.assertNotEqual(parent.returncode, 0)
        wait_for(lambda: not any(runs(pid) for pid in ranks.values()), SOON, "the ranks have ended")


class Standstill(Failure):
    def test_a_stopped_process_is_found(self):
        for stopped in (0, 2):
            with self.subTest(rank=stopped):
                ranks = self.start_endless("--stall-timeout", 2)
                ranks[stopped].send_signal(signal.SIGSTOP)
                for rank, process in enumerate(ranks):
                    if rank != stopped:
                        self.assertIn(f"nothing was heard of rank {stopped}", self.errors_of(process, 20))
                ranks[stopped].kill()

    def test_the_report_says_who_waits_for_whom(self):
        ranks = self.start_endless("--stall-timeout", 2, "--stall-report", "stall.json")
        ranks[1].send_signal(signal.SIGSTOP)
        for rank, process in enumerate(ranks):
            if rank != 1:
                self.errors_of(process, 20)
        ranks[1].kill()
        report = json.loads((self.folder / "stall.json").read_text())
        self.assertIn("rank 1", report["cause"])
        known = {each["rank"]: each for each in report["ranks"] if each}
        waits = [wait for each in known.values() for wait in each["waits"]]
        self.assertTrue(any(wait.get("from_rank") == 1 for wait in waits), report)


class Start(Failure):
    def test_a_rank_with_another_configuration(self):
        for field, own, others in (("microbatches", 8, 16), ("seed", 7, 1), ("jitter", "j1", "j0")):
            with self.subTest(field):
                ranks = self.start_ranks(
                    3, lambda rank: [*ENDLESS, f"--{field}", own if rank == 1 else others]
                )
                for rank, process in enumerate(ranks):
                    _, errors = process.communicate(timeout=30)
                    self.assertEqual(process.returncode, USAGE, errors)
                    self.assertIn(field, errors)
                    self.assertIn("rank 1", errors)

    def test_the_port_is_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            for way in ([], ["--rendezvous", "ucx"]):
                with self.subTest(way):
                    (leader,) = self.start_ranks(
                        2, lambda rank, way=way: [*ENDLESS, *way, "--join-timeout", 3], port, only=[0]
                    )
                    _, errors = leader.communicate(timeout=30)
                    self.assertNotEqual(leader.returncode, 0)
                    self.assertIn(str(port), errors)

    def test_a_rank_that_never_comes(self):
        for way in ([], ["--rendezvous", "ucx"]):
            with self.subTest(way):
                ranks = self.start_ranks(
                    3, lambda rank, way=way: [*ENDLESS, *way, "--join-timeout", 3], only=[0, 2]
                )
                for process in ranks:
                    self.assertRegex(self.errors_of(process, 30), r"ranks? 1\b|rank\(s\) 1\b")

    def test_ranks_that_meet_at_a_listener(self):
        self.succeed("compare", *EMULATED, "--methods", "1f1b,bf", "--iterations", 2, "--spawn", RANKS,
                     "--rendezvous", "ucx")  # fmt: skip

    def test_bad_places(self):
        place = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        for variable, value in (("RANK", "2"), ("RANK", "x"), ("WORLD_SIZE", "-1"), ("MASTER_PORT", "70000"),
                                ("MASTER_PORT", "")):  # fmt: skip
            with self.subTest(variable=variable, value=value):
                process = self.start(ENDLESS, {**place, variable: value})
                _, errors = process.communicate(timeout=20)
                self.assertEqual(process.returncode, USAGE, errors)
                self.assertIn(variable, errors)

    def test_numbers_that_do_not_fit(self):
        self.refuse("spawn", *ENDLESS, "--spawn", 3, "--stages", 2)
        self.refuse("spawn", *ENDLESS, "--spawn", 6, "--tp", 4)
        self.refuse("tp", *ENDLESS, "--tp", 2)
        self.refuse("dp", *ENDLESS, "--dp", 2)
        self.refuse("spawn", *ENDLESS, "--spawn", 0)
        self.refuse("agreement", *ENDLESS, "--spawn", 2, "--tp", 2, "--agreement", "none")
        self.refuse("agreement", *ENDLESS, "--spawn", 2, "--tp", 2, "--agreement", "first-pick")
        self.refuse("stall-report", *ENDLESS, "--spawn", 2, "--stall-report", "no/such/folder/stall.json")
        self.refuse("rendezvous", *ENDLESS, "--spawn", 2, "--rendezvous", "none")
        self.refuse("join-timeout", *ENDLESS, "--spawn", 2, "--join-timeout", 0)


if __name__ == "__main__":
    unittest.main()
