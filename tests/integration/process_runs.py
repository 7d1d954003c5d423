"""Runs of the `sluice` command whose ranks are processes."""

import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

from sluice_command import BINARY, SluiceTest

EMULATED = ["--emulate", "f=2ms,b=4ms,w=2ms", "--microbatches", 16]


def wait_for(condition, seconds, what):
    """Until the condition holds; nothing else may take as long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


def children_of(pid):
    """Processes whose parent it is, by number."""
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def environment_of(pid):
    entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(entry.decode().split("=", 1) for entry in entries if b"=" in entry)


def runs(pid):
    """Whether the process is there and not only waited for."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class ProcessTest(SluiceTest):
    """Leaves nothing behind: no process, no shared memory."""

    def setUp(self):
        super().setUp()
        self.started = []
        shared = set(os.listdir("/dev/shm"))
        self.addCleanup(self.assert_no_shared_memory_left, shared)
        self.addCleanup(self.stop_all)

    def assert_no_shared_memory_left(self, before):
        """Other tests run at the same time: what counts is a new file that stays."""
        left = set(os.listdir("/dev/shm")) - before

        def gone():
            left.intersection_update(os.listdir("/dev/shm"))
            return not left

        wait_for(gone, 10, f"nothing is left in /dev/shm, but {left}")

    def stop_all(self):
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate(timeout=20)

    @staticmethod
    def free_port():
        """One that no connection of another test gets before it is listened on."""
        first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        while True:
            port = random.randrange(10_000, first)
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("", port))
                return port

    def start(self, arguments, environment=None):
        process = subprocess.Popen(
            [BINARY, *map(str, arguments)],
            cwd=self.folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        self.started.append(process)
        return process

    def start_ranks(self, ranks, arguments_of, port=None, only=None):
        """The ranks of a run as torchrun would start them, each with arguments of its own."""
        place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(port or self.free_port())}  # fmt: skip
        return [
            self.start(arguments_of(rank), {**place, "RANK": str(rank)})
            for rank in (range(ranks) if only is None else only)
        ]

    def spawned_ranks(self, parent, ranks):
        """The processes of a run that `--spawn` started, by rank."""
        wait_for(lambda: len(children_of(parent.pid)) == ranks, 30, "the ranks are there")
        return {int(environment_of(pid)["RANK"]): pid for pid in children_of(parent.pid)}
