"""Hosts with slow, uneven and lossy links (`tc netem`); skipped where the kernel has no netem."""

import unittest

from namespace_programs import ECHO, PING, SAY, python
from namespaces import Link, Network, main

DELAY_MS = 20


class Links(unittest.TestCase):
    def serve_and(self, program, link):
        with Network(2, link) as network:
            server = python(network, 0, ECHO)
            self.assertEqual(server.stdout.readline(), "listening\n")
            client = python(network, 1, program, network.address(0))
            output = client.stdout.read()
            self.assertEqual(client.wait(timeout=60), 0)
            return output

    def test_a_delay_holds_there_and_back(self):
        self.assertGreater(float(self.serve_and(PING, Link(delay_ms=DELAY_MS))), 2 * DELAY_MS * 1e-3 * 0.95)

    def test_what_jitter_reorders_and_loss_drops_comes_again(self):
        self.serve_and(SAY, Link(delay_ms=2, jitter_ms=1, loss_percent=2))


if __name__ == "__main__":
    main()
