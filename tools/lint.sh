#!/usr/bin/env bash
# Checks the C++ sources against .clang-format and .clang-tidy.
#
# usage: tools/lint.sh --format | --tidy | --fix
#   --format  reports files that clang-format would change
#   --tidy    runs clang-tidy on the sources that do not need LibTorch
#   --fix     formats the files in place

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sources() {
  find engine graphs bindings tools tests microbench -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' | sort
}

tidy() {
  local report=build/tidy/report.txt status=0
  cmake --preset debug -B build/tidy -DSLUICE_TORCH=OFF >/dev/null
  # The compile commands are g++'s, with warnings that clang does not know.
  run-clang-tidy -quiet -p build/tidy -extra-arg=-Wno-unknown-warning-option \
    "$PWD/(engine|graphs|tools|microbench)/.*\.cpp" 2>&1 | sed 's/\x1b\[[0-9;]*m//g' >"$report" || status=$?
  grep -E ': (error|warning): ' "$report" | sort -u || true
  return "$status"
}

case "${1:-}" in
  --format) sources | xargs clang-format --dry-run --Werror ;;
  --fix) sources | xargs clang-format -i ;;
  --tidy) tidy ;;
  *)
    echo "usage: tools/lint.sh --format | --tidy | --fix" >&2
    exit 2
    ;;
esac
