#!/usr/bin/env bash
# Runs clang-format 14 over our C++ files with the options given: -i, or --dry-run -Werror.
set -euo pipefail
cd "$(dirname "$0")/.."
find src tests bench fuzz \( -name '*.h' -o -name '*.cpp' \) -print0 |
  xargs -0 --no-run-if-empty clang-format-14 "$@"
