"""Hosts as network namespaces: that they are joined, apart, and gone afterwards."""

import pathlib
import subprocess
import sys
import unittest

from namespace_programs import ECHO, SAY, python
from namespaces import Network, main


def existing():
    return subprocess.run(["ip", "netns", "list"], capture_output=True, encoding="utf-8", check=True).stdout


class Hosts(unittest.TestCase):
    def test_echo_between_any_two(self):
        with Network(3) as network:
            for here, there in ((0, 1), (1, 2), (2, 0)):
                before = network.bytes_sent(here)
                server = python(network, there, ECHO)
                self.assertEqual(server.stdout.readline(), "listening\n")
                client = python(network, here, SAY, network.address(there))
                self.assertEqual(client.wait(timeout=60), 0)
                self.assertEqual(server.stdout.readline(), f"{network.address(here)}\n")
                self.assertEqual(server.wait(timeout=60), 0)
                self.assertGreater(network.bytes_sent(here) - before, 256 * 1024)

    def test_one_host_does_not_hear_what_listens_on_another(self):
        with Network(2) as network:
            server = python(network, 0, ECHO)
            self.assertEqual(server.stdout.readline(), "listening\n")
            client = python(network, 1, SAY, "127.0.0.1", stderr=subprocess.DEVNULL)
            self.assertNotEqual(client.wait(timeout=60), 0)

    def test_variables_are_added_to_the_environment(self):
        with Network(1) as network:
            show = "import os; print(os.environ['RANK'], 'PATH' in os.environ)"
            shown = python(network, 0, show, env={"RANK": "7"})
            self.assertEqual(shown.stdout.read(), "7 True\n")
            self.assertEqual(shown.wait(timeout=60), 0)

    def test_nothing_is_left(self):
        class Broken(Exception):
            pass

        with self.assertRaises(Broken), Network(2) as network:
            names = network.namespaces()
            server = python(network, 0, ECHO)
            self.assertEqual(server.stdout.readline(), "listening\n")
            self.assertTrue(all(name in existing() for name in names))
            raise Broken
        self.assertEqual(server.returncode, -9)
        self.assertFalse(any(name in existing() for name in names))

    def test_what_a_killed_program_left_is_removed(self):
        make = (
            "import time; from namespaces import Network\n"
            "with Network(2) as network: print(*network.namespaces(), flush=True); time.sleep(600)"
        )
        with Network(1):
            made = subprocess.Popen(
                [sys.executable, "-c", make], cwd=pathlib.Path(__file__).parent, stdout=subprocess.PIPE,
                encoding="utf-8",
            )  # fmt: skip
            names = made.stdout.readline().split()
            made.kill()
            made.communicate(timeout=60)
            self.assertEqual(len(names), 3)
            self.assertTrue(all(name in existing() for name in names))
        with Network(1):
            self.assertFalse(any(name in existing() for name in names))


if __name__ == "__main__":
    main()
