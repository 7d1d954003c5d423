#!/usr/bin/env bash
# Installs what the build needs, where it is missing, and sets SLUICE_TORCH_CMAKE to LibTorch's CMake folder,
# SLUICE_TORCH_PYTHON to the Python that has it.
#
# usage: source tools/setup.sh [tests] [lint] [fuzz]    or    bash tools/setup.sh [tests] [lint] [fuzz]
#   tests   also what the tests and the micro-benchmarks need
#   lint    also clang-format and clang-tidy
#   fuzz    also clang and its libFuzzer

set -euo pipefail

sluice_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
sluice_torch_version=2.13.0
sluice_nccl_version=2.30.7

sluice_fail() {
  echo "setup: $*" >&2
  exit 1
}

# Debian packages of the wanted groups that are not installed, one a line.
sluice_missing_packages() {
  local wanted=(g++ ccache cmake ninja-build libfmt-dev nlohmann-json3-dev libcli11-dev
    libtomlplusplus-dev libdlpack-dev libssl-dev libucx-dev) group
  for group in "$@"; do
    case "$group" in
      tests) wanted+=(python3 python3-dev python3-venv libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev ucx-utils spin iproute2) ;;
      lint) wanted+=(clang-format clang-tidy) ;;
      fuzz) wanted+=(clang libclang-rt-14-dev) ;;
      venv) wanted+=(python3 python3-venv) ;;
      *) sluice_fail "unknown group '$group' (tests, lint, fuzz)" ;;
    esac
  done
  local installed
  installed="$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "${wanted[@]}" 2>/dev/null |
    sed -n 's/^ii *//p')" || true
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort -u) <(sort -u <<<"$installed")
}

sluice_install_packages() {
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    sluice_fail "this is not a Debian system: install the packages that README.md lists, then build with CMake"
  local missing
  missing="$(sluice_missing_packages "$@")" || exit 1
  [[ -n "$missing" ]] || return 0
  local packages
  mapfile -t packages <<<"$missing"
  [[ "$(id -u)" == 0 ]] ||
    sluice_fail "missing packages; as root run: apt-get install ${packages[*]}"
  echo "setup: installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq </dev/null &&
    apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null >/dev/null ||
    sluice_fail "apt-get could not install ${packages[*]}"
}

# Prints the CMake folder of a Python's torch if it is a complete build that can be used here, not older than
# the version that the project is tested with. Reads files only: importing torch takes a second.
sluice_torch_of() {
  "$1" - "$sluice_torch_version" 2>/dev/null <<'PYTHON'
import importlib.metadata, pathlib, re, shutil, sys

def numbers(version):
    return [int(part) for part in re.match(r"[\d.]+", version).group().rstrip(".").split(".")]

torch = importlib.metadata.distribution("torch")
root = pathlib.Path(torch.locate_file("torch"))
# The CMake files of a CUDA build need the CUDA toolkit.
cpu_only = re.search(r"^cuda\b.*= None$", (root / "version.py").read_text(), re.MULTILINE)
usable = cpu_only or shutil.which("nvcc")
complete = torch.files and (root / "share/cmake/Torch/TorchConfig.cmake").exists()
if not (usable and complete and numbers(torch.version) >= numbers(sys.argv[1])):
    sys.exit(1)
print(root / "share/cmake")
PYTHON
}

sluice_find_torch() {
  local python
  for python in "$sluice_root/build/venv/bin/python" "${SLUICE_PYTHON:-python3}" /usr/bin/python3; do
    if command -v "$python" >/dev/null && SLUICE_TORCH_CMAKE="$(sluice_torch_of "$python")"; then
      SLUICE_TORCH_PYTHON="$(command -v "$python")"
      export SLUICE_TORCH_CMAKE SLUICE_TORCH_PYTHON
      return 0
    fi
  done
  return 1
}

# Prints a Python that can make virtual environments.
sluice_venv_python() {
  local python
  for python in "${SLUICE_PYTHON:-python3.11}" python3 /usr/bin/python3; do
    if command -v "$python" >/dev/null && "$python" -c 'import venv, ensurepip' 2>/dev/null; then
      echo "$python"
      return 0
    fi
  done
  return 1
}

sluice_install_torch() {
  local venv="$sluice_root/build/venv" python
  if ! python="$(sluice_venv_python)"; then
    sluice_install_packages venv
    python="$(sluice_venv_python)" || sluice_fail "found no Python that can make a virtual environment"
  fi
  if "$venv/bin/python" -c 'import importlib.metadata as m; m.distribution("torch")' 2>/dev/null; then
    sluice_fail "the torch in $venv is of no use here (a CUDA build without nvcc, or too old): install a CPU" \
      "build of torch $sluice_torch_version into a Python and name it with SLUICE_PYTHON=/path/to/python"
  fi
  echo "setup: installing LibTorch (torch $sluice_torch_version, CPU, about 200 MB) into $venv"
  "$python" -m venv --clear "$venv"
  local pip=("$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input)
  if ! "${pip[@]}" "torch==$sluice_torch_version+cpu"; then
    echo "setup: pip finds no torch $sluice_torch_version+cpu; trying torch $sluice_torch_version." \
      "Where that is a CUDA build it is several GB." >&2
    "${pip[@]}" "torch==$sluice_torch_version" || true
  fi
  sluice_find_torch ||
    sluice_fail "could not install a CPU build of torch $sluice_torch_version: install one into a Python" \
      "and name it with SLUICE_PYTHON=/path/to/python"
}

# NCCL's header, where there is a CUDA compiler to use it and it is not installed: a Python package has it.
sluice_install_nccl() {
  command -v nvcc >/dev/null || return 0
  local header="nvidia/nccl/include/nccl.h" venv="$sluice_root/build/venv" file
  for file in "${NCCL_HOME:-/usr}/include/nccl.h" /usr/include/nccl.h "${SLUICE_TORCH_CMAKE%/torch/share/cmake}/$header" \
    "$venv"/lib/python3*/site-packages/"$header"; do
    [[ ! -e "$file" ]] || return 0
  done
  echo "setup: installing NCCL's header (nvidia-nccl-cu13 $sluice_nccl_version, about 210 MB) into $venv"
  local python
  if [[ ! -x "$venv/bin/python" ]]; then
    python="$(sluice_venv_python)" && "$python" -m venv "$venv" || true
  fi
  "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input --no-deps \
    "nvidia-nccl-cu13==$sluice_nccl_version" ||
    echo "setup: could not install it: what uses NCCL is not built" >&2
}

# pybind11, and the trainers that the package is tested in.
sluice_install_trainers() {
  local list="$sluice_root/tests/trainers/requirements.txt" folder="$sluice_root/build/trainers"
  ! cmp -s "$list" "$folder/requirements.txt" || return 0
  echo "setup: installing pybind11, Megatron-Core, torchtitan and DeepSpeed (about 50 MB) into $folder"
  rm -rf "$folder"
  # DeepSpeed is built from source, with the torch that is there, and without its own kernels.
  DS_BUILD_OPS=0 DS_ACCELERATOR=cpu "$SLUICE_TORCH_PYTHON" -m pip install -qq --disable-pip-version-check --no-input \
    --no-deps --no-build-isolation --target "$folder" -r "$list" ||
    sluice_fail "could not install what tests/trainers/requirements.txt lists"
  cp "$list" "$folder"
}

sluice_install_packages "$@"
sluice_find_torch || sluice_install_torch
if [[ " $* " == *" tests "* ]]; then
  sluice_install_nccl
  sluice_install_trainers
fi
