#!/usr/bin/env bash
# Builds what tools/gpu_check.sh and tools/gpu_bench.sh run on a GPU machine, into one file to carry there,
# programs.tar.gz: nibble and the test programs with a GPU part (all but glibc linked in, stripped), and, where
# NVRTC is here, the compiled kernels, so that nothing is compiled there.
#
#   tools/gpu_pack.sh                    build/ -> .gpu/programs.tar.gz
#   tools/gpu_pack.sh --build DIR        builds in DIR
#   tools/gpu_pack.sh --out DIR          puts it into DIR
#   tools/gpu_pack.sh --jobs N           of the build (all processors)
#   tools/gpu_pack.sh --arch sm_90a      that the kernels are compiled for
#
# What was compiled is kept in the build folder's cubins/: the next call compiles only what has changed.
# Fails where the working tree and the file are larger than 64 MiB together, the limit of what is carried at
# a time.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build out=.gpu jobs=$(nproc) arch=sm_90a
while [[ $# -gt 0 ]]; do
  case $1 in
    --build | --out | --jobs | --arch)
      [[ $# -ge 2 ]] || { echo "tools/gpu_pack.sh: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" '%s' "$2"
      shift 2
      ;;
    *) echo "tools/gpu_pack.sh: there is no option $1" >&2; exit 2 ;;
  esac
done
limit=$((64 << 20))
compiling='*Compil*:*Jit*'  # and those that only fill the cache, which are disabled
tests=(cuda kernels bench capi machine)

[[ -f $build/CMakeCache.txt ]] || cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
mapfile -t targets < <(printf 'nibble_%s_test\n' "${tests[@]}")
cmake --build "$build" -j"$jobs" --target nibble "${targets[@]}"
mkdir -p "$out"
packed=$(mktemp -d)
log=$(mktemp)
trap 'rm -rf "$packed" "$log" "$log".*' EXIT
put() {  # put PROGRAM
  strip -o "$packed/$(basename "$1")" "$1"
}
put "$build/src/cli/nibble"
for name in "${tests[@]}"; do put "$build/src/$name/nibble_${name}_test"; done

# A library of this machine that is not on every other: what is carried must not need it.
for program in "$packed"/nibble*; do
  foreign=$(ldd "$program" | awk '{print $1}' |
    grep -vE '^(linux-vdso|libc|libm|libdl|libpthread|librt|/lib64/ld-linux)' || true)
  [[ -z $foreign ]] || { echo "tools/gpu_pack.sh: $program needs ${foreign//$'\n'/, }" >&2; exit 1; }
done

# The tests that compile without a GPU fill the cache, each program in as many parts as there are jobs. What
# they used is packed, but for other architectures' entries.
cache=$build/cubins
mkdir -p "$cache" "$packed/cubins"
touch -d '-1 second' "$packed/begun"
for name in cuda kernels bench capi; do
  parts=()
  for ((part = 0; part < jobs; ++part)); do
    NIBBLE_CUBIN_CACHE=$cache GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$part \
      "$packed/nibble_${name}_test" --gtest_also_run_disabled_tests --gtest_filter="$compiling" \
      >"$log.$part" 2>&1 &
    parts+=($!)
  done
  for ((part = 0; part < jobs; ++part)); do
    wait "${parts[part]}" && continue
    # What compiles is carried all the same: another architecture's failure is a matter of the tests.
    failed=$(sed -n 's|^\[  FAILED  \] \([A-Za-z0-9_/]*\.[A-Za-z0-9_/]*\).*|\1|p' "$log.$part" | sort -u)
    for test in ${failed:-"the program itself"}; do echo "does not compile: $name: $test" >&2; done
  done
done
find "$cache" -type f -name '*.cubin' -newer "$packed/begun" | while read -r entry; do
  if grep -qaE "$arch|compute_80" "$entry"; then ln "$entry" "$packed/cubins" || cp "$entry" "$packed/cubins"; fi
done
rm "$packed/begun"

# Variants of one kernel differ in little, and lie further from each other than gzip looks back.
kernels=$(find "$packed/cubins" -type f | wc -l)
if command -v xz >/dev/null; then
  tar -C "$packed" -cf - cubins | xz -T1 --lzma2=preset=4,dict=64MiB >"$packed/cubins.tar.xz"
  rm -r "$packed/cubins"
fi
tar -C "$packed" -czf "$out/programs.tar.gz.new" .
mv "$out/programs.tar.gz.new" "$out/programs.tar.gz"
bytes=$(stat -c %s "$out/programs.tar.gz")
tree=$(git ls-files -co --exclude-standard -z | xargs -0 du -cb 2>/dev/null | tail -1 | cut -f1)
echo "$out/programs.tar.gz: $((${#tests[@]} + 1)) programs and $kernels compiled kernels of $arch," \
  "$((bytes >> 20)) MiB beside a working tree of $((tree >> 20)) MiB"
[[ $kernels -gt 0 ]] || echo "no compiled kernels: there they are compiled by NVRTC when they are used"
if ((bytes + tree > limit)); then
  echo "tools/gpu_pack.sh: together that is more than the $((limit >> 20)) MiB that are carried" >&2
  exit 1
fi
