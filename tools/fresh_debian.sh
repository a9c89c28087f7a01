#!/usr/bin/env bash
# Tries the committed tree on a fresh Debian 12: a minimal system in a temporary folder, with git and
# make and nothing else, that clones the tree and runs `make demo` and `make test`. Needs root, the
# package debootstrap, 6 GB of disk, and the package sources that /etc/apt already names.
#
#   tools/fresh_debian.sh              make demo, then make test
#   tools/fresh_debian.sh demo         these targets only
set -euo pipefail
cd "$(dirname "$0")/.."
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(demo test)

fail() {
  echo "tools/fresh_debian.sh: $1" >&2
  exit 1
}
[[ $(id -u) -eq 0 ]] || fail "run it as root: it mounts and changes the root folder"
command -v debootstrap >/dev/null || fail "debootstrap is missing; run apt-get install debootstrap"

# "ADDRESS SUITE COMPONENT" of each Debian 12 source of this machine.
sources=$(apt-get indextargets 'Created-By: Packages' --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' |
  grep -E ' bookworm(-updates|-security)? main$' | sort -u) || true
mirror=$(awk '$2 == "bookworm" {print $1; exit}' <<<"$sources")
[[ -n $mirror ]] || fail "/etc/apt names no source of bookworm main"

root=$(mktemp -d "${TMPDIR:-/tmp}/fresh-debian-XXXXXX")
chmod 755 "$root"  # mktemp closes it to the users of apt and man
mounts=()
clean_up() {
  for ((index = ${#mounts[@]} - 1; index >= 0; index--)); do umount -l "${mounts[index]}"; done
  # never through a mount that is still there
  if ! grep -q " $root/" /proc/mounts; then rm -rf --one-file-system "$root"; fi
}
trap clean_up EXIT

echo "Making a fresh Debian 12 in $root"
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 ||
  { tail -20 "$root.log" >&2; fail "debootstrap failed; all it said is in $root.log"; }
rm -f "$root.log"

while read -r address suite component; do
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $address $suite $component"
done <<<"$sources" >"$root/etc/apt/sources.list"
cp /etc/resolv.conf "$root/etc/resolv.conf"
echo '127.0.0.1 localhost' >"$root/etc/hosts"  # an installer writes it, debootstrap does not
apt-config dump Acquire::http Acquire::https 2>/dev/null | grep -i proxy \
  >"$root/etc/apt/apt.conf.d/90proxy" || true

# debootstrap has made the devices; what is missing are the file systems.
mount -t proc proc "$root/proc" && mounts+=("$root/proc")
mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666 && mounts+=("$root/dev/pts")
mount -t tmpfs tmpfs "$root/dev/shm" && mounts+=("$root/dev/shm")

inside() {
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    chroot "$root" bash -c "$1" </dev/null
}
inside 'apt-get -qq update && apt-get -qq install --yes --no-install-recommends git make ca-certificates >/dev/null'
git clone --quiet --no-hardlinks . "$root/root/nibble"
for target in "${targets[@]}"; do
  echo "== make $target"
  start=$(date +%s)
  inside "cd /root/nibble && make $target"
  echo "== make $target took $(($(date +%s) - start)) s"
done
