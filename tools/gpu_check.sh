#!/usr/bin/env bash
# Every test that needs a GPU, in one call on a machine with an NVIDIA driver and nothing else: the programs
# are built elsewhere and carried (tools/gpu_pack.sh). Prints a short table last.
#
#   tools/gpu_check.sh                     programs in $NIBBLE_GPU_DIR, else in .gpu/
#   tools/gpu_check.sh DIR                 programs in DIR
#   tools/gpu_check.sh --only cuda,bench   these suites alone: cuda, kernels, capi, bench, machine, doctor,
#                                          analyze, telemetry (which needs torch)
#   tools/gpu_check.sh --sanitize          and once more under compute-sanitizer: memcheck, racecheck,
#                                          initcheck; --sanitize=memcheck,... for some of them
#   tools/gpu_check.sh --filter PATTERN    of the tests, in place of Cuda*
#   tools/gpu_check.sh --seconds S         at most for one suite (300)
#   tools/gpu_check.sh --shards N          each program N times side by side, each a part of its tests (1)
#
# Exit status 1 where something failed, a suite crashed, or a filter matched no test. What was skipped is
# said, with the reason.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
source tools/gpu_programs.sh

dir=${NIBBLE_GPU_DIR:-.gpu}
only=doctor,machine,analyze,cuda,kernels,capi,bench,telemetry
filter='Cuda*'
seconds=300
shards=1
tools=
refuse() {
  echo "tools/gpu_check.sh: $1" >&2
  exit 2
}
while [[ $# -gt 0 ]]; do
  case $1 in
    --only | --filter | --seconds | --shards)
      [[ $# -ge 2 ]] || refuse "$1 needs a value"
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --sanitize) tools=memcheck,racecheck,initcheck ;;
    --sanitize=*) tools=${1#--sanitize=} ;;
    -*) refuse "there is no option $1" ;;
    *) dir=$1 ;;
  esac
  shift
done
[[ $shards =~ ^[1-9][0-9]?$ ]] || refuse "--shards $shards is no number from 1 to 99"
gpu_programs "$dir" || refuse "$dir has no nibble; make it with tools/gpu_pack.sh, or name another folder"
nibble=$dir/nibble
log=$(mktemp)
trap 'rm -f "$log" "$log".*' EXIT

rows=()
notes=()
failures=0
all_passed=0
row() { rows+=("$(printf '%-22s %7s %7s %7s %8s' "$@")"); }
wanted() { [[ ,$only, == *,$1,* ]]; }
count() {  # count WORD: of the summaries of gtest in the log, one a shard; 0 when it has none
  sed -n "s/^\[  $1 *\] \([0-9]*\) test.*/\1/p" "$log" | awk '{sum += $1} END {print sum + 0}'
}

# run NAME COMMAND...: its output is shown; begun and seconds go to the row.
run() {
  local name=$1
  shift
  echo "== $name: $*"
  begun=$SECONDS
  timeout --kill-after=10 "$seconds" "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  stopped "$name" "$status"
}
stopped() {  # stopped NAME STATUS
  if [[ $2 -eq 124 || $2 -eq 137 ]]; then notes+=("$1: stopped after $seconds s"); fi
}

# As run(), for a program of gtest in $shards parts side by side. Each one's output is shown when all have
# ended; status is that of the last part that failed. A part that ends with neither summary nor tests has
# crashed.
run_shards() {
  local name=$1 part parts=() each
  shift
  if [[ $shards -eq 1 ]]; then
    run "$name" "$@"
    return
  fi
  echo "== $name, $shards shards: $*"
  begun=$SECONDS
  status=0 crashed=0
  for ((part = 0; part < shards; ++part)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$part \
      timeout --kill-after=10 "$seconds" "$@" >"$log.$part" 2>&1 &
    parts+=($!)
  done
  for ((part = 0; part < shards; ++part)); do
    each=0
    wait "${parts[part]}" || each=$?
    [[ $each -eq 0 ]] && continue
    status=$each
    stopped "$name, shard $part" "$each"
    grep -q '^\[  FAILED *\] [0-9]* test' "$log.$part" && continue
    crashed=$((crashed + 1))
    notes+=("$name, shard $part: ended with status $each before its summary, or not by its tests")
  done
  for ((part = 0; part < shards; ++part)); do cat "$log.$part"; done | tee "$log"
}

suite() {  # suite NAME COMMAND...: a program of gtest
  local name=$1 passed failed skipped
  crashed=0
  run_shards "$@"
  passed=$(count PASSED) failed=$(($(count FAILED) + crashed)) skipped=$(count SKIPPED)
  if [[ $status -ne 0 && $failed -eq 0 ]]; then
    failed=1
    notes+=("$name: ended with status $status before its summary, or not by its tests")
  elif [[ $((passed + failed + skipped)) -eq 0 ]]; then
    failed=1
    notes+=("$name: no test matches")
  elif [[ $((passed + failed)) -eq 0 ]]; then
    notes+=("$name: everything was skipped: $(grep -m1 -A1 ': Skipped$' "$log" | tail -1)")
  elif [[ $skipped -gt 0 ]]; then
    notes+=("$name: $skipped skipped: $(grep -m1 -A1 ': Skipped$' "$log" | tail -1)")
  fi
  row "$name" "$passed" "$failed" "$skipped" $((SECONDS - begun))
  failures=$((failures + failed)) all_passed=$((all_passed + passed))
}

check() {  # check NAME COMMAND...: one that its status judges
  run "$@"
  if [[ $status -eq 0 ]]; then
    row "$1" 1 0 0 $((SECONDS - begun))
    all_passed=$((all_passed + 1))
  else
    row "$1" 0 1 0 $((SECONDS - begun))
    failures=$((failures + 1))
  fi
}
skip() {  # skip NAME REASON
  row "$1" 0 0 1 0
  notes+=("$1: everything was skipped: $2")
}

no_gpu=
"$nibble" doctor --json 2>/dev/null | grep -q '"arch": "sm_' || no_gpu="nibble doctor finds no GPU"

wanted doctor && if [[ $no_gpu ]]; then skip doctor "$no_gpu"; else check doctor "$nibble" doctor; fi
wanted analyze && if [[ $no_gpu ]]; then skip analyze "$no_gpu"; else
  check analyze "$nibble" analyze --model glm-5-nvfp4 --machine this --tp 8 --concurrency 1,64,1024
fi
for name in machine cuda kernels capi bench; do
  wanted $name || continue
  program=$dir/nibble_${name}_test
  if [[ ! -x $program ]]; then
    skip $name "$dir has no nibble_${name}_test"
    continue
  fi
  of=$filter
  [[ $name == machine ]] && of='Nvml.*'
  suite $name "$program" --gtest_filter="$of"
  [[ $name == machine ]] && continue
  for tool in ${tools//,/ }; do
    if ! command -v compute-sanitizer >/dev/null; then
      skip "$name, $tool" "there is no compute-sanitizer"
    elif [[ $no_gpu ]]; then
      skip "$name, $tool" "$no_gpu"
    else
      # Error status 9 tells what it found from what the tests found. NCCL's kernels are not ours to judge.
      [[ $of == *-* ]] || of="$of:-CudaLink*"
      # Racecheck cannot follow one lane that arrives for its warp (src/kernels/ptx/warp_arrival.cuh).
      arrivals=0
      [[ $tool == racecheck ]] && arrivals=1
      suite "$name, $tool" env NIBBLE_EVERY_LANE_ARRIVES=$arrivals compute-sanitizer --tool "$tool" \
        --error-exitcode 9 "$program" --gtest_filter="$of"
    fi
  done
done
wanted telemetry && if [[ $no_gpu ]]; then skip telemetry "$no_gpu"
elif ! python3 -c 'import torch' 2>/dev/null; then skip telemetry "there is no torch"
else check telemetry python3 tools/gpu_telemetry.py "$nibble"; fi

[[ ${#rows[@]} -gt 0 ]] || refuse "--only $only names no suite"
printf '\n%-22s %7s %7s %7s %8s\n' suite passed failed skipped seconds
printf '%s\n' "${rows[@]}"
[[ ${#notes[@]} -gt 0 ]] && printf '%s\n' "${notes[@]}"
if [[ $failures -eq 0 && $all_passed -eq 0 ]]; then
  echo "everything was skipped: nothing is shown to work"
fi
[[ $failures -eq 0 ]]
