"""`sluice.torch.ReadinessSchedule` under torchrun, against torch's own schedules on the same stages."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from process_runs import ProcessTest

SOURCE_DIR = pathlib.Path(os.environ["SLUICE_SOURCE_DIR"])
TORCH = pathlib.Path(os.environ["SLUICE_TORCH_PREFIX"])
BUILD_DIR = pathlib.Path(os.environ["SLUICE_BIN"]).parents[1] / "python_module"
PROGRAM = pathlib.Path(__file__).with_name("readiness_training.py")
# torch's schedules exchange objects through it.
PACKAGES = ["pybind11>=2.13", "numpy"]
LATE = "tail:0.3,3"


def compiler():
    """The one of the build: the compiler cache tells compilers apart by name."""
    cache = (pathlib.Path(os.environ["SLUICE_BIN"]).parents[1] / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache, re.MULTILINE)[1]


def run(*command, timeout=840, **environment):
    """What it printed."""
    result = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if result.returncode != 0:
        raise AssertionError(f"{command}: {result.stdout[-8000:]}{result.stderr[-8000:]}")
    return result.stdout


class Readiness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        packages = BUILD_DIR / "packages"
        if not packages.exists():
            run(sys.executable, "-m", "pip", "install", "-q", "--target", packages, *PACKAGES)
        module = BUILD_DIR / "build"
        run(
            "cmake", "-S", SOURCE_DIR, "-B", module, "-G", "Ninja", "-DSLUICE_PYTHON=ON", "-DSLUICE_TORCH=OFF",
            "-DSLUICE_CUDA=OFF", "-DSLUICE_UCX=ON", "-DSLUICE_TESTS=OFF", "-DSLUICE_MICROBENCH=OFF",
            "-DSLUICE_WERROR=ON", f"-DCMAKE_CXX_COMPILER={compiler()}",
            f"-DPython_EXECUTABLE={sys.executable}", f"-Dpybind11_DIR={packages}/pybind11/share/cmake/pybind11",
        )  # fmt: skip
        run("cmake", "--build", module, "--target", "sluice_python")
        cls.package = BUILD_DIR / "package"
        shutil.rmtree(cls.package, ignore_errors=True)
        shutil.copytree(SOURCE_DIR / "bindings" / "python" / "sluice", cls.package / "sluice")
        for built in (module / "bindings" / "python").rglob("_engine*.so"):
            shutil.copy(built, cls.package / "sluice")
        cls.path = os.pathsep.join(str(each) for each in (cls.package, packages, TORCH.parent))

    def train(self, ranks, *arguments):
        """A line of JSON a rank, in order."""
        printed = run(
            sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}",
            f"--master-port={ProcessTest.free_port()}", PROGRAM, *arguments,
            timeout=180, PYTHONPATH=self.path, UCX_NET_DEVICES="lo", OMP_NUM_THREADS="1",
        )  # fmt: skip
        found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
        self.assertEqual(sorted(each["rank"] for each in found), list(range(ranks)))
        return sorted(found, key=lambda each: each["rank"])

    def test_outputs_losses_and_gradients_are_torchs_bit_for_bit(self):
        for ranks, hint, per_rank, delays in [
            (1, "bf", 2, "j0"),
            (2, "bf", 1, "j0"),
            (2, "bfw", 1, LATE),
            (3, "fb", 1, LATE),
            (4, "b-priority", 1, LATE),
            (2, "bf", 2, LATE),
            (4, "bfw", 2, LATE),
        ]:
            with self.subTest(ranks=ranks, hint=hint, per_rank=per_rank, delays=delays):
                for rank in self.train(ranks, "equal", hint, per_rank, delays):
                    self.assertTrue(rank["equal"], rank)
                    self.assertGreater(rank["values"], 0)
                    # With several chunks, each may hold one more than the limit says.
                    self.assertLessEqual(rank["peak"], 4 + (per_rank if per_rank > 1 else 0))

    def test_an_exception_of_one_rank_is_raised_on_all(self):
        first, failed, last = self.train(3, "failure")
        self.assertEqual(failed["raised"], "RuntimeError")
        self.assertIn("failed to run forward", failed["text"])
        for other in (first, last):
            self.assertEqual(other["raised"], "Aborted")
            self.assertIn("rank 1", other["text"])
        for rank in (first, failed, last):
            self.assertIn("an earlier step failed", rank["again"])
            self.assertIn("closed", rank["closed"])
        self.assertEqual([rank["evaluated"] for rank in (first, failed, last)], [None, None, [8, 32]])


if __name__ == "__main__":
    unittest.main()
