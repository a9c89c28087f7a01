#!/usr/bin/env bash
# Installs what a fresh Debian 12 lacks. Says nothing and needs no rights when nothing is missing.
#
#   tools/setup.sh build   what building the program takes
#   tools/setup.sh test    and what the tests take
#   tools/setup.sh fuzz    and what coverage-guided fuzzing takes
#   tools/setup.sh oracle  and what making the golden files anew takes
#   tools/setup.sh python  and what tools/real_server_check.sh and bench/load_peers.py take
set -euo pipefail

build_packages=(
  g++ cmake ninja-build make
  libfmt-dev libcli11-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev libjs-chart.js
  libboost1.81-dev libssl-dev zlib1g-dev libsqlite3-dev
)
test_packages=(
  libgtest-dev libbenchmark-dev
  clang-format-14
  python3 python3-pytest python3-jsonschema python3-selenium python3-pil
  chromium chromium-driver fonts-dejavu-core
  pkgconf man-db bsdextrautils zsh fish
  wamerican-huge
)

fuzz_packages=(clang-14 libclang-rt-14-dev)
oracle_packages=(python3 python3-venv)
python_packages=(python3 python3-venv python3-jsonschema)

case ${1:-} in
  build) packages=("${build_packages[@]}") ;;
  test) packages=("${build_packages[@]}" "${test_packages[@]}") ;;
  fuzz) packages=("${build_packages[@]}" "${fuzz_packages[@]}") ;;
  oracle) packages=("${oracle_packages[@]}") ;;
  python) packages=("${build_packages[@]}" "${python_packages[@]}") ;;
  *)
    echo "tools/setup.sh: give build, test, fuzz, oracle or python" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "tools/setup.sh: this is no Debian; what is needed there is: ${packages[*]}" >&2
  exit 0
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "tools/setup.sh: as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "Installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >>"$log" 2>&1 </dev/null; }
if ! apt update || ! apt install --yes --no-install-recommends "${missing[@]}"; then
  cat "$log" >&2
  echo "tools/setup.sh: could not install ${missing[*]}; the messages of apt-get stand above" >&2
  exit 1
fi
