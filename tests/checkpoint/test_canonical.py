"""The same weights in every dialect load to the same bits, and to those that were written."""
import json
import struct
import subprocess

import pytest

import toy


@pytest.fixture(scope="module")
def load(build_dir, tmp_path_factory):
    """load("modelopt", fault=None): what the loader makes of a toy, by module."""
    program = build_dir / "src" / "checkpoint" / "nibble_canonical_fixture"
    assert program.exists(), f"{program} has not been built"

    def run(dialect, fault=None):
        folder = toy.write(tmp_path_factory.mktemp(dialect) / "toy", dialect, fault)
        result = subprocess.run([program, str(folder)], capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def bits(value):
    return struct.pack(">f", value).hex()


@pytest.mark.parametrize("dialect", toy.DIALECTS)
def test_loads_to_what_was_written(load, dialect):
    loaded = load(dialect)
    expected = toy.quantized(dialect)
    inputs = toy.input_scales()
    assert loaded.keys() == expected.keys() and expected
    for name, written in expected.items():
        found = loaded[name]
        nvfp4 = dialect in toy.NVFP4_DIALECTS
        assert found["format"] == ("nvfp4" if nvfp4 else "mxfp4"), name
        assert (found["rows"], found["columns"]) == (written.rows, written.columns), name
        assert found["codes"] == bytes(written.codes).hex(), name
        assert found["scales"] == bytes(written.scales).hex(), name
        assert found["factors"] == ([[0, bits(written.factor)]] if nvfp4 else []), name
        assert found["input_scale"] == (bits(inputs[name]) if nvfp4 else None), name


def test_modelopt_and_compressed_tensors_agree_bit_for_bit(load):
    assert load("modelopt") == load("compressed-tensors") == load("modelopt-legacy")


def test_the_experts_of_gpt_oss_are_those_of_the_packed_twin(load):
    packed = load("mxfp4-compressed-tensors")
    fused = load("gpt-oss")
    assert fused == {name: matrix for name, matrix in packed.items() if ".experts." in name}


def test_gate_and_up_keep_factors_of_their_own(load):
    loaded = load("compressed-tensors", "gate-up-factors-differ")
    for layer in range(toy.LAYERS):
        for expert in range(toy.EXPERTS):
            at = f"model.layers.{layer}.mlp.experts.{expert}."
            gate, up = (struct.unpack(">f", bytes.fromhex(loaded[at + part]["factors"][0][1]))[0]
                        for part in ("gate_proj", "up_proj"))
            assert up == 2 * gate
