#!/usr/bin/env bash
# Checks Sluice on a real GPU: builds, runs the tests that say how the device has to behave, measures, and
# prints a table. Needs nvcc, CMake and ninja, and no network.
#
# usage: tools/gpu_check.sh [--output DIR] [--jobs N] [--limit SECONDS] [--quick]
#   --output DIR     copy results.json, results.md and log.txt of build/gpu_check there as well
#   --jobs N         compile so many files at a time (default: one a core)
#   --limit SECONDS  end after so long (default 600); what was not reached by then has failed
#   --quick          few measurements, too few for figures: to see that everything works
#
# usage: tools/gpu_check.sh --bundle
#   on a machine for development: collects the small libraries that the build needs into build/gpu_bundle, to be
#   carried to a GPU machine that does not have them, where they are found in the same place
#
# Ends with 0 if no check has failed and no goal was missed. What was not run is listed and is not a pass.

set -euo pipefail
caller="$PWD"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly bundle=build/gpu_bundle results=build/gpu_check
readonly suite_seconds=120
output="" jobs="$(nproc)" limit=600 quick=() child="" reserve=0

fail() {
  echo "gpu_check: $*" >&2
  exit 1
}

usage() {
  sed -n '5,13p' "${BASH_SOURCE[0]}" | sed 's/^# \?//' >&2
  exit 2
}

# ---- The bundle

# bundle_headers <Debian package>...: their headers, wherever the system has them.
bundle_headers() {
  local file
  dpkg -L "$@" | grep '^/usr/include/' | while read -r file; do
    [[ -f "$file" ]] || continue
    local target="${file#/usr/include/}"
    install -D -m 644 "$file" "$bundle/include/${target#*-linux-gnu/}"
  done
}

bundle_libraries() {
  local name file
  for name in "$@"; do
    file="$(ldconfig -p | sed -n "s|.*$name .*=> ||p" | head -n 1)"
    [[ -n "$file" ]] || file="$(find /usr/lib -name "$name" | head -n 1)"
    [[ -n "$file" ]] || fail "there is no $name: run bash tools/setup.sh tests first"
    install -D -m 644 "$file" "$bundle/lib/$name"
  done
}

bundle_nccl_header() {
  local header
  for header in build/venv/lib/python3*/site-packages/nvidia/nccl/include/nccl.h /usr/include/nccl.h; do
    if [[ -f "$header" ]]; then
      install -D -m 644 "$header" "$bundle/include/nccl.h"
      return 0
    fi
  done
  echo "gpu_check: there is no nccl.h here: where the GPU machine has none either, NCCL is not checked" >&2
}

make_bundle() {
  command -v dpkg >/dev/null || fail "--bundle needs a Debian system"
  rm -rf "$bundle"
  bundle_headers libfmt-dev libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev nlohmann-json3-dev \
    libcli11-dev libtomlplusplus-dev libdlpack-dev libssl-dev
  bundle_libraries libgtest.a libgtest_main.a libgmock.a librapidcheck.a libbenchmark.so libbenchmark_main.a \
    libcrypto.a
  bundle_nccl_header
  local package
  install -D -m 644 cmake/GpuBundlePackages.cmake "$bundle/share/cmake/packages.cmake"
  for package in CLI11 GTest benchmark dlpack fmt nlohmann_json rapidcheck tomlplusplus; do
    mkdir -p "$bundle/share/cmake/$package"
    echo 'include("${CMAKE_CURRENT_LIST_DIR}/../packages.cmake")' \
      >"$bundle/share/cmake/$package/${package}Config.cmake"
  done
  uname -m >"$bundle/machine"
  echo "gpu_check: $bundle is complete ($(du -sh "$bundle" | cut -f 1))"
}

# ---- Steps, none longer than what is left

# All but the measurements leave these their time.
left() { echo $((limit - SECONDS - reserve)); }

# within <seconds> <command>...: 124 if it took longer, or if nothing is left of the whole time.
within() {
  local seconds="$1"
  shift
  local most
  most="$(left)"
  ((seconds < most)) || seconds="$most"
  ((seconds > 0)) || return 124
  timeout --kill-after=10 "$seconds" "$@" &
  child=$!
  local code=0
  wait "$child" || code=$?
  child=""
  return "$code"
}

# Whoever ends the script ends what it runs.
end_child() {
  [[ -z "$child" ]] || kill "$child" 2>/dev/null
  exit 130
}

# note <name> <passed|failed|not run> <detail>
note() {
  printf '%s\t%s\t%s\n' "$1" "$2" "${3//[$'\t\n']/ }" >>"$results/checks.tsv"
  printf '  %-28s %-8s %s\n' "$1" "$2" "$3"
}

# step <name> <seconds> <command>...: into the log; notes it if it fails.
step() {
  local name="$1" seconds="$2" started=$SECONDS code=0
  shift 2
  echo "== $name" >>"$results/log.txt"
  within "$seconds" "$@" >>"$results/log.txt" 2>&1 || code=$?
  ((code != 124)) || note "$name" failed "did not end within $((SECONDS - started)) s"
  ((code == 0 || code == 124)) || note "$name" failed "see log.txt: $(tail -n 1 "$results/log.txt")"
  echo "gpu_check: $name took $((SECONDS - started)) s" | tee -a "$results/log.txt" >&2
  return "$code"
}

# set_build_options [<more folders to find packages in>]
set_build_options() {
  build_options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DSLUICE_CUDA=ON -DSLUICE_TESTS=ON -DSLUICE_MICROBENCH=ON
    -DCMAKE_PREFIX_PATH="$PWD/$bundle${1:+;$1}")
}

# ---- Tests

# run_suite <program> <suite>: counts what it came to. A suite has a process of its own, since a device error
# leaves a process unusable.
run_suite() {
  local program="$1" suite="$2" code=0 text
  within "$suite_seconds" "$program" --gtest_color=no --gtest_filter="$suite*" >"$results/suite.txt" 2>&1 || code=$?
  text="$(<"$results/suite.txt")"
  printf '%s\n' "$text" >>"$results/log.txt"
  passed=$((passed + $(grep -c '^\[       OK \]' <<<"$text" || true)))
  skipped+="$(sed -n '/ listed below:/d; s/^\[  SKIPPED \] \([^ (,]*\.[^ (,]*\) (.*/ \1/p' <<<"$text" | tr -d '\n')"
  ((code == 0)) && return
  local names
  names="$(sed -n 's/^\[  FAILED  \] \([^ (,]*\.[^ (,]*\).* (.*/\1/p' <<<"$text" | sort -u | tr '\n' ' ')"
  [[ -n "$names" ]] || names="${suite}* (status $code) "
  failed+="$names"
}

# run_tests <target>: a line for what ran and one for what skipped itself.
run_tests() {
  local target="$1" program="$2/bin/$1" started=$SECONDS
  local passed=0 failed="" skipped="" suites suite
  if [[ ! -x "$program" ]]; then
    note "$target" failed "was not built"
    return
  fi
  if ! suites="$(within "$suite_seconds" "$program" --gtest_list_tests | sed -n 's/^\([^ #]*\.\).*/\1/p')"; then
    note "$target" failed "cannot be started"
    return
  fi
  for suite in $suites; do run_suite "$program" "$suite"; done
  if [[ -n "$failed" ]]; then
    note "$target" failed "$failed"
  elif ((passed > 0)); then
    note "$target" passed "$passed tests, $((SECONDS - started)) s"
  fi
  if [[ -n "$skipped" ]]; then
    note "$target, skipped" "not run" "$(wc -w <<<"$skipped") tests:$skipped"
  elif ((passed == 0)) && [[ -z "$failed" ]]; then
    note "$target" failed "holds no tests"
  fi
}

# ---- What is there

find_compiler() {
  command -v nvcc >/dev/null || PATH="$PATH:/usr/local/cuda/bin"
  local tool
  for tool in nvcc cmake ninja; do
    command -v "$tool" >/dev/null || fail "there is no $tool, which the build needs"
  done
  if [[ -f "$bundle/machine" && "$(<"$bundle/machine")" != "$(uname -m)" ]]; then
    fail "$bundle was made for $(<"$bundle/machine"), this machine is $(uname -m)"
  fi
}

# Python's packages of NCCL bring the library, where no loader looks for it.
find_nccl() {
  local folder
  folder="$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0] + "/lib")' 2>/dev/null || true)"
  if [[ -d "$folder" ]]; then export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"; fi
  # Several ranks of these tests share the one device.
  export NCCL_MULTI_RANK_GPU_ENABLE=1
}

build_all() {
  set_build_options
  step "configure" $((limit / 5)) cmake -S . -B "$results/tree" "${build_options[@]}" -DSLUICE_TORCH=OFF || return 1
  targets=(fake_cuda_tests cuda_tests graphs_tests cuda_conformance_tests cuda_process_tests nvtx_tests
    fake_nccl_tests nccl_tests nccl_conformance_tests nccl_process_tests)
  local known
  if ! known="$(ninja -C "$results/tree" -t targets all)"; then
    note "build" failed "ninja cannot list its targets"
    return 1
  fi
  local target wanted=()
  for target in "${targets[@]}"; do
    if grep -q "^$target: phony" <<<"$known"; then
      wanted+=("$target")
    else
      note "$target" "not run" "this build has none: headers that it needs are missing, see configure in log.txt"
    fi
  done
  step "build" $((limit * 2 / 3)) ninja -C "$results/tree" -j "$jobs" -k 0 "${wanted[@]}" sluice_gpu_bench || true
  targets=("${wanted[@]}")
}

# The torch that this machine's Python finds, in a build of its own: it decides the flags of all that is built.
build_torch() {
  local found prefix version cuda
  if ! found="$(within 60 python3 -c 'import torch; print(torch.utils.cmake_prefix_path, torch.__version__, torch.version.cuda)' 2>/dev/null)"; then
    note torch_cuda_tests "not run" "python3 finds no torch"
    return
  fi
  read -r prefix version cuda <<<"$found"
  if [[ "$cuda" == None ]]; then
    note torch_cuda_tests "not run" "torch $version was built without CUDA"
    return
  fi
  local tree="$results/torch_tree"
  set_build_options "$prefix"
  step "configure with torch $version" $((limit / 5)) cmake -S . -B "$tree" "${build_options[@]}" \
    -DSLUICE_TORCH=ON -DSLUICE_TORCH_JOBS="$jobs" -DSLUICE_NCCL=OFF || return 0
  step "build with torch $version" $((limit * 2 / 5)) ninja -C "$tree" -j "$jobs" torch_cuda_tests || return 0
  torch_tree="$tree"
}

nccl_is_of_use() {
  local reason
  reason="$(within 60 "$results/tree/bin/sluice_gpu_bench" --nccl 2>>"$results/log.txt")" && return 0
  local target
  for target in "${targets[@]}"; do
    if [[ "$target" == *nccl* ]]; then note "$target" "not run" "${reason:-see log.txt}"; fi
  done
  return 1
}

check_all() {
  local target torch_tree="" targets=() build_options=()
  build_all || return 0
  build_torch
  echo "gpu_check: $(left) s are left for tests and measurements" >&2
  local use_nccl=0
  nccl_is_of_use && use_nccl=1
  for target in "${targets[@]}"; do
    if [[ "$target" != *nccl* ]] || ((use_nccl)); then run_tests "$target" "$results/tree"; fi
  done
  [[ -z "$torch_tree" ]] || run_tests torch_cuda_tests "$torch_tree"
}

measure() {
  local program="$results/tree/bin/sluice_gpu_bench" code=0 seconds
  if [[ ! -x "$program" ]]; then
    echo "gpu_check: nothing was measured: sluice_gpu_bench was not built, see $results/log.txt" >&2
    return 1
  fi
  reserve=0
  seconds="$(left)"
  ((seconds > 0)) || seconds=1
  # It keeps to what is left by itself, and reports what it reached; longer is only for one that hangs.
  reserve=-10
  within "$((seconds + 10))" "$program" "${quick[@]}" --limit "$seconds" --checks "$results/checks.tsv" \
    --json "$results/results.json" --markdown "$results/results.md" || code=$?
  ((code != 124)) || echo "gpu_check: the measurements were not through in time" >&2
  return "$code"
}

# ---- Start

read_arguments() {
  while (($# > 0)); do
    case "$1" in
      --bundle)
        (($# == 1)) || usage
        make_bundle
        exit
        ;;
      --quick) quick=(--quick) ;;
      --output | --jobs | --limit)
        (($# > 1)) || usage
        printf -v "${1#--}" '%s' "$2"
        shift
        ;;
      *) usage ;;
    esac
    shift
  done
  [[ "$jobs" =~ ^[1-9][0-9]*$ && "$limit" =~ ^[1-9][0-9]*$ ]] || usage
}

prepare_output() {
  [[ "$output" == /* ]] || output="$caller/$output"
  mkdir -p "$output" && [[ -w "$output" ]] || fail "--output: cannot write to $output"
}

copy_results() {
  local file
  for file in results.json results.md log.txt; do
    if [[ -s "$results/$file" ]]; then cp "$results/$file" "$output/"; fi
  done
}

main() {
  read_arguments "$@"
  [[ -z "$output" ]] || prepare_output
  trap end_child INT TERM
  find_compiler
  find_nccl
  mkdir -p "$results"
  rm -f "$results"/{checks.tsv,results.json,results.md,log.txt}
  : >"$results/checks.tsv"
  reserve=$((limit / 5))
  check_all
  local code=0
  measure || code=1
  rm -f "$results/suite.txt"
  [[ -z "$output" ]] || copy_results
  echo "gpu_check: took $SECONDS s in all; the results are in $results" >&2
  exit "$code"
}

main "$@"
