"""Hosts on one machine: network namespaces joined by a bridge, each with an address and a link of its own."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

SKIPPED = 77
INTERFACE = "eth0"


@dataclasses.dataclass(frozen=True)
class Link:
    """What `tc netem` does to the packets that a host sends."""

    delay_ms: float = 0
    jitter_ms: float = 0
    loss_percent: float = 0

    def netem(self):
        words = []
        if self.delay_ms or self.jitter_ms:
            words += ["delay", f"{self.delay_ms}ms", f"{self.jitter_ms}ms"]
        if self.loss_percent:
            words += ["loss", f"{self.loss_percent}%"]
        return words


class Network:
    """A context in which `hosts` hosts exist. Whatever runs on them at its end is killed, and nothing is left.

    Raises unittest.SkipTest, with the reason, where the kernel or the user's rights do not allow it.
    """

    def __init__(self, hosts, link=Link()):
        self.hosts = hosts
        self.link = link
        self._prefix = f"sluice-{os.getpid()}-{os.urandom(2).hex()}-"
        self._processes = []
        self._stack = None

    def __enter__(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("network namespaces need root")
        if shutil.which("ip") is None:
            raise unittest.SkipTest("network namespaces need the command ip (iproute2)")
        _remove_leftovers()
        with contextlib.ExitStack() as stack:
            self._make(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self._stack.close()

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def run(self, host, argv, env=None, **options):
        """Starts a command on a host; its Popen.

        env: variables in addition to this process's
        """
        process = subprocess.Popen(
            ["ip", "netns", "exec", self._name(host), *map(str, argv)],
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            **options,
        )
        self._processes.append(process)
        return process

    def bytes_sent(self, host):
        """What a host has sent to the others so far."""
        show = _ip("-n", self._name(host), "-s", "-j", "link", "show", "dev", INTERFACE)
        return json.loads(show)[0]["stats64"]["tx"]["bytes"]

    def namespaces(self):
        return [self._name(host) for host in range(self.hosts)] + [self._name("switch")]

    def _name(self, host):
        return f"{self._prefix}{host}"

    def _make(self, stack):
        stack.callback(self._reap)
        switch = self._add_namespace(stack, "switch")
        _try("bridges", "ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for host in range(self.hosts):
            name = self._add_namespace(stack, host)
            port = f"port{host}"
            _try("veth pairs", "ip", "link", "add", INTERFACE, "netns", name, "type", "veth",
                 "peer", "name", port, "netns", switch)  # fmt: skip
            _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", INTERFACE)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", INTERFACE, "up")
            if self.link.netem():
                _try("netem", "tc", "-n", name, "qdisc", "add", "dev", INTERFACE, "root", "netem",
                     *self.link.netem())  # fmt: skip

    def _add_namespace(self, stack, host):
        name = self._name(host)
        _try("network namespaces", "ip", "netns", "add", name)
        stack.callback(_remove, name)
        return name

    def _reap(self):
        for process in self._processes:
            process.wait(timeout=30)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def _command(*argv):
    return subprocess.run(
        argv, capture_output=True, encoding="utf-8", errors="replace", timeout=30, check=False
    )


def _ip(*arguments):
    done = _command("ip", *arguments)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _try(what, *argv):
    """A command that needs something of the kernel that it may lack, or not allow."""
    if shutil.which(argv[0]) is None:
        raise unittest.SkipTest(f"{what} need the command {argv[0]} (iproute2)")
    done = _command(*argv)
    if done.returncode != 0:
        raise unittest.SkipTest(f"this machine refuses {what}: {' '.join(done.stderr.split())}")


def _remove(name):
    """Kills what runs in a namespace, and removes it, and with it its end of a link."""
    for pid in _command("ip", "netns", "pids", name).stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "delete", name)


def _remove_leftovers():
    """Removes the namespaces of tests that were killed."""
    for name in _command("ip", "netns", "list").stdout.split():
        owner = re.fullmatch(r"sluice-(\d+)-[0-9a-f]{4}-\w+", name)
        if owner and not os.path.exists(f"/proc/{owner[1]}"):
            with contextlib.suppress(RuntimeError):
                _remove(name)


def main():
    """As unittest.main, but a program of which every test was skipped says so to CTest."""
    result = unittest.main(module="__main__", exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    # A class that skips as a whole counts as a skip, not as a test run.
    sys.exit(SKIPPED if result.skipped and len(result.skipped) >= result.testsRun else 0)
