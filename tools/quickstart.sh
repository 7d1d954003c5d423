#!/usr/bin/env bash
# From a bare Debian 12 to the main job: installs, builds the `sluice` command, trains a small GPT over four
# pipeline stages, and compares the readiness-first dispatcher with fixed schedules.

set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$sluice_root"

cmake --preset release -DSLUICE_TORCH=ON -DCMAKE_PREFIX_PATH="$SLUICE_TORCH_CMAKE"
cmake --build --preset release --target sluice

sluice="build/release/bin/sluice"
out="build/quickstart"
mkdir -p "$out"

echo
echo "== A GPT on 4 stages, 16 microbatches a step, trained readiness-first"
"$sluice" train --steps 20 --stages 4 --microbatches 16 \
  --timeline "$out/train.html" --trace "$out/train.trace.json" --json "$out/train.json"

echo
echo "== Fixed schedules and readiness-first hints on 8 emulated stages with late messages"
"$sluice" compare --emulate f=10ms,b=20ms,w=10ms --stages 8 --microbatches 64 --jitter tail:0.3,10 \
  --iterations 3 --methods 1f1b,bf,bfw,zb-h1 --timeline "$out/compare.html" --json "$out/compare.json"

echo
echo "Timelines, to be opened in a browser:"
echo "  $sluice_root/$out/train.html"
echo "  $sluice_root/$out/compare.html"
echo "Trace of the training, for https://ui.perfetto.dev: $sluice_root/$out/train.trace.json"
echo "Measurements: $sluice_root/$out/train.json and $sluice_root/$out/compare.json"
