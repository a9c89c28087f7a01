#!/usr/bin/env bash
# The measurements of a GPU, in one call on a machine with an NVIDIA driver and nothing else: the program is
# built elsewhere and carried (tools/gpu_pack.sh). Each measurement becomes a JSON file; a short table of them
# comes last (tools/gpu_tables.py).
#
#   tools/gpu_bench.sh                       the program in $NIBBLE_GPU_DIR, else in .gpu/
#   tools/gpu_bench.sh DIR                   the program in DIR
#   tools/gpu_bench.sh --out FOLDER          of the JSON files (gpu-results)
#   tools/gpu_bench.sh --only roof,moe,link  roof, moe, gemm, and link, which takes two GPUs (roof,moe)
#   tools/gpu_bench.sh --models glm5,gptoss  of moe and gemm: glm5, deepseek, qwen235, qwen30, gptoss, glm5tp8
#   tools/gpu_bench.sh --tokens 1,8,64       of moe and gemm (1,2,4,8,16,32,64,128)
#   tools/gpu_bench.sh --routing random      of moe: balanced, random, zipf:1 (all three)
#   tools/gpu_bench.sh --seconds S           most time of a row (0.3)
#   tools/gpu_bench.sh --on cuda:0           the GPU; link takes all
#   tools/gpu_bench.sh --minutes M           begins nothing after so many (9), and says what is left out
#   tools/gpu_bench.sh --dry-run             prints the commands
#
# Exit status 1 where a measurement failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
source tools/gpu_programs.sh

dir=${NIBBLE_GPU_DIR:-.gpu}
out=gpu-results only=roof,moe models=glm5,deepseek,qwen235,qwen30,gptoss,glm5tp8
tokens=1,2,4,8,16,32,64,128 routing=balanced,random,zipf:1 seconds=0.3 on=cuda:0 minutes=9 dry=
refuse() {
  echo "tools/gpu_bench.sh: $1" >&2
  exit 2
}
while [[ $# -gt 0 ]]; do
  case $1 in
    --out | --only | --models | --tokens | --routing | --seconds | --on | --minutes)
      [[ $# -ge 2 ]] || refuse "$1 needs a value"
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --dry-run) dry=1 ;;
    -*) refuse "there is no option $1" ;;
    *) dir=$1 ;;
  esac
  shift
done
[[ $dry ]] || gpu_programs "$dir" ||
  refuse "$dir has no nibble; make it with tools/gpu_pack.sh, or name another folder"
nibble=$dir/nibble
[[ $dry ]] || mkdir -p "$out" || exit 1

failed=()
late=()
files=()
measure() {  # measure NAME WORD...: nibble WORD... --json into NAME.json
  local name=$1 begun=$SECONDS
  shift
  if [[ $dry ]]; then
    echo "nibble $* --json > $out/$name.json"
    return
  fi
  if ((SECONDS >= minutes * 60)); then
    late+=("$name")
    return
  fi
  echo "== $name: nibble $*"
  timeout --kill-after=10 $((minutes * 60 - SECONDS + 30)) "$nibble" "$@" --json >"$out/$name.json.new"
  local status=$?
  if [[ -s $out/$name.json.new ]]; then
    mv "$out/$name.json.new" "$out/$name.json"
    files+=("$out/$name.json")
  else
    rm -f "$out/$name.json.new"
  fi
  [[ $status -eq 0 ]] || failed+=("$name (status $status)")
  echo "   $((SECONDS - begun)) s"
}

model_words() {
  case $1 in
    glm5) words=(--model glm-5-nvfp4) ;;
    deepseek) words=(--model deepseek-r1-nvfp4) ;;  # the shapes of DeepSeek-V3
    qwen235) words=(--model qwen3-235b-a22b-nvfp4) ;;
    qwen30) words=(--model qwen3-30b-a3b-nvfp4) ;;
    gptoss) words=(--model gpt-oss-120b) ;;
    glm5tp8) words=(--model glm-5-nvfp4 --tp 8) ;;
    *) refuse "--models has \"$1\"; give glm5, deepseek, qwen235, qwen30, gptoss or glm5tp8" ;;
  esac
}

# NCCL often lies in Python's packages, where the loader does not look.
nccl_words() {
  words=()
  ldconfig -p 2>/dev/null | grep -q 'libnccl\.so\.2' && return
  local found
  found=$(python3 - 2>/dev/null <<'PY'
import pathlib, sys
for folder in map(pathlib.Path, sys.path):
    for file in folder.glob("nvidia/nccl/lib/libnccl.so.2"):
        print(file)
PY
  )
  [[ $found ]] && words=(--nccl "${found%%$'\n'*}")
}

for part in ${only//,/ }; do
  case $part in
    roof) measure roof bench roof --on "$on" ;;
    moe)
      for model in ${models//,/ }; do
        model_words "$model"
        for kind in ${routing//,/ }; do
          measure "moe_${model}_${kind//:/}" bench moe --on "$on" "${words[@]}" --routing "$kind" \
            --tokens "$tokens" --seconds "$seconds"
        done
      done
      ;;
    gemm)
      for model in ${models//,/ }; do
        model_words "$model"
        measure "gemm_$model" bench gemm --on "$on" "${words[@]}" --tokens "$tokens" \
          --seconds "$seconds"
      done
      ;;
    link)
      nccl_words
      measure link bench link --on all "${words[@]}" --save-machine "$out/machine.json"
      ;;
    *) refuse "--only has \"$part\"; give roof, moe, gemm or link" ;;
  esac
done
[[ $dry ]] && exit 0

[[ ${#files[@]} -gt 0 ]] && { echo; python3 tools/gpu_tables.py "${files[@]}"; }
echo
echo "${#files[@]} files in $out"
[[ ${#late[@]} -gt 0 ]] && echo "not begun within $minutes minutes: ${late[*]}"
[[ ${#failed[@]} -gt 0 ]] && echo "failed: ${failed[*]}"
[[ ${#failed[@]} -eq 0 && ${#files[@]} -gt 0 ]]
