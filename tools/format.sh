#!/usr/bin/env bash
# Formats our C and C++ files with clang-format 14, or names those that are not formatted.
#
#   tools/format.sh write
#   tools/format.sh check
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(find src tests bench fuzz include examples \( -name '*.h' -o -name '*.c' -o -name '*.cpp' \) | sort)

case ${1:-} in
  write) clang-format-14 -i "${files[@]}" ;;
  check)
    unformatted=$(clang-format-14 --dry-run "${files[@]}" 2>&1 |
      sed -n 's/^\([^ ]*\):[0-9]*:[0-9]*: warning: code should be.*/\1/p' | sort -u)
    if [[ -n $unformatted ]]; then
      printf '%s\n' "$unformatted" >&2
      echo "these files are not formatted; run \"make format\"" >&2
      exit 1
    fi
    ;;
  *)
    echo "tools/format.sh: give write or check" >&2
    exit 2
    ;;
esac
