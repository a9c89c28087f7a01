#!/usr/bin/env bash
# Everything that needs a GPU, in one call, with a short table last. Run it on a machine with an NVIDIA
# driver; the programs may have been built elsewhere.
#
#   tools/gpu_check.sh            programs in build/
#   tools/gpu_check.sh DIR        programs in DIR (nibble, nibble_machine_test)
set -uo pipefail
cd "$(dirname "$0")/.."
if [[ $# -gt 0 ]]; then
  nibble=$1/nibble machine_test=$1/nibble_machine_test
else
  nibble=build/src/cli/nibble machine_test=build/src/machine/nibble_machine_test
fi

rows=()
failed=0
check() {  # check NAME COMMAND...
  local name=$1 verdict=passed
  shift
  echo "== $name: $*"
  "$@" || { verdict=FAILED failed=$((failed + 1)); }
  rows+=("$(printf '%-28s %s' "$name" "$verdict")")
}

has_gpu() { "$nibble" doctor --json | grep -q '"catalog_name"'; }
this_machine() { "$nibble" analyze --model glm-5-nvfp4 --machine this --tp 8 --concurrency 1,64,1024; }

check "doctor" "$nibble" doctor
check "doctor finds a GPU" has_gpu
check "NVML" "$machine_test" --gtest_filter='Nvml.*'
check "analyze --machine this" this_machine
check "telemetry under three loads" python3 tools/gpu_telemetry.py "$nibble"

printf '\n%s\n' "${rows[@]}"
passed=$((${#rows[@]} - failed))
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
