"""`sluice` with one rank on each of several hosts, which are network namespaces of this machine."""

import contextlib
import json
import subprocess
import time

from namespaces import INTERFACE, Link, Network
from sluice_command import BINARY, SluiceTest

HOSTS = 4
PORT = 29500
RUN_SECONDS = 240


class NamespaceRunTest(SluiceTest):
    LINK = Link()

    def setUp(self):
        super().setUp()
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.network = stack.enter_context(Network(HOSTS, self.LINK))

    def environment(self, rank):
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(HOSTS),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": self.network.address(0),
            "MASTER_PORT": str(PORT),
            # Namespaces share memory and the machine's identity; hosts do not.
            "UCX_TLS": "tcp,self",
            "UCX_NET_DEVICES": INTERFACE,
            "GLOO_SOCKET_IFNAME": INTERFACE,
        }

    def distributed(self, *arguments, at_least):
        """Runs a command with rank r on host r, each in a folder of its own; the JSON of rank 0.

        at_least: bytes that every host must have sent to the others
        """
        sent = [self.network.bytes_sent(host) for host in range(HOSTS)]
        with contextlib.ExitStack() as stack:
            ranks = [self.start(stack, rank, arguments) for rank in range(HOSTS)]
            self.wait(ranks, arguments)
        for host in range(HOSTS):
            grown = self.network.bytes_sent(host) - sent[host]
            self.assertGreater(grown, at_least, f"host {host} sent {grown} bytes: its rank did not take part")
        return json.loads((self.folder / "rank0" / "results.json").read_text())

    def start(self, stack, rank, arguments):
        folder = self.folder / f"rank{rank}"
        folder.mkdir(exist_ok=True)
        log = stack.enter_context((folder / "log.txt").open("w"))
        command = [BINARY, *arguments, "--json", "results.json"]
        return self.network.run(rank, command, self.environment(rank), cwd=folder, stdout=log, stderr=log)

    def wait(self, ranks, arguments):
        deadline = time.monotonic() + RUN_SECONDS
        # If a rank fails, the others end by themselves.
        for rank in ranks:
            try:
                rank.wait(timeout=max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.fail(f"sluice {arguments} did not end:\n{self.logs()}")
        codes = [rank.returncode for rank in ranks]
        self.assertEqual(codes, [0] * HOSTS, f"sluice {arguments}:\n{self.logs()}")

    def logs(self):
        return "\n".join(
            f"-- rank {rank}: {(self.folder / f'rank{rank}' / 'log.txt').read_text()[-2000:]}"
            for rank in range(HOSTS)
        )
