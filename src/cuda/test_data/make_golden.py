#!/usr/bin/env python3
"""Makes golden_sm_*.cubin and golden_sm_*.log beside itself from golden.cu, by NVRTC.

    python3 src/cuda/test_data/make_golden.py [path of libnvrtc.so]
"""

import ctypes
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent


def get_bytes(nvrtc, program, what):
    size = ctypes.c_size_t()
    assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    data = ctypes.create_string_buffer(size.value)
    assert getattr(nvrtc, f"nvrtcGet{what}")(program, data) == 0
    return data.raw


def main():
    nvrtc = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libnvrtc.so.13")
    source = (FOLDER / "golden.cu").read_bytes()
    for arch in ("sm_80", "sm_90a"):
        program = ctypes.c_void_p()
        assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"golden.cu", 0, None, None) == 0
        options = [f"--gpu-architecture={arch}".encode(), b"--ptxas-options=-v"]
        argv = (ctypes.c_char_p * len(options))(*options)
        assert nvrtc.nvrtcCompileProgram(program, len(options), argv) == 0
        (FOLDER / f"golden_{arch}.cubin").write_bytes(get_bytes(nvrtc, program, "CUBIN"))
        log = get_bytes(nvrtc, program, "ProgramLog").rstrip(b"\0")
        lines = [line for line in log.splitlines() if b"Compile time" not in line]
        (FOLDER / f"golden_{arch}.log").write_bytes(b"\n".join(lines) + b"\n")


if __name__ == "__main__":
    main()
