"""The `sluice` command."""

import os
import pathlib
import signal
import sys

from sluice._engine import run_command_line

SCENARIOS = pathlib.Path(__file__).parent / "scenarios"


def main() -> int:
    # As in a program without Python: these end it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.environ.setdefault("SLUICE_SCENARIOS", str(SCENARIOS))
    return run_command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
