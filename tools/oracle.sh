#!/usr/bin/env bash
# Makes what tests/golden/ holds anew, with numpy, ml_dtypes, safetensors, tokenizers and transformers from
# PyPI in a Python environment of its own (build/oracle), and fails when it differs from what is committed.
#
#   tools/oracle.sh check   compare (make oracle)
#   tools/oracle.sh write   replace the files in tests/golden/
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-}
if [[ $mode != check && $mode != write ]]; then
  echo "tools/oracle.sh: give check or write" >&2
  exit 2
fi

environment=build/oracle
stamp=$environment/requirements.txt
if ! cmp -s tools/oracle/requirements.txt "$stamp"; then
  mkdir -p build
  if ! python3 -m venv --clear "$environment"; then
    echo "tools/oracle.sh: Python makes no environment; on Debian: apt-get install python3-venv" >&2
    exit 1
  fi
  "$environment/bin/pip" install --quiet --disable-pip-version-check -r tools/oracle/requirements.txt
  cp tools/oracle/requirements.txt "$stamp"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$environment/bin/python" -B tools/oracle/chat_templates.py write "$folder/chat_templates"
"$environment/bin/python" -B tools/oracle/formats.py "$folder/formats"
"$environment/bin/python" -B tools/oracle/moe.py "$folder/moe"
"$environment/bin/python" -B tools/oracle/safetensors_golden.py "$folder/safetensors"
"$environment/bin/python" -B tools/oracle/tokenizers_golden.py "$folder/tokenizers"
"$environment/bin/python" -B tools/oracle/toy_readable.py
# Logits in fp32 depend on the processor in their last bits: these are compared with a bound.
if [[ $mode == write ]]; then
  "$environment/bin/python" -B tools/oracle/qwen3_moe.py tests/golden/qwen3_moe
else
  "$environment/bin/python" -B tools/oracle/qwen3_moe.py tests/golden/qwen3_moe --compare
fi
# Tables of the source itself that come from an oracle.
for table in unicode_additions unicode_inert; do
  "$environment/bin/python" -B "tools/oracle/$table.py" >"$folder/$table.inc"
  if [[ $mode == write ]]; then
    cp "$folder/$table.inc" "src/text/$table.inc"
  elif ! cmp "$folder/$table.inc" "src/text/$table.inc" >&2; then
    echo "tools/oracle.sh: src/text/$table.inc differs from what the oracle says" >&2
    exit 1
  fi
done

for part in chat_templates formats moe safetensors tokenizers; do
  if [[ $mode == write ]]; then
    mkdir -p "tests/golden/$part"
    cp "$folder/$part"/* "tests/golden/$part/"
  elif ! diff -r "$folder/$part" "tests/golden/$part" >"$folder/differences"; then
    head -c 2000 "$folder/differences" >&2
    echo "tools/oracle.sh: tests/golden/$part differs from what the oracle says" >&2
    exit 1
  fi
done
