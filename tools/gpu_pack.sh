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
compiling='*Compil*:*Jit*'
tests=(cuda kernels bench capi machine)

[[ -f $build/CMakeCache.txt ]] || cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
mapfile -t targets < <(printf 'nibble_%s_test\n' "${tests[@]}")
cmake --build "$build" -j"$jobs" --target nibble "${targets[@]}"
mkdir -p "$out"
packed=$(mktemp -d)
log=$(mktemp)
trap 'rm -rf "$packed" "$log"' EXIT
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

# The tests that compile without a GPU fill the cache; other architectures' entries stay here.
mkdir "$packed/cubins"
for name in cuda kernels bench capi; do
  NIBBLE_CUBIN_CACHE=$packed/cubins "$packed/nibble_${name}_test" --gtest_filter="$compiling" \
    >"$log" 2>&1 && continue
  # What compiles is carried all the same: another architecture's failure is a matter of the tests.
  sed -n "s/^\[  FAILED  \] \([A-Za-z]*\.[A-Za-z]*\).*/does not compile: $name: \1/p" "$log" | sort -u >&2
done
find "$packed/cubins" -type f | while read -r entry; do
  grep -qaF "$arch" "$entry" || rm "$entry"
done

kernels=$(find "$packed/cubins" -type f | wc -l)
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
