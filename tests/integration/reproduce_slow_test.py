"""The scenarios of the published tables come out of their fit."""

import subprocess
import sys
import unittest

from sluice_command import BINARY, SOURCE_DIR


class Fit(unittest.TestCase):
    def test_gives_the_files_again(self):
        done = subprocess.run(
            [sys.executable, "-B", SOURCE_DIR / "scenarios/paper/fit.py", "--sluice", BINARY, "--check"],
            capture_output=True, text=True, timeout=800,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
