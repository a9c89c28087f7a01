#!/usr/bin/env bash
# Builds the fuzz targets and runs each for the seconds given, from its corpus in fuzz/corpus.
#
#   tools/fuzz.sh 60
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?give the seconds for each target}

cmake --preset fuzz >/dev/null
cmake --build build-fuzz --target fuzz/all --parallel "$(nproc)"

shopt -s nullglob
programs=(build-fuzz/fuzz/*_fuzz)
if [[ ${#programs[@]} -eq 0 ]]; then
  echo "tools/fuzz.sh: no fuzz target was built; see fuzz/CMakeLists.txt" >&2
  exit 1
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for program in "${programs[@]}"; do
  name=$(basename "$program" _fuzz)
  mkdir -p "$scratch/$name"  # new inputs; the committed corpus stays as it is
  corpus=("$scratch/$name")
  [[ -d fuzz/corpus/$name ]] && corpus+=("fuzz/corpus/$name")
  echo "fuzzing $name for $seconds s"
  if ! "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build-fuzz/$name-" "${corpus[@]}" >"$scratch/$name.log" 2>&1; then
    tail -60 "$scratch/$name.log" >&2
    echo "tools/fuzz.sh: $name failed; its input is build-fuzz/$name-*" >&2
    exit 1
  fi
  grep -E '^(Done|stat::number_of_executed_units)' "$scratch/$name.log" | tail -1
done
