"""Runs the commands of docs/ that need the Python package and torch: those in blocks of ```console python.

They run in one folder a page, where bindings/ is what it is in the source tree. Blocks of ```diff say what
differs between the files that their headers name.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE_DIR = pathlib.Path(os.environ["SLUICE_SOURCE_DIR"])
BLOCK = re.compile(r"^```console python\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
DIFFERENCE = re.compile(
    r"^```diff\n--- (?P<old>\S+)\n\+\+\+ (?P<new>\S+)\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL
)


def documents():
    return sorted((SOURCE_DIR / "docs").rglob("*.md"))


def folder_for(root):
    """Environment of commands that run there; torchrun is this interpreter's."""
    (root / "bindings").symlink_to(SOURCE_DIR / "bindings")
    programs = root / "programs"
    programs.mkdir()
    launcher = programs / "torchrun"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m torch.distributed.run "$@"\n')
    launcher.chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}


class DocumentedCommands(unittest.TestCase):
    def test_every_command_works(self):
        count = 0
        for document in documents():
            blocks = BLOCK.finditer(document.read_text())
            commands = [command for block in blocks for command in COMMAND.findall(block["body"])]
            with tempfile.TemporaryDirectory() as folder:
                environment = folder_for(pathlib.Path(folder))
                for command in commands:
                    count += 1
                    with self.subTest(document.name, command=command):
                        done = subprocess.run(
                            ["bash", "-c", command], cwd=folder, env=environment, timeout=300,
                            stdin=subprocess.DEVNULL, capture_output=True, text=True,
                        )  # fmt: skip
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(count, 0, "no page has a command")

    def test_files_differ_as_the_pages_say(self):
        count = 0
        for document in documents():
            for block in DIFFERENCE.finditer(document.read_text()):
                if not block["old"].startswith("bindings/"):
                    continue
                count += 1
                with self.subTest(document.name, old=block["old"]):
                    old, new = (
                        (SOURCE_DIR / block[side]).read_text().splitlines() for side in ("old", "new")
                    )
                    self.assertEqual(len(old), len(new))
                    pairs = [pair for pair in zip(old, new) if pair[0] != pair[1]]
                    changed = [sign + line for pair in pairs for sign, line in zip("-+", pair)]
                    shown = [line for line in block["lines"].splitlines() if line[:1] in ("-", "+")]
                    self.assertEqual(changed, shown)
        self.assertGreater(count, 0, "no page shows what differs")


if __name__ == "__main__":
    unittest.main()
