"""The C API from outside: the example in C, and ctypes, as an engine in Python loads it."""
import ctypes
import os
import re
import shlex
import struct
import subprocess
import sys
import textwrap
import threading

import pytest

NIBBLE_OK, INVALID_ARGUMENT, NO_DEVICE, RUN_FAILED = 0, 1, 2, 4
FP32 = 2


def run(*words, **options):
    result = subprocess.run(words, capture_output=True, text=True, timeout=200, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def library(build_dir):
    loaded = ctypes.CDLL(str(build_dir / "libnibble.so"))
    loaded.nibble_last_error.restype = ctypes.c_char_p
    loaded.nibble_version.restype = ctypes.c_char_p
    loaded.nibble_swizzled_bytes.restype = ctypes.c_int64
    loaded.nibble_swizzled_bytes.argtypes = [ctypes.c_int64, ctypes.c_int64]
    for close in (loaded.nibble_device_close, loaded.nibble_cpu_gemm_destroy):
        close.restype = None
        close.argtypes = [ctypes.c_void_p]
    return loaded


@pytest.fixture
def cpu(library):
    device = ctypes.c_void_p()
    assert library.nibble_cpu_open(1, ctypes.byref(device)) == NIBBLE_OK, library.nibble_last_error()
    yield device
    library.nibble_device_close(device)


class GemmDesc(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("format", ctypes.c_int32),
                ("out_dtype", ctypes.c_int32), ("experts", ctypes.c_int32),
                ("n", ctypes.c_int64), ("k", ctypes.c_int64), ("expected_rows", ctypes.c_int64)]


class GemmWeights(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("scale_layout", ctypes.c_int32),
                ("b", ctypes.c_void_p), ("block_scale_b", ctypes.c_void_p),
                ("alpha", ctypes.POINTER(ctypes.c_float))]


class GemmArgs(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("a_dtype", ctypes.c_int32), ("rows", ctypes.c_int64),
                ("a", ctypes.c_void_p), ("block_scale_a", ctypes.c_void_p),
                ("out", ctypes.c_void_p), ("expert_offsets", ctypes.c_void_p),
                ("sf_offsets", ctypes.c_void_p)]


def sized(kind, **fields):
    return kind(size=ctypes.sizeof(kind), **fields)


def address(buffer):
    return ctypes.cast(buffer, ctypes.c_void_p)


def test_the_example_in_c(build_dir, source_dir, tmp_path):
    """Built with the tree's header and library by a C compiler, with every warning."""
    run("cc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror",
        source_dir / "examples/c/fp4_gemm.c", "-o", tmp_path / "fp4_gemm",
        "-I", source_dir / "include", "-L", build_dir, "-lnibble", "-lm",
        f"-Wl,-rpath,{build_dir}")
    shown = run(tmp_path / "fp4_gemm")
    found = re.search(r"^\[24, 256\] x \[96, 256\]: relative error (\S+)$", shown, re.MULTILINE)
    assert found, shown
    assert float(found[1]) < 1e-3
    assert re.search(r"^nibble \d+\.\d+\.\d+ on \S+", shown, re.MULTILINE), shown


@pytest.fixture(scope="module")
def installed(build_dir, tmp_path_factory):
    """Where an installation lies, and the environment of a user whom pkg-config tells of it alone."""
    prefix = tmp_path_factory.mktemp("capi") / "prefix"
    run("cmake", "--install", build_dir, "--prefix", prefix)
    found = list(prefix.rglob("nibble.pc"))
    assert len(found) == 1
    return {**os.environ, "PKG_CONFIG_LIBDIR": str(found[0].parent), "PKG_CONFIG_PATH": "",
            "LD_LIBRARY_PATH": str(found[0].parent.parent)}


def test_the_commands_of_the_page_build_the_example(installed, source_dir, tmp_path):
    """Shared and static; and where no package but ours is known, as without libfmt-dev."""
    page = (source_dir / "docs/c_api.md").read_text()
    commands = [line for line in page.splitlines() if line.startswith("cc -std=c99 demo.c")]
    assert len(commands) == 2
    (tmp_path / "demo.c").write_text((source_dir / "examples/c/fp4_gemm.c").read_text())
    for command in commands:
        run("bash", "-c", f"set -o pipefail; {command}", cwd=tmp_path, env=installed)
    assert "relative error" in run(tmp_path / "demo", env=installed)
    alone = {name: value for name, value in installed.items() if name != "LD_LIBRARY_PATH"}
    assert "relative error" in run(tmp_path / "demo_static", env=alone)


def test_pkg_config_asks_for_no_other_package(installed):
    for words in ([], ["--static"]):
        flags = shlex.split(run("pkg-config", *words, "--cflags", "--libs", "nibble", env=installed))
        assert "-lnibble" in flags
        assert ("-lfmt" in flags) == bool(words)


def test_the_header_is_cpp_too(source_dir, tmp_path):
    (tmp_path / "both.cpp").write_text(
        "#include <nibble/nibble.h>\n"
        "int main() { nibble_moe_desc desc{}; return static_cast<int>(desc.size); }\n")
    run("c++", "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only",
        "-I", source_dir / "include", tmp_path / "both.cpp")


def test_the_library_shows_what_the_header_declares(build_dir, source_dir):
    header = (source_dir / "include/nibble/nibble.h").read_text()
    declared = set(re.findall(r"NIBBLE_API [^;]*?\b(nibble_\w+)\(", header))
    assert len(declared) > 30
    names = run("nm", "-D", "--defined-only", build_dir / "libnibble.so").splitlines()
    shown = {line.split(maxsplit=2)[2] for line in names}
    assert {name for name in shown if not name.startswith("_Z")} == declared


def test_versions(library, source_dir):
    header = (source_dir / "include/nibble/nibble.h").read_text()
    declared = int(re.search(r"#define NIBBLE_ABI_VERSION (\d+)", header)[1])
    assert library.nibble_abi_version() == declared
    version = re.search(r"project\(nibble VERSION (\S+)", (source_dir / "CMakeLists.txt").read_text())
    assert library.nibble_version().decode() == version[1]


def test_a_product_by_hand(library, cpu):
    """Codes 1 and -0.5 in turn, scales 1 and 2, alpha 3; a row of ones and one of 0, 1, 2 .."""
    columns = 32
    # e2m1: 0.5 is 1, 1 is 2; the even column is the low nibble. e4m3: 1 is 0x38, 2 is 0x40.
    codes = ctypes.create_string_buffer(bytes([0x92] * (columns // 2)))
    scales = ctypes.create_string_buffer(bytes([0x38, 0x40]))
    alpha = ctypes.c_float(3)
    weights = sized(GemmWeights, b=address(codes), block_scale_b=address(scales),
                    alpha=ctypes.pointer(alpha))
    desc = sized(GemmDesc, out_dtype=FP32, n=1, k=columns)
    gemm = ctypes.c_void_p()
    assert library.nibble_cpu_gemm_create(cpu, ctypes.byref(desc), ctypes.byref(weights),
                                          ctypes.byref(gemm)) == NIBBLE_OK
    rows = [[1.0] * columns, [float(column) for column in range(columns)]]
    values = [1.0, -0.5] * (columns // 2)
    expected = [3 * sum(x * w * (1 if at < 16 else 2) for at, (x, w) in enumerate(zip(row, values)))
                for row in rows]
    a = ctypes.create_string_buffer(struct.pack(f"<{2 * columns}f", *rows[0], *rows[1]))
    out = (ctypes.c_float * 2)()
    args = sized(GemmArgs, a_dtype=FP32, rows=2, a=address(a), out=address(out))
    assert library.nibble_cpu_gemm_run(gemm, ctypes.byref(args)) == NIBBLE_OK
    library.nibble_cpu_gemm_destroy(gemm)
    # 31 x 2^-15 of each of 32 values, times weights up to 2 and alpha
    assert list(out) == pytest.approx(expected, abs=31 * 2**-15 * 32 * 2 * 3)
    assert expected[0] == 36  # 3 x (8 - 4 + 2 x (8 - 4)), and not some zero


def test_errors_are_codes_with_a_sentence_of_the_thread(library):
    device = ctypes.c_void_p()
    assert library.nibble_cpu_open(-5, ctypes.byref(device)) == INVALID_ARGUMENT
    assert library.nibble_last_error() == b"threads is -5; give 0 to 1024"
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(library.nibble_last_error()))
    thread.start()
    thread.join()
    assert elsewhere == [b""]
    assert library.nibble_device_open(10_000, ctypes.byref(device)) == NO_DEVICE
    assert b"GPU" in library.nibble_last_error() and not device


def test_a_size_that_cuts_a_field(library, cpu):
    """12 is 8 and half of an address."""
    desc = sized(GemmDesc, out_dtype=FP32, n=1, k=16)
    codes = ctypes.create_string_buffer(8)
    weights = GemmWeights(size=12, b=address(codes))
    gemm = ctypes.c_void_p()
    assert library.nibble_cpu_gemm_create(cpu, ctypes.byref(desc), ctypes.byref(weights),
                                          ctypes.byref(gemm)) == INVALID_ARGUMENT
    assert library.nibble_last_error() == (
        b"weights->size is 12, which ends inside of b (bytes 8 to 15); set it to the size of the "
        b"struct")


PROGRAM_OF_AN_ENGINE = """
    import ctypes, os, resource, signal, sys
    library = ctypes.CDLL(sys.argv[1])
    library.nibble_last_error.restype = ctypes.c_char_p
    device = ctypes.c_void_p()
"""


def python(build_dir, program, **options):
    words = textwrap.dedent(PROGRAM_OF_AN_ENGINE) + textwrap.dedent(program)
    return run(sys.executable, "-c", words, build_dir / "libnibble.so", **options)


def test_a_worker_that_was_forked_is_told(build_dir):
    """As multiprocessing's does: it ends, and at its end destroys what it was born with."""
    shown = python(build_dir, """
        assert library.nibble_cpu_open(2, ctypes.byref(device)) == 0
        class Struct(ctypes.Structure):
            _fields_ = [("words", ctypes.c_uint64 * 5)]
        codes, scales = ctypes.create_string_buffer(8), ctypes.create_string_buffer(b"8")
        # Two words of 32 bits in one of 64: size and format; out_dtype and experts; n, k.
        desc = Struct((40, 2, 1, 16, 0))
        weights = Struct((32, ctypes.addressof(codes), ctypes.addressof(scales), 0, 0))
        gemm = ctypes.c_void_p()
        def create():
            return library.nibble_cpu_gemm_create(device, ctypes.byref(desc), ctypes.byref(weights),
                                                  ctypes.byref(gemm))
        assert create() == 0, library.nibble_last_error()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            status = create()
            print(status, library.nibble_last_error().decode(), flush=True)
            library.nibble_device_close(device)
            os._exit(0)
        print(os.waitpid(child, 0)[1], os.getpid(), child)
    """)
    refused, ended = shown.splitlines()
    status, parent, child = ended.split()
    assert status == "0", shown
    assert refused == (f"{INVALID_ARGUMENT} the device was opened in process {parent}, and this is "
                       f"{child}, which has none of its threads; open one after the fork")


def test_threads_that_the_system_does_not_give(build_dir):
    shown = python(build_dir, """
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        print(library.nibble_cpu_open(1024, ctypes.byref(device)), device.value,
              library.nibble_last_error().decode())
    """)
    assert re.fullmatch(rf"{RUN_FAILED} None 1024 threads of the CPU do not start \(.+\); ask "
                        r"nibble_cpu_open\(\) for fewer, or .*\n", shown), shown


def test_sizes_of_scales(library):
    assert library.nibble_swizzled_bytes(129, 5) == 2 * 2 * 512
    assert library.nibble_swizzled_bytes(-1, 5) == 0
