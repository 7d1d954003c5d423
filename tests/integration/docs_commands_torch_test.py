"""Runs the commands of README.md and docs/: those that start with `$ ` in blocks marked ```console.

What else such a block holds is sample output. A block marked ```console skip is not run: it installs
packages, builds the whole project, or needs more than one machine or a program that few machines have. One
marked ```console device is run with the fake device, in builds that have CUDA. Those marked ```console python need the
Python package; tests/trainers/docs runs them.
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from sluice_command import BINARY, SOURCE_DIR

BLOCK = re.compile(r"^```console(?: (?P<mark>skip|device|python))?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
# A command, and the lines that continue it.
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
FAKE_CUDA = os.environ.get("SLUICE_FAKE_CUDA_DIR")
SCRIPT = re.compile(r"\bbash (tools/\S+)")


def documents():
    return [SOURCE_DIR / "README.md", *sorted((SOURCE_DIR / "docs").rglob("*.md"))]


def blocks(document, mark=None):
    """The commands of each block with this mark, or with none."""
    found = BLOCK.finditer(document.read_text())
    return [COMMAND.findall(block["body"]) for block in found if block["mark"] == mark]


class DocumentedCommands(unittest.TestCase):
    def run_commands(self, mark=None, **variables):
        # torchrun lies beside the Python packages of the LibTorch that was built with.
        torch_programs = pathlib.Path(os.environ["SLUICE_TORCH_PREFIX"]).parents[3] / "bin"
        environment = {
            **os.environ,
            "PATH": f"{pathlib.Path(BINARY).parent}:{torch_programs}:{os.environ['PATH']}",
            "SLUICE_SOURCE_DIR": str(SOURCE_DIR),
            **variables,
        }
        count = 0
        for document in documents():
            with tempfile.TemporaryDirectory() as folder:
                for command in sum(blocks(document, mark), []):
                    count += 1
                    with self.subTest(document.name, command=command):
                        done = subprocess.run(
                            ["bash", "-c", command], cwd=folder, env=environment, timeout=300,
                            stdin=subprocess.DEVNULL, capture_output=True, text=True,
                        )  # fmt: skip
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(count, 0, "no document has a command")

    def test_every_command_works(self):
        self.run_commands()

    @unittest.skipUnless(FAKE_CUDA, "this build has no CUDA")
    def test_every_command_on_a_device_works(self):
        self.run_commands("device", LD_LIBRARY_PATH=f"{FAKE_CUDA}:{os.environ.get('LD_LIBRARY_PATH', '')}")

    def test_every_block_has_a_command(self):
        for document in documents():
            for mark in (None, "skip", "device", "python"):
                for commands in blocks(document, mark):
                    self.assertTrue(commands, f"{document.name} has a console block without a command")

    def test_scripts_of_skipped_blocks_exist(self):
        skipped = [commands for document in documents() for commands in blocks(document, "skip")]
        print(f"{len(skipped)} blocks marked `console skip` (they install, build or span machines) not run")
        for command in sum(skipped, []):
            for script in SCRIPT.findall(command):
                self.assertTrue((SOURCE_DIR / script).is_file(), f"{command}: {script} does not exist")

    def test_builds_are_marked_to_be_skipped(self):
        for document in documents():
            for command in sum(blocks(document), []):
                self.assertNotRegex(command, r"\A(bash tools/|cmake\b)", document.name)


if __name__ == "__main__":
    unittest.main()
