"""The example of docs/embedding-megatron.md trains."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

SCRIPT = (
    pathlib.Path(os.environ["SLUICE_SOURCE_DIR"])
    / "bindings"
    / "python"
    / "examples"
    / "megatron_training.py"
)


class Example(unittest.TestCase):
    def test_the_loss_falls(self):
        done = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "torch.distributed.run",
                    "--standalone",
                    "--nproc-per-node",
                    "2",
                    str(SCRIPT),
                ),
                *("--pipeline", "2", "--steps", "12"),
            ],
            capture_output=True,
            text=True,
            timeout=240,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = [float(each) for each in re.findall(r"^step \d+: loss (\S+)$", done.stdout, re.MULTILINE)]
        self.assertEqual(len(losses), 12, done.stdout)
        self.assertLess(losses[-1], 0.8 * losses[0])


if __name__ == "__main__":
    unittest.main()
