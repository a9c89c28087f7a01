#!/usr/bin/env bash
# `nibble load` against `nibble mock` for ten minutes at 1,000 streams: no request may fail, and the
# client's resident memory may not grow by more than 1 MB a minute once it has settled.
#
#   tools/soak.sh PROGRAM             600 seconds (make soak)
#   tools/soak.sh PROGRAM SECONDS
#
# Memory of both is read each second. The slope is that of least squares over what comes after the
# second minute, or after the first fifth of a run below three minutes.
set -euo pipefail
export LC_ALL=C  # a point in numbers

program=${1:-build/src/cli/nibble} seconds=${2:-600}
streams=${STREAMS:-1000} itl_ms=50 answer_tokens=200
if [[ ! -x $program || ! $seconds =~ ^[1-9][0-9]{0,5}$ || $seconds -lt 30 ]]; then
  echo "tools/soak.sh: give the program and a number of seconds from 30 on" >&2
  exit 2
fi
settled=$((seconds >= 180 ? 120 : seconds / 5))

folder=$(mktemp -d "${TMPDIR:-/tmp}/soak-XXXXXX")
: >"$folder/samples.txt"
mock='' client=''
clean_up() {
  for process in $client $mock; do
    kill "$process" 2>/dev/null || true
    wait "$process" || true
  done
  rm -rf "$folder"
}
trap clean_up EXIT
# 4,096 files are open at most where nobody raised it, and a stream takes two on one machine.
ulimit -n "$(ulimit -Hn)"

"$program" mock --port 0 --itl-ms "$itl_ms" --threads 2 >"$folder/mock.txt" &
mock=$!
url=
for ((tries = 0; tries < 100; ++tries)); do
  url=$(grep -om1 'http://[0-9.:]*' "$folder/mock.txt") && break
  sleep 0.1
done
[[ -n $url ]] || { echo "tools/soak.sh: the mock does not start" >&2; exit 1; }

"$program" load --base-url "$url" --dataset-name random --random-input-len 32 \
  --random-output-len "$answer_tokens" --max-concurrency "$streams" --duration "$seconds" \
  --self-audit off --json >"$folder/load.json" 2>"$folder/load.err" &
client=$!

memory_kb() { awk '/^VmRSS:/ {print $2}' "/proc/$1/status" 2>/dev/null || true; }

# Seconds, client and mock in KiB. What the client takes to compute its report at the end is not of
# the load; it is sampled still, for the peak.
start=$EPOCHREALTIME
while kill -0 "$client" 2>/dev/null; do
  client_kb=$(memory_kb "$client") mock_kb=$(memory_kb "$mock")
  if [[ -n $client_kb && -n $mock_kb ]]; then
    awk -v from="$start" -v to="$EPOCHREALTIME" -v client="$client_kb" -v mock="$mock_kb" \
      'BEGIN {printf "%.3f %d %d\n", to - from, client, mock}' >>"$folder/samples.txt"
  fi
  if [[ -t 1 ]]; then printf '\r%4d s, client %s KiB, mock %s KiB ' "$SECONDS" "$client_kb" "$mock_kb"; fi
  sleep 1
done
[[ -t 1 ]] && printf '\n'
status=0
wait "$client" || status=$?
client=
[[ $status -eq 0 ]] || cat "$folder/load.err" >&2

PYTHONPATH=$(dirname "$0") /usr/bin/python3 -B - "$folder" "$seconds" "$settled" "$status" <<'PYTHON'
import json
import pathlib
import sys

from soak_memory import describe, slope

folder, seconds, settled, status = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:])
samples = [tuple(map(float, line.split())) for line in (folder / "samples.txt").read_text().splitlines()]
window = [sample for sample in samples if settled <= sample[0] <= seconds]

faults = []
if status != 0:
    faults.append(f"nibble load ended with status {status}")
if len(window) < 0.8 * (seconds - settled):
    faults.append(f"only {len(window)} samples of {seconds - settled} s: the load ended early")
if len(window) >= 2:
    print(describe("client", samples, window, 1))
    print(describe("mock", samples, window, 2))
    if slope(window, 1) > 1:
        faults.append(f"the client grows by {slope(window, 1):.2f} MB a minute")
try:
    level = json.loads((folder / "load.json").read_text())["levels"][0]
    print(f"{level['completed']} requests answered, {level['failed']} failed, "
          f"{level['total_output_tokens']} tokens, {level['output_throughput']:.0f} tokens/s, "
          f"in flight {level['mean_in_flight']}")
    if level["failed"] > 0 or level["completed"] == 0:
        faults.append(f"{level['failed']} requests failed, {level['completed']} were answered")
except (ValueError, KeyError, IndexError) as error:
    faults.append(f"nibble load wrote no document: {type(error).__name__}: {error}")
for fault in faults:
    print(f"tools/soak.sh: {fault}", file=sys.stderr)
print(f"soak of {seconds} s: {'FAILED' if faults else 'passed'}")
sys.exit(1 if faults else 0)
PYTHON
