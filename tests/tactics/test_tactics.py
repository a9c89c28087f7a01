"""nibble tactics: one list, a chip's answer, its reasons and byte budgets, without a GPU."""
import json
import re

import jsonschema
import pytest

GLM = ("--model", "glm-5-nvfp4", "--tp", "8")
PRO = ("--machine", "rtx-pro-6000-server")
# One product of GLM-5 at TP8, so that a run compiles each tactic once.
DOWN = ("--op", "gemm", "--experts", "256", "--n", "6144", "--k", "256")


@pytest.fixture(scope="module")
def validator(source_dir):
    schema = json.loads((source_dir / "docs/schemas/nibble.tactics.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(scope="module")
def has_nvrtc(nibble):
    libraries = {entry["name"]: entry for entry in json.loads(nibble("doctor", "--json").stdout)["libraries"]}
    return bool(libraries["NVRTC"]["path"])


@pytest.fixture(scope="module")
def document(nibble, validator):
    def run(*words):
        result = nibble("tactics", *words, "--json")
        assert result.returncode == 0, result.stderr
        found = json.loads(result.stdout)
        validator.validate(found)
        return found

    return run


def names(found, feasible=True):
    return {(entry["op"], entry["name"]) for entry in found["tactics"] if entry["feasible"] == feasible}


def tile_of(entry):
    return entry["tile"]["m"], entry["tile"]["n"], entry["tile"]["k"]


@pytest.mark.parametrize("words", [
    (*PRO, *GLM, "--op", "moe", "--arch", "sm_120a"),
    ("--arch", "sm_120a"),
    ("--arch", "sm_80", "--op", "gemm"),
    ("--machine", "b200", *GLM, "--family", "w4a16"),
    ("--machine", "h200", "--model", "gpt-oss-120b", "--tp", "2"),
    ("--machine", "gb10", "--model", "glm-5-nvfp4", "--tp", "4", "--dp", "2", "--ep", "8"),
    (*PRO, "--n", "640", "--k", "2560", "--experts", "512", "--format", "mxfp4"),
    (*PRO, "--model", "deepseek-r1-nvfp4", "--tp", "8", "--op", "gemm"),
    (*PRO, "--explain", "128x256x128"),
    ("--arch", "sm_100a", "--explain", "128x64x128", "--family", "w4a16"),
])
def test_documents_are_valid_and_add_up(document, words):
    found = document(*words, "--no-compile")
    assert found["tactics"] and found["compiled"] is False
    for entry in found["tactics"]:
        parts = entry["shared_parts"]
        stage = parts["m_per_stage"] + parts["n_per_stage"] + parts["scales_per_stage"]
        rest = parts["barriers"] + parts["rows"] + parts["tables"] + parts["epilogue"]
        assert stage * parts["stages"] + rest == entry["shared_bytes"]
        assert entry["registers"] is None and entry["registers_reason"].startswith("not compiled: ")
        assert entry["compiled"] is False
        blocks = entry["blocks"]
        assert entry["blocks_per_sm"] == min(blocks["by_shared"], blocks["by_threads"], blocks["by_blocks"])
        if entry["feasible"]:
            assert entry["shared_bytes"] <= found["limits"]["shared_per_block_bytes"]
            assert entry["blocks_per_sm"] >= entry["wanted_blocks_per_sm"]
    for row in found["summary"]:
        of_row = [entry for entry in found["tactics"] if (entry["op"], entry["family"]) == (row["op"], row["family"])]
        fitting = [entry for entry in of_row if entry["feasible"]]
        assert (row["tactics"], row["feasible"]) == (len(of_row), len(fitting))
        assert row["compiled"] is False
        assert row["distinct_tiles"] == len({(*tile_of(entry), entry["way"]) for entry in fitting})


def test_products_of_a_rank(document):
    # 256 experts of 2,048 rows over 8 ranks: gate and up are 2 x 256 rows.
    found = document(*PRO, *GLM, "--no-compile")
    assert [(p["op"], p["experts"], p["n"], p["k"], p["gated"]) for p in found["products"]] == [
        ("moe.gate_up", 256, 512, 6144, True), ("moe.down", 256, 6144, 256, False)]
    assert found["products"] == document(*PRO, "--no-compile")["products"]  # the default
    # Split by experts: 256 / 8 whole ones a rank.
    whole = document(*PRO, *GLM, "--ep", "8", "--no-compile")["products"]
    assert [(p["experts"], p["n"], p["k"]) for p in whole] == [(32, 4096, 6144), (32, 6144, 2048)]


def test_the_other_matrices_of_a_model(document):
    found = document(*PRO, "--model", "qwen3-30b-a3b-nvfp4", "--op", "gemm", "--no-compile")
    ops = [p["op"] for p in found["products"]]
    assert ops and len(set(ops)) == len(ops) and not [op for op in ops if op.startswith("moe.")]
    assert {p["experts"] for p in found["products"]} == {1}


def test_two_chips_two_answers(document):
    pro = document(*PRO, *GLM, "--no-compile")
    b200 = document("--machine", "b200", *GLM, "--no-compile")
    assert names(pro) | names(pro, False) == names(b200) | names(b200, False)
    assert names(pro) - names(b200)  # the FP4 instruction
    assert names(b200) - names(pro)  # shared memory
    for entry in b200["tactics"]:
        if entry["family"] == "w4a4":
            assert entry["limit"] == "architecture" and "tcgen05" in entry["reason"]
    limits = {entry["limit"] for entry in pro["tactics"]}
    assert {"architecture", "per_block", None} <= limits


def test_columns_that_are_no_whole_blocks(document):
    found = document(*PRO, "--op", "gemm", "--n", "6144", "--k", "180", "--family", "w4a4", "--no-compile")
    for entry in found["tactics"]:
        assert entry["limit"] == "divisibility"
        assert "180 columns are not whole blocks of 16" in entry["reason"]


def test_sm120_has_24_distinct_tiles_that_do_not_spill(document, has_nvrtc):
    if not has_nvrtc:
        pytest.skip("no NVRTC here: registers and spills are not known")
    found = document("--arch", "sm_120a", *DOWN, "--family", "w4a4")
    fitting = [entry for entry in found["tactics"] if entry["feasible"]]
    assert len({(*tile_of(entry), entry["way"]) for entry in fitting}) >= 24
    for entry in fitting:
        assert (entry["spill_bytes"], entry["stack_bytes"]) == (0, 0), entry["name"]
        assert 0 < entry["registers"] <= 255
        assert entry["blocks"]["by_registers"] >= entry["wanted_blocks_per_sm"], entry["name"]
        assert entry["shared_bytes"] <= 101376
    by_tile = {(*tile_of(entry), entry["way"]): entry for entry in fitting}
    # 3 x (8,192 + 16,384 + 384 x 8) + 3 x 16 + 2 x 4 x tokens + 2 x 4 x 257
    assert by_tile[128, 256, 128, "tokens_on_m"]["shared_bytes"] == 82944 + 48 + 1024 + 2056
    assert by_tile[256, 128, 128, "tokens_on_m"]["shared_bytes"] == 82944 + 48 + 2048 + 2056


def test_registers_or_the_reason(document, has_nvrtc):
    (entry,) = document(*PRO, *DOWN, "--explain", "128x256x128", "--family", "w4a4")["tactics"]
    assert entry["feasible"]
    assert entry["compiled"] == has_nvrtc
    if has_nvrtc:
        assert entry["registers"] > 0 and entry["registers_reason"] is None
    else:
        assert entry["registers"] is None and "NVRTC" in entry["registers_reason"]


@pytest.mark.parametrize("per_block,fits", [(101375, False), (101376, True), (101377, True), (102400, True)])
def test_one_byte_decides(nibble, document, tmp_path, per_block, fits):
    words = ("analyze", *GLM, *PRO, "--json")
    machine = json.loads(nibble(*words).stdout)["machine"]
    machine["name"] = "edge"
    machine["shared_per_block_bytes"] = {"value": per_block, "is": "given", "source": "the test"}
    machine["shared_per_sm_bytes"] = {"value": 110000, "is": "given", "source": "the test"}
    path = tmp_path / "edge.json"
    path.write_text(json.dumps(machine))
    # Tables of 2,169 experts: 84,016 + 8 x 2,170 = 101,376 B for the tile with three stages.
    found = document("--machine", str(path), "--op", "gemm", "--experts", "2169", "--n", "6144", "--k", "256",
                     "--explain", "128x256x128", "--family", "w4a4", "--no-compile")
    (entry,) = found["tactics"]
    assert entry["shared_bytes"] == 101376
    assert entry["feasible"] == fits
    if not fits:
        assert entry["limit"] == "per_block"
        assert entry["reason"] == "a block takes 101,376 B of shared memory and may have 101,375: 1 B too many"
        assert entry["remedies"] == ["2 stages (73,712 B)"]  # 101,376 - 27,648 - 16


def test_the_same_tile_does_not_fit_beside_larger_tables(document):
    words = (*PRO, "--op", "gemm", "--n", "6144", "--k", "256", "--explain", "128x256x128", "--family", "w4a4",
             "--no-compile", "--experts")
    assert document(*words, "2169")["tactics"][0]["feasible"]
    (entry,) = document(*words, "2297")["tactics"]
    assert entry["reason"] == "a block takes 102,400 B of shared memory and may have 101,376: 1,024 B too many"


def test_explain_shows_the_budget(nibble):
    result = nibble("tactics", *PRO, "--explain", "128x256x128", "--no-compile")
    assert result.returncode == 0, result.stderr
    for line in [r"codes of M +8,192 +a stage +128 x 128 / 2", r"codes of N +16,384 +a stage +256 x 128 / 2",
                 r"scales +3,072 +a stage +\(128 \+ 256\) x 128 / 16", r"barriers +16 +a stage",
                 r"tables of experts +2,056 +a block", r" 3 +82,992 +86,072 +15,304 +1",
                 r" 4 +110,656 +113,736 +-12,360 +0 +does not fit", r"grouped +3 .* 98,304 +fits",
                 r"CUTLASS main, EpilogueAuto, bf16 C/D", r"Bytes do not tell registers and spills",
                 r"grouped +3 .* 98,304 +fits by bytes +168 +208 B", r"dense +3 .* 97,280 +fits by bytes +- +-"]:
        assert re.search(line, result.stdout), line


def test_the_table(nibble, has_nvrtc):
    result = nibble("tactics", *PRO, *GLM, "--no-compile")
    lines = result.stdout.splitlines()
    verdicts = [line.split("  ")[0] for line in lines if re.match(r"(fits|no: ).*(w4a4|mma|wgmma) ", line)]
    assert verdicts[0] == "fits by bytes"
    # Within a table the feasible ones stand first: four tables, so at most three turns back.
    turns = sum(1 for one, two in zip(verdicts, verdicts[1:]) if one.startswith("no") and two.startswith("fits"))
    assert turns <= 3
    assert "it fits with K = 128 (58,408 B)" in result.stdout
    assert re.search(r"\d+ of \d+ fit by bytes, \d+ of them distinct in M, N, K and the way round", result.stdout)
    assert not re.search(r"\d+ of \d+ feasible", result.stdout)  # nothing was compiled
    # Each number of bytes has its unit.
    assert re.search(r"fits by bytes +27,648 B +3,072 B +3 +0 B +86,072 B +- ", result.stdout)
    assert "6 tactics: wgmma is an instruction of sm_90a alone, and this is sm_120a" in result.stdout


def test_no_feasible_tactic_is_said(nibble):
    result = nibble("tactics", "--machine", "b200", *GLM, "--family", "w4a4", "--no-compile")
    assert result.returncode == 0
    assert "No tactic is feasible of" in result.stdout


@pytest.mark.parametrize("words", [(), ("--explain", "128x256x128")])
def test_a_narrow_terminal(nibble_in_terminal, words):
    status, shown = nibble_in_terminal("tactics", *PRO, *GLM, "--no-compile", *words, width=80)
    assert status == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(len(line) for line in plain.splitlines()) <= 80


def test_cutlass_names_a_tile_by_bytes_of_k(document, nibble):
    words = (*PRO, "--family", "w4a4", "--no-compile", "--explain")
    found = document(*words, "128x256x64B")
    assert found["explained"]["tile"] == {"m": 128, "n": 256, "k": 128}
    assert found["explained"] == document(*words, "128x256x128")["explained"]
    assert any("128x256x64B" in note and "128x256x128" in note for note in found["notes"])
    (grouped, dense) = found["explained"]["cutlass"]
    assert (grouped["registers"], grouped["spill_bytes"]) == (168, 208)
    assert (dense["registers"], dense["spill_bytes"]) == (None, None)


def test_a_narrow_terminal_keeps_what_compiling_tells(nibble_in_terminal):
    words = ("tactics", *PRO, *GLM, "--no-compile", "--family", "w4a4")
    status, shown = nibble_in_terminal(*words, width=80)
    assert status == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert re.search(r"verdict +stages +shared +regs +spills +blocks +tile", plain), plain
    assert re.search(r"fits by bytes +3 +86,072 B +- +- +1 +tokens 128x256x128", plain), plain


def test_sizes_that_were_given_are_not_cut_by_tp(nibble):
    result = nibble("tactics", *PRO, "--n", "100", "--k", "100", "--no-compile")
    assert "take K = 96 or 112" in result.stdout
    assert "tensor-parallel" not in result.stdout


@pytest.mark.parametrize("words,parts", [
    ((), ("--arch and --machine are missing",)),
    (("--arch", "blackwell"), ("--arch", '"blackwell"', "sm_120a")),
    (("--arch", "sm_75"), ("sm_75", "sm_80")),
    (("--arch", "compute_90"), ("compute_90", "PTX", "sm_90")),
    (("--arch", "sm_90a", *PRO), ("--arch sm_90a", "--machine rtx-pro-6000-server", "sm_120")),
    (("--machine", "mi300x"), ("mi300x", "gfx942", "NVIDIA", "--arch sm_120a")),
    (("--machine", "rtx-pro-6000"), ("rtx-pro-6000-server",)),
    ((*PRO, "--model", "no-such-model"), ("no-such-model",)),
    ((*PRO, "--tp", "8"), ("--tp", "--model")),
    ((*PRO, "--model", "glm-5-nvfp4", "--tp", "7"), ("7", "--tp 1, 2, 4, 8, 16, 32, 64 can be had")),
    ((*PRO, "--model", "glm-5-nvfp4", "--tp", "3", "--dp", "2"), ("--tp 3", "--tp 1, 2, 4")),
    ((*PRO, "--model", "glm-5-nvfp4", "--n", "64"), ("--n", "--model")),
    ((*PRO, "--op", "attention"), ("--op", "moe")),
    ((*PRO, "--n", "0"), ("--n", '"0"')),
    ((*PRO, "--experts", "5000"), ("--experts", "4096")),
    ((*PRO, "--format", "fp8"), ("--format", "nvfp4")),
    ((*PRO, "--family", "w8a8"), ("--family", "w4a16")),
    ((*PRO, "--explain", "128x256"), ("--explain", '"128x256"', "128x256x128")),
    ((*PRO, "--explain", "128x256xB"), ("--explain", '"128x256xB"', "128x256x64B")),
    ((*PRO, "--explain", "100x256x128"), ("--explain 100x256x128", "steps of 16")),
    ((*PRO, "--threads", "0"), ("--threads",)),
    ((*PRO, "--from-log", "x.log", "--family", "w4a4"), ("--family", "--from-log")),
])
def test_faults(nibble, words, parts):
    result = nibble("tactics", *words)
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stdout == ""
    assert re.fullmatch(r"nibble: .*\n", result.stderr), result.stderr
    for part in parts:
        assert part in result.stderr, result.stderr


def test_a_model_without_4_bit_experts(nibble, document):
    result = nibble("tactics", *PRO, "--model", "gpt-oss-120b", "--op", "gemm", "--no-compile")
    assert result.returncode == 2
    assert "no matrices with 4-bit weights" in result.stderr
    found = document(*PRO, "--model", "gpt-oss-120b", "--no-compile")
    assert {(p["format"], p["bias"]) for p in found["products"]} == {("mxfp4", True)}
