"""What `cmake --install` puts where, and that a stranger can build against it."""
import os
import re
import subprocess

import pytest

PROGRAM = r"""
#include <cstdio>

#include "machine/spec.h"

int main() {
  const nibble::Result<nibble::MachineSpec> machine = nibble::load_machine("no-such-machine");
  if (machine.ok()) return 1;
  std::printf("%zu machines; %s\n", nibble::machine_catalog().size(),
              machine.error().within("demo").message.c_str());
}
"""


def run(*words, **options):
    result = subprocess.run(words, capture_output=True, text=True, timeout=200, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def prefix(build_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("install") / "a prefix"  # a space is a usual trap
    run("cmake", "--install", build_dir, "--prefix", path)
    return path


@pytest.fixture(scope="module")
def library_dir(prefix):
    found = list(prefix.rglob("libnibble.so"))
    assert len(found) == 1
    return found[0].parent


def test_files(prefix, library_dir):
    share = prefix / "share"
    for path in (prefix / "bin/nibble", share / "man/man1/nibble.1",
                 share / "bash-completion/completions/nibble",
                 share / "zsh/site-functions/_nibble",
                 share / "fish/vendor_completions.d/nibble.fish",
                 library_dir / "libnibble.a", library_dir / "pkgconfig/nibble.pc",
                 prefix / "include/nibble-0/base/result.h",
                 prefix / "include/nibble-0/machine/spec.h"):
        assert path.stat().st_size > 0
    assert not (prefix / "include/nibble-0/cli").exists()


def test_shared_library_is_versioned(prefix, library_dir):
    version = run(prefix / "bin/nibble", "--version").splitlines()[0].split()[1]
    assert os.readlink(library_dir / "libnibble.so") == "libnibble.so.0"
    assert os.readlink(library_dir / "libnibble.so.0") == f"libnibble.so.{version}"
    assert "[libnibble.so.0]" in run("readelf", "-d", library_dir / "libnibble.so")


def test_shared_library_shows_only_our_names(library_dir):
    names = run("nm", "-D", "--defined-only", library_dir / "libnibble.so").splitlines()
    shown = [line.split(maxsplit=2)[2] for line in names]
    assert any(name.startswith("_ZN6nibble12load_machine") for name in shown)
    # Functions, const members, type information, names of types, virtual tables of namespace nibble.
    ours = re.compile(r"_Z(N|NK|TIN|TSN|TVN)6nibble")
    assert [name for name in shown if not ours.match(name)] == []


def test_program_needs_only_the_system(prefix):
    """What the program and the library load: glibc and g++'s runtime; fmt and PCRE2 are inside."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", prefix / "bin/nibble"))
    system = re.compile(r"(libc|libm|libdl|libpthread|libstdc\+\+|libgcc_s|ld-linux.*)\.so")
    assert [name for name in needed if not system.match(name)] == []


@pytest.mark.parametrize("form", ["shared", "static"])
def test_a_program_builds_against_it(prefix, library_dir, tmp_path, form):
    (tmp_path / "demo.cpp").write_text(PROGRAM)
    env = {**os.environ, "PKG_CONFIG_PATH": str(library_dir / "pkgconfig"),
           "LD_LIBRARY_PATH": str(library_dir)}
    words = ["--static"] if form == "static" else []
    flags = run("pkg-config", *words, "--cflags", "--libs", "nibble", env=env).strip()
    if form == "static":
        flags = flags.replace("-lnibble", "-l:libnibble.a")
    # pkg-config escapes the space for the shell
    run("bash", "-c", f"c++ -std=c++20 -Wall -Wextra -Werror demo.cpp -o demo {flags}",
        cwd=tmp_path, env=env)
    shown = run(tmp_path / "demo", env=env)
    assert re.match(r"[1-9]\d* machines; demo: .*no-such-machine", shown), shown
