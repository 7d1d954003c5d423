#!/usr/bin/env bash
# Installs, builds and runs the tests.
#
# usage: tools/test.sh [--full]
#   (none)    every test that is not slow, in the release build
#   --full    what takes longer: the slow tests, the micro-benchmarks, the format and lint checks, every test again
#             in builds with sanitizers, the fuzz targets

set -euo pipefail
case "${1:-}" in
  "") full=0 ;;
  --full) full=1 ;;
  *)
    echo "usage: tools/test.sh [--full]" >&2
    exit 2
    ;;
esac

groups=(tests)
((full)) && groups+=(lint fuzz)
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh" "${groups[@]}"
cd "$sluice_root"

failures=0
summary=()
failed_tests=()

# step <name> <command>...: runs it, notes its time and outcome, and goes on.
step() {
  local name="$1" outcome=passed started=$SECONDS
  shift
  echo
  echo "== $name"
  if ! "$@"; then
    outcome=FAILED
    failures=$((failures + 1))
  fi
  summary+=("$(printf '%-32s %-6s %5d s' "$name" "$outcome" $((SECONDS - started)))")
}

build() {
  cmake --preset "$1" -DCMAKE_PREFIX_PATH="$SLUICE_TORCH_CMAKE" "${@:2}" && cmake --build --preset "$1"
}

# run_tests <preset> <ctest option>...: also notes the names of those that failed.
run_tests() {
  local log="build/$1/Testing/Temporary/LastTestsFailed.log" outcome=0
  rm -f "$log"
  ctest --preset "$1" --parallel 3 "${@:2}" || outcome=$?
  if [[ -f "$log" ]]; then
    while IFS=: read -r _ name; do failed_tests+=("$1: $name"); done <"$log"
  fi
  return "$outcome"
}

build_and_test() {
  build "$1" && run_tests "$1" --label-exclude slow
}

microbench() {
  build/release/bin/sluice_bench --benchmark_min_time=0.05
}

step "build release" build release -DSLUICE_TORCH=ON -DSLUICE_PYTHON=ON "-DPython_EXECUTABLE=$SLUICE_TORCH_PYTHON" \
  "-Dpybind11_DIR=$sluice_root/build/trainers/pybind11/share/cmake/pybind11"
if ((failures > 0)); then
  exit 1
fi
if ((full)); then
  step "slow tests" run_tests release --label-regex '^slow$' --no-tests=ignore
  step "micro-benchmarks" microbench
  step "format" bash tools/lint.sh --format
  step "clang-tidy" bash tools/lint.sh --tidy
  step "address and undefined behaviour" build_and_test asan
  step "data races" build_and_test tsan
  step "fuzzing" build_and_test fuzz
else
  step "tests" run_tests release --label-exclude slow
fi

echo
echo "== Summary"
printf '%s\n' "${summary[@]}"
if ((${#failed_tests[@]} > 0)); then
  echo
  echo "== Failed tests"
  printf '%s\n' "${failed_tests[@]}"
fi
((failures == 0))
