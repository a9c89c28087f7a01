# shellcheck shell=bash
# Sourced by gpu_check.sh and gpu_bench.sh: where the carried programs are.
#
#   gpu_programs DIR    sets `dir` to the folder with nibble in it, DIR or what DIR/programs.tar.gz holds,
#                       and NIBBLE_CUBIN_CACHE to the compiled kernels in it, if there are; 1: there is no nibble

gpu_programs() {
  dir=$1
  if [[ -f $1/programs.tar.gz ]]; then
    # Kept from call to call on one machine, and unpacked anew when another file is carried.
    local mark
    mark=$(cksum <"$1/programs.tar.gz" | tr ' ' '-')
    dir=${TMPDIR:-/tmp}/nibble-gpu-$(id -u)-$mark
    if [[ ! -f $dir/complete ]]; then
      mkdir -p "$dir" && tar -C "$dir" -xzf "$1/programs.tar.gz" && gpu_kernels "$dir" &&
        touch "$dir/complete" || return 1
    fi
  fi
  [[ -x $dir/nibble ]] || return 1
  dir=$(cd "$dir" && pwd)
  # Compiled kernels that were carried: nothing needs NVRTC then.
  if [[ -d $dir/cubins ]]; then export NIBBLE_CUBIN_CACHE=$dir/cubins; fi
}

gpu_kernels() {  # gpu_kernels DIR: its compiled kernels, where they were packed: by xz, or by Python
  [[ -f $1/cubins.tar.xz ]] || return 0
  if command -v xz >/dev/null; then
    xz -dc "$1/cubins.tar.xz" | tar -C "$1" -xf -
  elif command -v python3 >/dev/null; then
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$1/cubins.tar.xz" "$1"
  else
    echo "tools: neither xz nor python3 is here to unpack the compiled kernels; NVRTC compiles them anew" >&2
  fi
}
