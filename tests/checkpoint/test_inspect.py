"""nibble inspect on whole checkpoints and on every fault that toy.py can make."""
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import time

import jsonschema
import pytest

import large
import toy
import toy_faults
import toy_layout

EXPERT = "model.layers.1.mlp.experts.2."

# Fault of toy.py -> (severity and id of what inspect says, part of the place, part of the sentence).
EXPECTED = {
    "missing-tensor": ("error missing-tensor", "down_proj", "is not in the checkpoint"),
    "extra-tensor": ("error extra-tensor", "mlp.mystery.weight", "does not call for it"),
    "wrong-shape": ("error wrong-shape", "down_proj", "call for"),
    "wrong-dtype": ("error wrong-dtype", "down_proj", "is I8, but the dialect"),
    "nan-scale": ("error nan-scale", "down_proj", "block scales that are NaN"),
    "negative-scale": ("error negative-scale", "down_proj", "sign bit"),
    "k-not-multiple": ("warning k-not-multiple", "down_proj", "has 40 columns, no multiple of"),
    "missing-input-scale": ("error missing-input-scale", EXPERT, "calibration did not reach it"),
    "zero-input-scale": ("error zero-input-scale", EXPERT + "up_proj", "is zero"),
    "reciprocal-global-scale": ("error reciprocal-factor", "model.layers.0", "upside down"),
    "gate-up-factors-differ": ("info gate-up-factors-differ", "gate_proj", "factors of their own"),
    "gate-up-inconsistent": ("warning gate-up-inconsistent", EXPERT + "gate_proj", "8 times off"),
    "factor-out-of-range": ("error factor-out-of-range", EXPERT + "up_proj", "by more than 100"),
    "factor-zero": ("error zero-factor", EXPERT + "up_proj", "is zero"),
    "factor-nan": ("error factor-not-finite", EXPERT + "up_proj", "no finite number"),
    "config-contradicts-header": ("warning config-contradicts-header", "lm_head",
                                  "is bf16 by the header and"),
    "config-excludes-experts": ("warning config-contradicts-header", "model.layers.1.mlp.experts",
                                "and bf16 by the configuration"),
    "config-other-blocks": ("warning config-contradicts-header", "model.layers.0",
                            "every 16 columns by the header and for every 32 by"),
    "config-no-blocks": ("warning config-contradicts-header", "model.layers.0",
                         "every 16 columns by the header and for every 0 by"),
    "config-fewer-layers": ("warning layer-not-configured", "model.layers.1",
                            "config.json names 1 layers (num_hidden_layers) and no MTP layers"),
    "truncated": ("error truncated", "model-00002-of-00002", ", 1 fewer"),
    "shard-missing": ("error shard-missing", "model-00002-of-00002", "does not hold it"),
    "index-disagrees": ("error index-disagrees", "model.norm.weight", "puts it into model-00001"),
    "index-lists-absent-tensor": ("error index-lists-absent-tensor", "model.absent.weight",
                                  "does not hold it"),
    "header-too-long": ("error truncated", "model-00002-of-00002", "its header has"),
    "header-not-json": ("error header-refused", "model-00002-of-00002", "no safetensors file"),
    "duplicate-key": ("error header-refused", "model-00002-of-00002",
                      'field "lm_head.weight" appears twice'),
    "overlap-offsets": ("error header-refused", "model-00002-of-00002", "overlap at byte"),
    "header-gap": ("error header-refused", "model-00002-of-00002", "belong to no tensor"),
}
# Faults that bring others with them: inspect says those too.
COMPANIONS = {"gate-up-inconsistent": {"gate-up-factors-differ"},
              # The same configuration contradicts itself, whatever the header says.
              "config-other-blocks": {"config-odd"}, "config-no-blocks": {"config-odd"}}
# Transformers' reader of gpt-oss converts the experts alone, whatever its list of exceptions says.
NOT_A_CLAIM = {("config-contradicts-header", "gpt-oss")}
SCANNED = {"nan-scale", "negative-scale"}


@pytest.fixture(scope="session")
def validator(source_dir):
    schema = json.loads((source_dir / "docs/schemas/nibble.inspect.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def inspect(nibble, validator):
    """(exit status, document) of `nibble inspect --json`, valid by its schema."""

    def run(folder, *words):
        result = nibble("inspect", str(folder), "--json", *words)
        assert result.stderr == ""
        document = json.loads(result.stdout)
        validator.validate(document)
        return result.returncode, document

    return run


def said(document):
    return {f"{fault['severity']} {fault['id']}" for fault in document["faults"]}


def test_every_fault_has_its_expectation():
    assert EXPECTED.keys() == toy_faults.FAULTS.keys()


@pytest.mark.parametrize("dialect", toy.DIALECTS)
def test_a_whole_checkpoint_has_no_fault(inspect, tmp_path, dialect):
    status, document = inspect(toy.write(tmp_path / "toy", dialect), "--deep")
    assert (status, document["faults"], document["servable"]) == (0, [], True)
    assert document["name"] == "toy"
    assert document["parameters"]["found"] == document["parameters"]["described"]["total"]
    found = {row["part"]: row["found"] for row in document["scope"]}
    assert found["routed experts"] == ("nvfp4" if dialect in toy.NVFP4_DIALECTS else "mxfp4")
    assert found["lm_head"] == found["router"] == "bf16"
    assert all(row["agrees"] for row in document["scope"])
    assert document["kv_scales"]["count"] == (4 if dialect.startswith("modelopt") else 0)
    # 2 layers x 4 experts x 3 matrices of 64 x 32.
    experts = next(row for row in document["values"] if row["part"] == "routed experts")
    assert experts["values"] == 2 * 4 * 3 * 64 * 32
    # Weights were drawn with a deviation of 0.05; 4 bits keep their size to a few percent.
    assert experts["rms"] == pytest.approx(0.05, rel=0.05)
    sizes = sum((tmp_path / "toy" / file["name"]).stat().st_size for file in document["files"])
    assert document["bytes"] == sizes


@pytest.mark.parametrize("fault,dialect", [(fault, dialect) for fault, entry in toy_faults.FAULTS.items()
                                           for dialect in entry.dialects])
def test_each_fault_is_found(inspect, tmp_path, fault, dialect):
    severity_and_id, place, sentence = EXPECTED[fault]
    folder = toy.write(tmp_path / "toy", dialect, fault)
    status, document = inspect(folder, "--deep")
    if (fault, dialect) in NOT_A_CLAIM:
        assert said(document) == set()
        return
    assert severity_and_id in said(document), document["faults"]
    severity, name = severity_and_id.split()
    matching = [f for f in document["faults"] if f["id"] == name and sentence in f["sentence"]]
    assert matching, document["faults"]
    assert any(place in example for example in matching[0]["examples"])
    ids = [f["id"] for f in document["faults"]]
    assert len(ids) == len(set(ids)), "one cause, one finding"
    others = {f["id"] for f in document["faults"]} - {name}
    assert others <= COMPANIONS.get(fault, set()), document["faults"]
    assert status == (2 if severity == "error" else 0)
    assert document["servable"] == (severity != "error")


@pytest.mark.parametrize("fault", sorted(EXPECTED))
def test_headers_alone_show_all_but_scanned_values(inspect, tmp_path, fault):
    dialect = toy_faults.FAULTS[fault].dialects[0]
    status, document = inspect(toy.write(tmp_path / "toy", dialect, fault))
    assert document["deep"] is False and document["values"] is None
    assert (EXPECTED[fault][0] in said(document)) == (fault not in SCANNED)


def test_the_text_says_what_the_document_says(nibble, nibble_in_terminal, tmp_path):
    folder = toy.write(tmp_path / "toy", "modelopt", "missing-input-scale")
    result = nibble("inspect", str(folder))
    assert result.returncode == 2 and result.stderr == ""
    for part in ("Qwen3MoeForCausalLM", "routed experts", "nvfp4 x nvfp4", "error missing-input-scale",
                 EXPERT + "gate_proj", "cannot be served", "(--deep)"):
        assert part in result.stdout
    whole = toy.write(tmp_path / "whole", "gpt-oss")
    status, shown = nibble_in_terminal("inspect", str(whole), "--deep", NO_COLOR="1")
    assert status == 0 and "Nothing is wrong with it" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_a_folder_without_configuration_still_lists_what_it_holds(inspect, tmp_path):
    folder = toy.write(tmp_path / "toy", "compressed-tensors")
    (folder / "config.json").unlink()
    status, document = inspect(folder)
    assert status == 2 and said(document) == {"error config-missing"}
    assert document["architecture"] is None and document["tensors"] == 141
    assert {row["claimed"] for row in document["scope"]} == {None}


def test_stale_configurations_are_told_apart(inspect, tmp_path):
    folder = toy.write(tmp_path / "toy", "modelopt")
    stale = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": []}}
    (folder / "hf_quant_config.json").write_text(json.dumps(stale))
    status, document = inspect(folder)
    assert status == 0 and said(document) == {"warning config-odd"}


@pytest.mark.parametrize("fault", ["config-other-blocks", "config-no-blocks"])
def test_a_claim_of_other_blocks_does_not_agree(inspect, tmp_path, fault):
    _, document = inspect(toy.write(tmp_path / "toy", "modelopt", fault))
    agrees = {row["found"]: row["agrees"] for row in document["scope"]}
    assert agrees == {"nvfp4": False, "bf16": True}


def test_announced_mtp_layers_are_no_surprise(inspect, tmp_path):
    folder = toy.write(tmp_path / "toy", "modelopt", "config-fewer-layers")
    config = json.loads((folder / "config.json").read_text())
    config["num_nextn_predict_layers"] = 1
    (folder / "config.json").write_text(json.dumps(config))
    _, document = inspect(folder)
    assert "warning layer-not-configured" not in said(document)


@pytest.mark.parametrize("name", ["", ".", ".weight", "a\u202eb", "\u2066\u200b", "x\ny", "." * 300])
def test_odd_names_of_tensors_keep_the_document_and_the_terminal_whole(inspect, nibble, tmp_path, name):
    folder = toy.write(tmp_path / "toy", "modelopt")
    header, data = toy_layout.read_shard(folder / toy_layout.shard_name(2))
    end = max(e["data_offsets"][1] for n, e in header.items() if n != "__metadata__")
    header[name] = {"dtype": "BF16", "shape": [4, 4], "data_offsets": [end, end + 32]}
    content = toy_layout.file_bytes(json.dumps(header), data + bytes(32))
    (folder / toy_layout.shard_name(2)).write_bytes(content)
    (folder / toy_layout.INDEX).unlink()
    status, document = inspect(folder, "--deep")
    assert status == 2 and "error extra-tensor" in said(document)
    shown = nibble("inspect", str(folder), "--deep").stdout
    for control in "\u202a\u202e\u2066\u200b":
        assert control not in shown


def test_a_shard_that_is_shortened_while_it_is_scanned_is_truncated(binary, tmp_path):
    """They are cut to their headers once the last of them is open: scanning them takes seconds."""
    folder = tmp_path / "large"
    large.write(folder, layers=24, experts=256, shards=8)
    shards = sorted(folder.glob("*.safetensors"))
    running = subprocess.Popen([binary, "inspect", str(folder), "--deep", "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    maps = pathlib.Path(f"/proc/{running.pid}/maps")
    deadline = time.monotonic() + 30
    while shards[-1].name not in maps.read_text() and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.05)
    for shard in shards:
        with open(shard, "r+b") as file:
            size = struct.unpack("<Q", file.read(8))[0] + 8
            file.truncate(size)
    out, err = running.communicate(timeout=100)
    assert (running.returncode, err) == (2, "")
    faults = json.loads(out)["faults"]
    cut = [f for f in faults if f["id"] == "truncated"]
    assert {f["severity"] for f in cut} == {"error"}
    assert {e for f in cut for e in f["examples"]} == {shard.name for shard in shards}
    assert all(f["count"] == 1 for f in cut)


@pytest.fixture
def as_stranger(binary):
    """Runs nibble as somebody whom permissions bind: root is not bound by them."""

    def run(*words):
        who = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        return subprocess.run([binary, *words], capture_output=True, text=True, timeout=60, **who)

    return run


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o111])
def test_a_folder_that_may_not_be_read_is_said_to_be_that(as_stranger, mode):
    with tempfile.TemporaryDirectory() as above:
        os.chmod(above, 0o755)
        folder = toy.write(pathlib.Path(above) / "toy", "gpt-oss")
        folder.chmod(mode)
        try:
            result = as_stranger("inspect", str(folder))
        except PermissionError:
            pytest.skip("another user may not start the program here")
        finally:
            folder.chmod(0o755)
    assert result.returncode == 2 and result.stdout == ""
    assert "Permission denied" in result.stderr and "holds neither" not in result.stderr


def test_sentences_end_and_are_true(nibble, inspect, tmp_path):
    result = nibble("inspect", "")
    assert result.returncode == 2
    assert result.stderr == "nibble: DIR is empty; give the folder of the checkpoint\n"
    folder = toy.write(tmp_path / "toy", "modelopt")
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    status, document = inspect(folder)
    assert status == 2 and said(document) == {"error config-refused"}
    assert "is a folder" in document["faults"][0]["sentence"]


def test_a_reader_that_closes_the_pipe_does_not_change_the_status(binary, tmp_path):
    """Both when all is taken at once and when the pipe is closed before anything is."""
    broken = toy.write(tmp_path / "broken", "modelopt", "missing-tensor")
    whole = toy.write(tmp_path / "whole", "modelopt")
    for folder, status in [(broken, 2), (whole, 0)]:
        for words in ["", "--json"]:
            for reader in ["true", "head -1"]:
                script = f'"{binary}" inspect "{folder}" {words} | {reader} > /dev/null; exit ${{PIPESTATUS[0]}}'
                result = subprocess.run(["bash", "-c", script], stderr=subprocess.PIPE, timeout=60)
                assert (result.returncode, result.stderr) == (status, b""), (words, reader)


@pytest.mark.parametrize("kind", ["absent", "empty", "file"])
def test_what_is_no_checkpoint_is_refused(nibble, tmp_path, kind):
    path = tmp_path / "x"
    if kind == "empty":
        path.mkdir()
    elif kind == "file":
        path.write_text("x")
    result = nibble("inspect", str(path))
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("nibble: ") and str(path) in result.stderr


def test_a_large_checkpoint_is_read_by_its_headers(inspect, tmp_path):
    """A tenth of what large.py is for; its values are holes of 4 GB."""
    tensors = large.write(tmp_path / "large", layers=6, experts=256, shards=8)
    status, document = inspect(tmp_path / "large")
    assert (status, document["faults"]) == (0, [])
    assert document["tensors"] == tensors
    assert document["bytes"] > 4e9
    assert document["parameters"]["found"] == document["parameters"]["described"]["total"]
    experts = next(row for row in document["scope"] if row["part"] == "routed experts")
    assert experts["matrices"] == experts["with_input_scale"] == 6 * 256 * 3
