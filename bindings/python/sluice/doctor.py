"""What this installation can use, what it cannot, and why: `python -m sluice.doctor [--json]`."""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from sluice import build_info

_SHARED_MEMORY = pathlib.Path("/dev/shm")
_PTRACE_SCOPE = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
_SECONDS = 20
_WORD = 0x51C1CE
# Reads the word at an address of another process.
_READ_WORD = """
import ctypes, os, sys
process, address, word = map(int, sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
read = ctypes.c_uint64()
here, there = Part(ctypes.addressof(read), 8), Part(address, 8)
if libc.process_vm_readv(process, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) != 8:
    sys.exit(os.strerror(ctypes.get_errno()))
sys.exit(read.value != word)
"""


@dataclasses.dataclass
class Finding:
    """One thing that Sluice can use."""

    name: str
    available: bool
    detail: str


def _library(*names: str) -> ctypes.CDLL | None:
    """The first of these libraries that can be loaded."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _package_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _built(part: str, option: str) -> str:
    return (
        ""
        if build_info()[part]
        else f"; this package was built without it (--config-settings=cmake.define.{option}=ON)"
    )


def _ucx_transports() -> tuple[list[str], str]:
    """Names of the transports, or why they are not known."""
    program = shutil.which("ucx_info")
    if program is None:
        return [], "transports unknown: ucx_info is not installed (Debian package ucx-utils)"
    try:
        done = subprocess.run([program, "-d"], capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"transports unknown: ucx_info failed: {error}"
    return sorted(set(re.findall(r"Transport: (\S+)", done.stdout))), "ucx_info lists no transport"


def _ucx() -> Finding:
    library = _library("libucp.so.0")
    if library is None:
        cause = "libucp.so.0 cannot be loaded (Debian package libucx0)"
        return Finding("UCX", False, cause + _built("ucx", "SLUICE_UCX"))
    library.ucp_get_version_string.restype = ctypes.c_char_p
    version = library.ucp_get_version_string().decode()
    transports, unknown = _ucx_transports()
    detail = f"{version}, {', '.join(transports) if transports else unknown}" + _built("ucx", "SLUICE_UCX")
    return Finding("UCX", build_info()["ucx"], detail)


def _devices(driver: ctypes.CDLL) -> tuple[int, str]:
    """Number of CUDA devices, and what the driver says."""
    version, count = ctypes.c_int(), ctypes.c_int()
    code = driver.cuInit(0)
    if code == 0:
        code = driver.cuDeviceGetCount(ctypes.byref(count))
    if code != 0:
        return 0, f"the driver answers with error {code}"
    driver.cuDriverGetVersion(ctypes.byref(version))
    return (
        count.value,
        f"driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}, {count.value} devices",
    )


def _cuda() -> Finding:
    driver = _library("libcuda.so.1")
    if driver is None:
        return Finding(
            "CUDA", False, "no driver: libcuda.so.1 cannot be loaded" + _built("cuda", "SLUICE_CUDA")
        )
    devices, detail = _devices(driver)
    return Finding("CUDA", devices > 0 and build_info()["cuda"], detail + _built("cuda", "SLUICE_CUDA"))


def _cuda_ipc(cuda: Finding) -> Finding:
    if not cuda.available:
        return Finding("CUDA IPC", False, "needs CUDA")
    if not hasattr(_library("libcuda.so.1"), "cuIpcGetMemHandle"):
        return Finding("CUDA IPC", False, "the driver has no cuIpcGetMemHandle")
    return Finding("CUDA IPC", True, "between processes of this host that see each other's devices")


def _nccl_paths() -> Iterator[str]:
    yield "libnccl.so.2"
    packages = importlib.util.find_spec("nvidia")
    for folder in (packages.submodule_search_locations or []) if packages else []:
        yield str(pathlib.Path(folder) / "nccl" / "lib" / "libnccl.so.2")


def _nccl(cuda: Finding) -> Finding:
    library = _library(*_nccl_paths())
    if library is None:
        return Finding("NCCL", False, "libnccl.so.2 cannot be loaded" + _built("nccl", "SLUICE_CUDA"))
    number = ctypes.c_int()
    library.ncclGetVersion(ctypes.byref(number))
    major, rest = divmod(number.value, 10000)
    version = f"{major}.{rest // 100}.{rest % 100}"
    puts = (major, rest // 100) >= (2, 29)
    detail = version + ("" if puts else ": older than 2.29, which one-sided puts need: use UCX between hosts")
    if not cuda.available:
        detail += "; needs CUDA"
    return Finding(
        "NCCL", puts and cuda.available and build_info()["nccl"], detail + _built("nccl", "SLUICE_CUDA")
    )


def _shared_memory() -> Finding:
    if not os.access(_SHARED_MEMORY, os.W_OK):
        return Finding("shared memory", False, f"{_SHARED_MEMORY} cannot be written")
    free = shutil.disk_usage(_SHARED_MEMORY).free
    return Finding("shared memory", free > 0, f"{_SHARED_MEMORY}, {free / 2**20:.0f} MiB free")


def _cross_memory() -> Finding:
    """Whether another process can read this one's memory, as UCX's transport cma does."""
    word = ctypes.c_uint64(_WORD)
    place = [str(os.getpid()), str(ctypes.addressof(word)), str(_WORD)]
    try:
        done = subprocess.run(
            [sys.executable, "-c", _READ_WORD, *place], capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("process_vm_readv", False, f"could not be tried: {error}")
    available = done.returncode == 0
    detail = "tried between two processes of this user" if available else done.stderr.strip() or "wrong data"
    if _PTRACE_SCOPE.exists() and not available:
        detail += f"; kernel.yama.ptrace_scope is {_PTRACE_SCOPE.read_text().strip()}"
    return Finding("process_vm_readv", available, detail)


def _package(name: str, purpose: str) -> Finding:
    version = _package_version(name)
    return Finding(name, version is not None, version or f"not installed; {purpose}")


def findings() -> list[Finding]:
    """Everything that was looked for."""
    cuda = _cuda()
    return [
        _ucx(),
        _shared_memory(),
        _cross_memory(),
        cuda,
        _cuda_ipc(cuda),
        _nccl(cuda),
        _package("torch", "pip install 'sluice[torch]'"),
        _package("numpy", "results are buffers that it can take"),
        _package("pandas", "results are columns that it can take"),
    ]


def versions() -> dict[str, str]:
    """What this is, and what it runs on."""
    info = build_info()
    return {
        "sluice": info["version"],
        "python": platform.python_version(),
        "compiler": info["compiler"],
        "system": platform.platform(),
        "cores": str(os.cpu_count()),
    }


def _print_report() -> None:
    for name, value in versions().items():
        print(f"{name:<16} {value}")
    print()
    for finding in findings():
        print(f"{finding.name:<16} {'yes' if finding.available else 'no ':<4} {finding.detail}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sluice.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    if not parser.parse_args(arguments).json:
        _print_report()
        return 0
    report = {"versions": versions(), "findings": [dataclasses.asdict(each) for each in findings()]}
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
