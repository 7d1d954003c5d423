"""The `sluice` command, the doctor, and what the package is made of."""

import importlib.metadata
import inspect
import json
import pathlib
import subprocess
import sys

import pytest
import sluice
import sluice.doctor

COMMAND = str(pathlib.Path(sys.executable).parent / "sluice")


def run(*arguments, cwd):
    return subprocess.run(
        arguments, cwd=cwd, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )


@pytest.mark.parametrize("command", [[COMMAND], [sys.executable, "-m", "sluice"]])
def test_the_command(command, tmp_path):
    arguments = [
        "simulate",
        "--emulate",
        "f=10ms,b=20ms",
        "--stages",
        "4",
        "--microbatches",
        "8",
        "--methods",
        "gpipe",
    ]
    done = run(*command, *arguments, "--json", "out.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [method] = json.loads((tmp_path / "out.json").read_text())["methods"]
    in_python = sluice.simulate(sluice.Pipeline.chain(4, 8), "gpipe", durations="f=10ms,b=20ms")
    assert method["makespan_s"] == in_python.makespan
    assert "gpipe" in done.stdout


@pytest.mark.skipif(not sluice.build_info()["ucx"], reason="a package without UCX")
@pytest.mark.parametrize("command", [[COMMAND], [sys.executable, "-m", "sluice"]])
def test_it_starts_its_ranks(command, tmp_path, monkeypatch):
    monkeypatch.setenv("UCX_NET_DEVICES", "lo")
    size = ["--emulate", "f=1ms,b=2ms", "--stages", "2", "--microbatches", "4"]
    done = run(*command, "train", *size, "--spawn", "2", "--steps", "2", "--json", "out.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "out.json").read_text())["iteration_seconds"]) == 2


def test_its_errors(tmp_path):
    done = run(COMMAND, "simulate", "--stages", "none", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("sluice: ")
    assert done.stdout == ""


def test_it_brings_the_scenarios(tmp_path):
    done = run(COMMAND, "reproduce", "--help", cwd=tmp_path)
    assert "SLUICE_SCENARIOS" in done.stdout
    assert (pathlib.Path(sluice.__file__).parent / "scenarios" / "hint_grid.toml").is_file()


def test_its_version(tmp_path):
    assert run(COMMAND, "--version", cwd=tmp_path).stdout.strip() == sluice.__version__
    assert sluice.__version__ == importlib.metadata.version("sluice")


def test_the_doctor_knows_everything_it_looks_for(tmp_path):
    done = run(sys.executable, "-m", "sluice.doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["versions"]["sluice"] == sluice.__version__
    findings = {each["name"]: each for each in report["findings"]}
    assert {"UCX", "CUDA", "CUDA IPC", "NCCL", "shared memory", "process_vm_readv", "torch"} <= set(findings)
    assert all(each["detail"] for each in findings.values())


def test_the_doctor_says_why(monkeypatch):
    monkeypatch.setattr(sluice.doctor, "_library", lambda *names: None)
    findings = {each.name: each for each in sluice.doctor.findings()}
    for name, cause in [
        ("UCX", "libucp.so.0"),
        ("CUDA", "libcuda.so.1"),
        ("CUDA IPC", "CUDA"),
        ("NCCL", "libnccl.so.2"),
    ]:
        assert not findings[name].available
        assert cause in findings[name].detail


def test_the_doctor_without_shared_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(sluice.doctor, "_SHARED_MEMORY", tmp_path / "missing")
    [finding] = [each for each in sluice.doctor.findings() if each.name == "shared memory"]
    assert not finding.available


def test_the_doctor_prints_a_line_a_finding(capsys):
    assert sluice.doctor.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line[17:20] in ("yes", "no ") for line in lines) >= 7


def test_nothing_is_imported_that_need_not_be_there():
    code = "import sys, sluice; print([n for n in ('numpy', 'pandas', 'torch') if n in sys.modules])"
    done = run(sys.executable, "-c", code, cwd="/")
    assert done.stdout.strip() == "[]"


def test_the_package_is_typed():
    folder = pathlib.Path(sluice.__file__).parent
    assert (folder / "py.typed").is_file()
    assert (folder / "_engine.pyi").is_file()


def test_everything_public_is_documented():
    for name in sluice.__all__:
        thing = getattr(sluice, name)
        if name == "__version__":
            continue
        assert inspect.getdoc(thing), name
        if not inspect.isclass(thing):
            continue
        for member, value in vars(thing).items():
            documentable = callable(value) or isinstance(value, (property, staticmethod))
            if documentable and not member.startswith("_"):
                assert inspect.getdoc(getattr(thing, member)), f"{name}.{member}"
