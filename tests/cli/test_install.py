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


PROGRAM_IN_C = r"""
#include <nibble/nibble.h>
#include <stdio.h>

int main(void) {
  nibble_device* device = NULL;
  if (nibble_cpu_open(-1, &device) != NIBBLE_INVALID_ARGUMENT) return 1;
  printf("%s: %s\n", nibble_version(), nibble_last_error());
  return nibble_abi_version() == NIBBLE_ABI_VERSION ? 0 : 1;
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
                 prefix / "include/nibble/nibble.h",
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
    # Of C, and of namespace nibble functions, const members, type information, names of types and
    # virtual tables. Data that is embedded is not shown.
    ours = re.compile(r"_Z(N|NK|TIN|TSN|TVN)6nibble|nibble_(?!embed)")
    assert [name for name in shown if not ours.match(name)] == []


def test_program_needs_only_the_system(prefix):
    """What the program and the library load: glibc and g++'s runtime; fmt and PCRE2 are inside."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", prefix / "bin/nibble"))
    system = re.compile(r"(libc|libm|libdl|libpthread|libstdc\+\+|libgcc_s|ld-linux.*)\.so")
    assert [name for name in needed if not system.match(name)] == []


@pytest.fixture
def env(library_dir):
    return {**os.environ, "PKG_CONFIG_PATH": str(library_dir / "pkgconfig"),
            "LD_LIBRARY_PATH": str(library_dir)}


def build_flags(form, env):
    words = ["--static"] if form == "static" else []
    flags = run("pkg-config", *words, "--cflags", "--libs", "nibble", env=env).strip()
    return flags.replace("-lnibble", "-l:libnibble.a") if form == "static" else flags


@pytest.mark.parametrize("form", ["shared", "static"])
def test_a_program_builds_against_it(env, tmp_path, form):
    (tmp_path / "demo.cpp").write_text(PROGRAM)
    flags = build_flags(form, env)
    # pkg-config escapes the space for the shell
    run("bash", "-c", f"c++ -std=c++20 -Wall -Wextra -Werror demo.cpp -o demo {flags}",
        cwd=tmp_path, env=env)
    shown = run(tmp_path / "demo", env=env)
    assert re.match(r"[1-9]\d* machines; demo: .*no-such-machine", shown), shown


@pytest.mark.parametrize("form", ["shared", "static"])
def test_a_program_in_c_builds_against_it(prefix, env, tmp_path, form):
    (tmp_path / "demo.c").write_text(PROGRAM_IN_C)
    flags = build_flags(form, env)
    run("bash", "-c", f"cc -std=c99 -Wall -Wextra -pedantic -Werror demo.c -o demo {flags}",
        cwd=tmp_path, env=env)
    version = run(prefix / "bin/nibble", "--version").splitlines()[0].split()[1]
    assert run(tmp_path / "demo", env=env) == f"{version}: threads is -1; give 0 to 1024\n"


def test_the_example_in_c_builds_against_it(source_dir, env, tmp_path):
    flags = build_flags("shared", env)
    run("bash", "-c", f"cc -std=c99 '{source_dir}/examples/c/fp4_gemm.c' -o demo {flags} -lm",
        cwd=tmp_path, env=env)
    assert "relative error" in run(tmp_path / "demo", env=env)
