"""nibble bench --on cuda:N without a GPU, and --import: sentences, documents, and what reads them."""
import json
import re

import jsonschema
import pytest

from conftest import environment

HEADER = ("routine,median_time,std_time,tflops,tb_per_sec,backend,resolved_backend,n,use_nvfp4,num_tokens,"
          "intermediate_size,num_experts,top_k,hidden_size,m,k")
ROWS = ["mm_fp4,0.020,0.001,644.2,1.5,cudnn,,4096,True,,,,,,128,6144",
        "trtllm_fp4_block_scale_moe,0.5,0.01,300,2.5,trtllm,,,,64,2048,256,8,6144,,",
        "rmsnorm,0.1,0.01,1,1,cuda,,,,,,,,,,"]


@pytest.fixture
def bench(nibble, tmp_path):
    def run(*words):
        return nibble("bench", *words, env=environment(XDG_CACHE_HOME=str(tmp_path)))

    return run


@pytest.fixture
def results(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


def assert_sentence(result, status, *parts):
    assert result.returncode == status, result.stdout
    assert result.stdout == ""
    assert re.fullmatch(r"nibble: .*\n", result.stderr), result.stderr
    for part in parts:
        assert part in result.stderr


@pytest.mark.parametrize("words", [
    ("roof",), ("gemm", "--n", "64", "--k", "64"), ("moe", "--set", "predicted"),
    ("moe", "--model", "glm-5-nvfp4", "--tp", "8", "--tokens-per-expert", "1,8", "--routing", "balanced"),
    ("gemm", "--model", "gpt-oss-120b", "--tokens", "1"),
])
def test_without_a_gpu_one_sentence(bench, nibble, words):
    if json.loads(nibble("doctor", "--json").stdout)["gpus"]:
        pytest.skip("this machine has a GPU")
    result = bench(*words, "--on", "cuda:0")
    assert_sentence(result, 1, "CUDA driver", "GPU")


@pytest.mark.parametrize("words,parts", [
    (("moe", "--on", "gpu"), ("--on", '"gpu"', "cuda:N")),
    (("moe", "--on", "cuda:x"), ('"cuda:x"',)),
    (("moe", "--on", "cuda:0", "--routing", "zipf"), ("--routing", "zipf:S")),
    (("moe", "--on", "cuda:0", "--threads", "2"), ("--threads", "on a GPU")),
    (("moe", "--on", "cuda:0", "--csv"), ("--csv", "on a GPU")),
    (("moe", "--routing", "random"), ("--routing", "does not apply")),
    (("moe", "--on", "cpu", "--set", "predicted"), ("--set", "needs --on cuda:N")),
    (("moe", "--routing", "balanced"), ("--routing", "needs --on cuda:N")),
    (("moe", "--tokens-per-expert", "1"), ("--tokens-per-expert", "needs --on cuda:N")),
    (("gemm", "--compile-for", "sm_90a"), ("--compile-for needs --on cuda:N", "no GPU need be there")),
    (("--compile-for", "sm_90a"), ("needs moe or gemm with --on cuda:N", "no GPU need be there")),
    (("--on", "cuda:0"), ("roof, gemm or moe",)),
    (("moe", "--on", "cuda:0", "--compile-for", "sm_90a", "--check-only"), ("--check-only", "beside --compile-for")),
    (("moe", "--on", "cuda:0", "--compile-for", "sm_90a", "--json"), ("--json", "beside --compile-for")),
    (("moe", "--on", "cuda:0", "--routing", "/etc/hostname"), ("/etc/hostname", "nibble tune takes recorded counts")),
    (("moe", "--on", "cuda:0", "--set", "predicted", "--n", "5"), ("--n", "--set")),
    (("moe", "--on", "cuda:0", "--set", "other"), ("--set", "predicted")),
    (("moe", "--on", "cuda:0", "--tokens", "1", "--tokens-per-expert", "1"), ("--tokens-per-expert",)),
    (("moe", "--on", "cuda:0", "--tokens-per-expert", "1", "--experts", "7", "--top-k", "2"), ("7 experts",)),
    (("moe", "--on", "cuda:0", "--activations", "int8"), ("int8", "bf16 or fp16, nvfp4 or mxfp4")),
    (("moe", "--on", "cuda:0", "--format", "bf16"), ("nvfp4 or mxfp4",)),
    (("moe", "--on", "cuda:0", "--n", "63"), ("even",)),
    (("moe", "--on", "cuda:0", "--top-k", "9", "--experts", "4"), ("--top-k is 9",)),
    (("moe", "--on", "cuda:0", "--tp", "8"), ("--tp", "--model")),
    (("moe", "--on", "cuda:0", "--hot", "--cold"), ("--hot", "--cold")),
    (("gemm", "--activations", "fp16"), ("fp16", "--on cuda:N")),
    (("roof", "--on", "cuda:0", "--hot"), ("--hot", "roof")),
    (("step", "--on", "cuda:0"), ("--on", "step")),
])
def test_faults(bench, words, parts):
    assert_sentence(bench(*words), 2, *parts)


def test_imported_rows_are_a_document(bench, results, source_dir):
    result = bench("--import", str(results), "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    schema = json.loads((source_dir / "docs/schemas/nibble.bench.1.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    product, layer = document["rows"]
    assert (product["kernel"], product["time_us"]) == ("flashinfer mm_fp4 cudnn", 20)
    assert (product["n"], product["k"], product["tokens"]) == (4096, 6144, 128)
    assert product["reached_tops"] == pytest.approx(644.2)
    assert (layer["kind"], layer["experts"], layer["n"], layer["k"]) == ("moe", 256, 2048, 6144)
    assert layer["floor_us"] is None and layer["roof_share"] is None
    assert document["notes"] == ["1 row of rmsnorm left out: no product or layer of experts"]


def test_imported_rows_stand_in_analyze_and_diagnose(bench, nibble, results, tmp_path):
    path = tmp_path / "imported.json"
    path.write_text(bench("--import", str(results), "--json").stdout)
    result = nibble("analyze", "--model", "glm-5-nvfp4", "--tp", "8", "--machine", "h200", "--concurrency", "1",
                    "--kernels", str(path), "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["kernels"]["machine"].startswith("unknown: imported")


def test_imported_rows_are_a_table(bench, results):
    result = bench("--import", str(results))
    assert result.returncode == 0, result.stderr
    assert re.search(r"gemm +\[4096,6144\] +nvfp4 x nvfp4 +128 .*20\.00 us", result.stdout)
    assert "rmsnorm left out" in result.stdout


@pytest.mark.parametrize("text,parts", [
    ("", ("is empty",)),
    ("a,b\n1,2\n", ('no column "routine"', "flashinfer_benchmark.py")),
    (HEADER + "\nmm_fp4,1\n", ("row 1 has 2 cells",)),
    (HEADER + "\n" + ROWS[0].replace("0.020", "quick"), ("row 1", "quick", "no number")),
    (HEADER + '\n"mm_fp4,1', ("quote that line 2 opens",)),
])
def test_malformed_files_are_one_sentence(bench, tmp_path, text, parts):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert_sentence(bench("--import", str(path)), 2, "bad.csv", *parts)


def test_import_stands_alone(bench, results):
    assert_sentence(bench("gemm", "--import", str(results)), 2, "gemm", "--import")
    assert_sentence(bench("--import", str(results), "--seconds", "1"), 2, "--seconds")
    assert_sentence(bench("--import", str(results.parent / "none.csv")), 2, "none.csv")


@pytest.mark.parametrize("words,parts", [
    (("--compile-for", "sm_55"), ("sm_55", "sm_90a")),
    (("--compile-for", "x"), ('"x"',)),
])
def test_architectures_that_are_none(bench, words, parts):
    assert_sentence(bench("moe", "--on", "cuda:0", *words), 2, "--compile-for", *parts)


def test_compiling_ahead_needs_no_gpu(bench, nibble):
    words = ("moe", "--on", "cuda:0", "--experts", "8", "--top-k", "2", "--n", "128", "--k", "256", "--tokens", "4",
             "--compile-for", "sm_90a")
    first = bench(*words)
    libraries = {entry["name"]: entry for entry in json.loads(nibble("doctor", "--json").stdout)["libraries"]}
    if not libraries["NVRTC"]["path"]:
        assert_sentence(first, 1, "NVRTC")
        pytest.skip("no NVRTC here: the sentence was checked")
    assert first.returncode == 0, first.stderr
    # Probes, prepacking, what stands around the products, the two products, and the layer in one launch.
    assert first.stdout.startswith("6 programs for sm_90a, 0 of them from the cache")
    assert bench(*words).stdout.startswith("6 programs for sm_90a, 6 of them from the cache")
    steps = bench(*words, "--launches", "steps")
    assert steps.stdout.startswith("5 programs for sm_90a, 5 of them from the cache")
    assert bench(*words, "--launches", "two").returncode == 2
