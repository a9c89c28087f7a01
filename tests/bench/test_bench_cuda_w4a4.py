"""nibble bench moe|gemm --on cuda:N with 4-bit activations, without a GPU: options, refusals, compiling ahead.

The stand-in of the driver (src/bench/fake_cuda.c) says what GPU is there and runs no kernel.
"""
import json
import re

import pytest

from conftest import environment

LAYER = ("moe", "--on", "cuda:0", "--experts", "8", "--top-k", "2", "--n", "128", "--k", "256", "--tokens", "4")


@pytest.fixture
def bench(nibble, build_dir, tmp_path):
    def run(*words, fake=False, **changes):
        folder = {"LD_LIBRARY_PATH": str(build_dir / "fake_gpu")} if fake else {}
        return nibble("bench", *words, env=environment(XDG_CACHE_HOME=str(tmp_path), **folder, **changes))

    return run


def assert_sentence(result, status, *parts):
    assert result.returncode == status, result.stdout + result.stderr
    assert result.stdout == ""
    assert re.fullmatch(r"nibble: .*\n", result.stderr), result.stderr
    for part in parts:
        assert part in result.stderr


@pytest.mark.parametrize("words,parts", [
    (("moe", "--on", "cuda:0", "--activations", "nvfp4", "--k", "6150"), ("6150 columns", "blocks of 16")),
    (("moe", "--on", "cuda:0", "--activations", "nvfp4", "--n", "2040"), ("2040 columns", "blocks of 16")),
    (("gemm", "--on", "cuda:0", "--activations", "nvfp4", "--k", "72"), ("72 columns", "blocks of 16")),
    (("gemm", "--on", "cuda:0", "--format", "mxfp4", "--activations", "mxfp4", "--k", "80"),
     ("80 columns", "blocks of 32")),
    (("moe", "--on", "cuda:0", "--activations", "mxfp4"), ("mxfp4 activations want mxfp4 weights", "nvfp4")),
    (("moe", "--on", "cuda:0", "--model", "gpt-oss-120b", "--activations", "nvfp4"), ("nvfp4 weights", "mxfp4")),
    (("gemm", "--activations", "mxfp4"), ("mxfp4", "--on cuda:N")),
    (("step", "--activations", "mxfp4"), ("mxfp4", "--on cuda:N")),
    (("moe", "--check-only"), ("--check-only", "does not apply")),
    (("roof", "--on", "cuda:0", "--check-only"), ("--check-only", "roof")),
])
def test_faults(bench, words, parts):
    assert_sentence(bench(*words), 2, *parts)


@pytest.mark.parametrize("more", [(), ("--check-only",)])
def test_without_a_gpu_one_sentence(bench, nibble, more):
    if json.loads(nibble("doctor", "--json").stdout)["gpus"]:
        pytest.skip("this machine has a GPU")
    assert_sentence(bench(*LAYER, "--activations", "nvfp4", *more), 1, "CUDA driver", "GPU")


@pytest.mark.parametrize("words", [
    LAYER, ("gemm", "--on", "cuda:0", "--n", "64", "--k", "64"),
    ("moe", "--on", "cuda:0", "--model", "glm-5-nvfp4", "--tp", "8")])
def test_the_software_body_is_not_timed(bench, words):
    result = bench(*words, "--activations", "nvfp4", fake=True)
    assert_sentence(result, 1, "(NVIDIA H200, sm_90a)", "no FP4 matrix instruction", "software body",
                    "--activations bf16", "--check-only")


def test_other_wishes_are_not_refused_for_it(bench):
    """The stand-in loads no kernel, which is another sentence: with the instruction, with --check-only, with W4A16."""
    for words, changes in [(("--activations", "nvfp4"), {"FAKE_CUDA_SM120": "1"}),
                           (("--activations", "nvfp4", "--check-only"), {}), ((), {})]:
        result = bench(*LAYER, *words, fake=True, **changes)
        assert result.returncode == 1 and result.stdout == ""
        assert "software body" not in result.stderr and "FP4" not in result.stderr, result.stderr


@pytest.mark.parametrize("words,programs", [
    # Probes, prepacking; what stands around the products, tokens and slots to codes, two products.
    ((*LAYER, "--activations", "nvfp4"), 7),
    # Tokens to codes, one product.
    (("gemm", "--on", "cuda:0", "--n", "64", "--k", "96", "--tokens", "8", "--format", "mxfp4",
      "--activations", "mxfp4"), 4),
])
def test_compiling_ahead_for_the_instruction(bench, nibble, words, programs):
    first = bench(*words, "--compile-for", "sm_120a")
    libraries = {entry["name"]: entry for entry in json.loads(nibble("doctor", "--json").stdout)["libraries"]}
    if not libraries["NVRTC"]["path"]:
        assert_sentence(first, 1, "NVRTC")
        pytest.skip("no NVRTC here: the sentence was checked")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith(f"{programs} programs for sm_120a, 0 of them from the cache")
    again = bench(*words, "--compile-for", "sm_120a").stdout
    assert again.startswith(f"{programs} programs for sm_120a, {programs} of them from the cache")


def test_an_architecture_without_the_instruction_is_named(bench):
    result = bench(*LAYER, "--activations", "nvfp4", "--compile-for", "sm_120")
    assert_sentence(result, 2, '"sm_120"', "without a suffix has no block-scaled FP4 mma", "compile for sm_120a")


def test_the_software_body_may_spill(bench, nibble):
    """It is there to be checked: that it spills is told with the programs' names, and is no failure."""
    result = bench("moe", "--on", "cuda:0", "--model", "glm-5-nvfp4", "--tp", "8", "--tokens", "1,64", "--activations",
                   "nvfp4", "--compile-for", "sm_90a")
    libraries = {entry["name"]: entry for entry in json.loads(nibble("doctor", "--json").stdout)["libraries"]}
    if not libraries["NVRTC"]["path"]:
        assert_sentence(result, 1, "NVRTC")
        pytest.skip("no NVRTC here: the sentence was checked")
    assert result.returncode == 0, result.stderr
    first, *more = result.stdout.splitlines()
    assert re.fullmatch(r"\d+ programs for sm_90a, \d+ of them from the cache", first)
    assert len(more) == 1
    said = re.fullmatch(r"(\d+) of them spill registers, which is no fault of the software body .*: (.*)", more[0])
    programs = said[2].split("; ")
    assert len(set(programs)) == int(said[1]) and all("w4a4" in program for program in programs)


# As nibble tune writes it, without entries: H200s have 132 units, and so has the stand-in.
TUNING = {"schema": "nibble.tuning/1", "version": "0.1", "command": "nibble tune", "compiler": "NVRTC 13.0",
          "began_unix_s": 90, "taken_unix_s": 100, "entries": [],
          "site": {"device": "NVIDIA H200", "units": 132, "driver": "CUDA 13.0", "kernel_version": "abc"}}


@pytest.mark.parametrize("activations", ["bf16", "nvfp4"])
@pytest.mark.parametrize("text,part", [
    (None, "no such tuning file"), ("{", "line 1"), ("[]", "is no tuning file"),
    ('{"schema": "nibble.tuning/2"}', "reads nibble.tuning/1"),
    ('{"schema": "nibble.tuning/1"}', "version")])
def test_a_tuning_file_that_cannot_be_read(bench, tmp_path, activations, text, part):
    """Before the GPU is looked for: this runs where there is none."""
    file = tmp_path / "tuning.json"
    if text is not None:
        file.write_text(text)
    result = bench(*LAYER, "--activations", activations, "--tuning", str(file))
    assert_sentence(result, 2, str(file), part)


@pytest.mark.parametrize("activations", ["bf16", "nvfp4"])
def test_a_tuning_file_of_another_device(bench, tmp_path, activations):
    """Said with both devices, before a kernel is loaded; one of this device gets as far as the stand-in goes."""
    words = (*LAYER, "--activations", activations, "--tuning")
    file = tmp_path / "tuning.json"
    file.write_text(json.dumps(TUNING))
    result = bench(*words, str(file), fake=True, FAKE_CUDA_SM120="1")
    assert_sentence(result, 2, str(file), "made on NVIDIA H200 with 132 units", "this is NVIDIA RTX PRO 6000 with 132")
    file.write_text(json.dumps(TUNING | {"site": TUNING["site"] | {"device": "NVIDIA RTX PRO 6000"}}))
    result = bench(*words, str(file), fake=True, FAKE_CUDA_SM120="1")
    assert_sentence(result, 1)
    assert "tuning" not in result.stderr
