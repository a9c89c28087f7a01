#!/usr/bin/env bash
# Builds fuzz targets and runs each for the seconds given, from its corpus in fuzz/corpus.
#
#   tools/fuzz.sh 60               all of them
#   tools/fuzz.sh 5 json config    these, with what they need and nothing else
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?give the seconds for each target}
shift
names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then
  for source in fuzz/*_fuzz.cpp; do names+=("$(basename "$source" _fuzz.cpp)"); done
fi

cmake --preset fuzz >/dev/null
cmake --build build-fuzz --target "${names[@]/%/_fuzz}" --parallel "$(nproc)"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in "${names[@]}"; do
  mkdir -p "$scratch/$name"  # new inputs; the committed corpus stays as it is
  corpus=("$scratch/$name")
  [[ -d fuzz/corpus/$name ]] && corpus+=("fuzz/corpus/$name")
  echo "fuzzing $name for $seconds s"
  if ! "build-fuzz/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build-fuzz/$name-" "${corpus[@]}" >"$scratch/$name.log" 2>&1; then
    tail -60 "$scratch/$name.log" >&2
    echo "tools/fuzz.sh: $name failed; its input is build-fuzz/$name-*" >&2
    exit 1
  fi
  grep -E '^(Done|stat::number_of_executed_units)' "$scratch/$name.log" | tail -1
done
