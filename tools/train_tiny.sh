#!/usr/bin/env bash
# Makes the embedded model (data/tiny) from nothing but Debian packages: fetches the texts, makes the
# tokenizer, trains on the GPU, writes the checkpoint. Everything lands in build/tiny; the five files of
# build/tiny/model that data/tiny keeps are copied there by hand.
#
#   tools/train_tiny.sh prepare            texts, tokenizer, token ids (needs no GPU)
#   tools/train_tiny.sh train [OPTIONS]    python3 tools/train_tiny.py OPTIONS, with the python3 that has torch
set -euo pipefail
cd "$(dirname "$0")/.."
work=build/tiny

case ${1:-} in
  prepare)
    mkdir -p "$work/packages"
    for package in bible-kjv bible-kjv-text dict-wn dict-jargon dict-devil wamerican-huge; do
      (cd "$work" && apt-get download --quiet "$package")
    done
    for file in "$work"/*.deb; do dpkg-deb --extract "$file" "$work/packages"; done
    python3 -m venv "$work/environment"
    "$work/environment/bin/pip" install --quiet --disable-pip-version-check tokenizers==0.23.3
    "$work/environment/bin/python" -B tools/tiny/tokens.py "$work/packages" "$work/data"
    ;;
  train)
    shift
    python3 -B tools/train_tiny.py "$work/data" "$work/model" --epochs 16 --dropout 0.15 --rate 4e-3 "$@"
    ;;
  *)
    echo "tools/train_tiny.sh: give prepare or train" >&2
    exit 2
    ;;
esac
