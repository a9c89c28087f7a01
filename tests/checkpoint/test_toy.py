"""The toy checkpoints themselves: what other tests build on has to be right first."""
import json
import math
import struct
import subprocess
import sys

import pytest

import toy
import toy_faults
import toy_layout
import toy_numbers


def read(folder):
    """All tensors of a whole checkpoint by name, with every rule of the file format checked."""
    index = json.loads((folder / toy_layout.INDEX).read_text())
    tensors = {}
    for number in (1, 2):
        shard = toy_layout.shard_name(number)
        header, data = toy_layout.read_shard(folder / shard)
        assert header.pop("__metadata__") == {"format": "pt"}
        end = 0
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, stop = entry["data_offsets"]
            assert begin == end, "no gap and no overlap"
            end = stop
            size = math.prod(entry["shape"]) * toy_layout.DTYPE_BYTES[entry["dtype"]]
            assert stop - begin == size
            assert index["weight_map"][name] == shard
            assert name not in tensors
            tensors[name] = toy_layout.tensor(entry["dtype"], entry["shape"], data[begin:stop])
        assert end == len(data)
    assert tensors.keys() == index["weight_map"].keys()
    assert index["metadata"]["total_size"] == sum(len(t.data) for t in tensors.values())
    return tensors


def number(tensor):
    return struct.unpack("<f", tensor.data)[0]


def modules(tensors, suffix):
    return {name[:-len(suffix)]: tensor for name, tensor in tensors.items() if name.endswith(suffix)}


# Per layer: 4 experts of 3 projections and 4 of attention; 4 norms and the router; 2 KV scales in
# ModelOpt. Besides embedding, last norm and lm_head. gpt-oss: 2 norms, 4 projections and the router
# with biases, sinks, 6 of experts.
@pytest.mark.parametrize("dialect, count", [
    ("modelopt", 2 * (16 * 4 + 5 + 2) + 3), ("modelopt-legacy", 2 * (16 * 4 + 5 + 2) + 3),
    ("compressed-tensors", 2 * (16 * 4 + 5) + 3), ("mxfp4-compressed-tensors", 2 * (16 * 2 + 5) + 3),
    ("gpt-oss", 2 * (2 + 5 * 2 + 1 + 6) + 3)])
def test_is_a_whole_checkpoint(tmp_path, dialect, count):
    assert len(read(toy.write(tmp_path, dialect))) == count


def test_nvfp4_twins_hold_the_same_bits(tmp_path):
    ours = read(toy.write(tmp_path / "a", "modelopt"))
    twin = read(toy.write(tmp_path / "b", "compressed-tensors"))
    legacy = read(toy.write(tmp_path / "c", "modelopt-legacy"))
    assert legacy == ours
    linear = modules(ours, ".weight_scale")
    assert len(linear) == 32 and linear == modules(twin, ".weight_scale")
    for name in linear:
        assert twin[name + ".weight_packed"] == ours[name + ".weight"]
        for factor, divisor in ((".weight_scale_2", ".weight_global_scale"),
                                (".input_scale", ".input_global_scale")):
            assert ours[name + factor].shape == () and twin[name + divisor].shape == (1,)
            multiplier = number(ours[name + factor])
            assert 1e-6 < multiplier < 1e-2
            assert toy_numbers.fp32(1 / number(twin[name + divisor])) == multiplier


def test_gpt_oss_interleaves_the_rows_of_gate_and_up(tmp_path):
    fused = read(toy.write(tmp_path / "a", "gpt-oss"))
    apart = read(toy.write(tmp_path / "b", "mxfp4-compressed-tensors"))
    prefix = "model.layers.1.mlp.experts."
    for kind, other, width in (("blocks", "weight_packed", 32), ("scales", "weight_scale", 2)):
        data = fused[f"{prefix}gate_up_proj_{kind}"].data
        for expert in range(4):
            for row in range(32):
                at = ((expert * 64) + 2 * row) * width
                here = slice(row * width, (row + 1) * width)
                gate = apart[f"{prefix}{expert}.gate_proj.{other}"].data[here]
                up = apart[f"{prefix}{expert}.up_proj.{other}"].data[here]
                assert data[at:at + 2 * width] == gate + up
        assert fused[f"{prefix}down_proj_{kind}"].data == b"".join(
            apart[f"{prefix}{expert}.down_proj.{other}"].data for expert in range(4))
    assert fused[f"{prefix}gate_up_proj_blocks"].shape == (4, 64, 2, 16)
    assert fused["model.layers.0.self_attn.sinks"].shape == (4,)


@pytest.mark.parametrize("dialect", ["modelopt", "mxfp4-compressed-tensors"])
def test_quantized_weights_are_near_the_weights(dialect):
    for name, q in toy.quantized(dialect).items():
        block = 16 if dialect == "modelopt" else 32
        wanted = toy.weights()[name].values
        for at, value in enumerate(wanted):
            byte = q.codes[at // 2]
            code = byte >> 4 if at % 2 else byte & 15
            scale = q.scales[at // block]
            scale = toy_numbers.E4M3[scale] if dialect == "modelopt" else 2.0**(scale - 127)
            got = toy_numbers.E2M1[code & 7] * (-1 if code & 8 else 1) * scale * q.factor
            # At most half of the widest step (from 4 to 6); MXFP4's largest is below 8, cut at 6.
            assert abs(got - value) <= (1.3 if dialect == "modelopt" else 2) * scale * q.factor


def test_quantizers_give_the_bits_of_the_oracle(request):
    golden = request.path.parents[1] / "golden" / "formats" / "quantize.txt"
    lines = golden.read_text().split("\n")
    checked = 0
    for at in range(0, len(lines) - 1, 5):
        name, kind, rows, columns, given, used = lines[at].split()
        if name not in ("normal", "outliers", "partial_block", "zero_blocks", "ties", "factor_odd"):
            continue
        values = struct.unpack(f">{len(lines[at + 1]) // 8}f", bytes.fromhex(lines[at + 1]))
        matrix = toy_numbers.Matrix(int(rows, 16), int(columns, 16), list(values))
        factor = struct.unpack(">f", bytes.fromhex(used.zfill(8)))[0]
        q = toy_numbers.quantize_nvfp4(matrix, factor) if kind == "nvfp4" \
            else toy_numbers.quantize_mxfp4(matrix)
        assert q.codes.hex() == lines[at + 2], (name, kind)
        assert q.scales.hex() == lines[at + 3], (name, kind)
        checked += 1
    assert checked == 4 * 2 + 2


def test_same_seed_same_bytes(tmp_path):
    def everything(folder):
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    first = everything(toy.write(tmp_path / "a", "modelopt", seed=5))
    assert everything(toy.write(tmp_path / "b", "modelopt", seed=5)) == first
    assert everything(toy.write(tmp_path / "c", "modelopt", seed=6)) != first


OCCURRENCES = [(fault, dialect) for fault, known in toy_faults.FAULTS.items()
               for dialect in known.dialects]


@pytest.fixture(scope="module")
def whole_checkpoints(tmp_path_factory):
    return {dialect: toy.write(tmp_path_factory.mktemp(dialect), dialect) for dialect in toy.DIALECTS}


@pytest.mark.parametrize("fault, dialect", OCCURRENCES)
def test_every_fault_changes_one_thing(tmp_path, whole_checkpoints, fault, dialect):
    whole = whole_checkpoints[dialect]
    broken = toy.write(tmp_path / "broken", dialect, fault)
    changed = {path.name for path in whole.iterdir()
               if not (broken / path.name).is_file()
               or (broken / path.name).read_bytes() != path.read_bytes()}
    assert changed
    if fault.startswith("config-"):
        assert changed in ({"config.json"}, {"hf_quant_config.json"})
    elif fault.startswith("index-"):
        assert changed == {toy_layout.INDEX}
    elif fault in ("missing-tensor", "extra-tensor", "missing-input-scale"):
        assert changed == {toy_layout.INDEX, toy_layout.shard_name(2)}
    elif fault not in ("k-not-multiple", "gate-up-factors-differ", "reciprocal-global-scale"):
        assert changed == {toy_layout.shard_name(2)}


@pytest.mark.parametrize("fault", ["overlap-offsets", "header-gap", "duplicate-key"])
@pytest.mark.parametrize("dialect", toy.DIALECTS)
def test_headers_break_one_rule(tmp_path, dialect, fault):
    path = toy.write(tmp_path, dialect, fault) / toy_layout.shard_name(2)
    header, data = toy_layout.read_shard(path)
    del header["__metadata__"]
    ranges = sorted(entry["data_offsets"] for entry in header.values())
    steps = {later[0] - earlier[1] for earlier, later in zip(ranges, ranges[1:])}
    assert ranges[0][0] == 0 and ranges[-1][1] == len(data)
    # What overlaps before a tensor is missing behind it.
    assert steps == {"overlap-offsets": {0, -2, 2}, "header-gap": {0, 64}, "duplicate-key": {0}}[fault]
    assert path.read_bytes().count(b'"lm_head.weight"') == (2 if fault == "duplicate-key" else 1)


@pytest.mark.parametrize("dialect", toy.NVFP4_DIALECTS)
def test_factors_that_differ_keep_the_values(tmp_path, dialect):
    """up_proj with twice the factor and half the scales: the same weights."""
    plain, other = toy.quantized(dialect), toy.quantized(dialect, up_divisor=0.5)
    for name, q in other.items():
        assert q.codes == plain[name].codes
        up = name.endswith("up_proj")
        assert q.factor == plain[name].factor * (2 if up else 1)
        for scale, before in zip(q.scales, plain[name].scales):
            assert toy_numbers.E4M3[scale] * (2 if up else 1) == toy_numbers.E4M3[before]


def test_faults_that_do_not_occur_are_refused(tmp_path):
    for dialect, fault, words in (("gpt-oss", "factor-nan", "does not occur in gpt-oss"),
                                  ("modelopt", "misspelt", "no fault 'misspelt'"),
                                  ("gguf", None, "no dialect 'gguf'")):
        with pytest.raises(ValueError, match=words):
            toy.write(tmp_path / "never", dialect, fault)
    assert not (tmp_path / "never").exists()


def test_command_line(tmp_path):
    def run(*words):
        return subprocess.run([sys.executable, "-B", toy.__file__, *words], capture_output=True,
                              text=True, timeout=60)

    listed = run("--list")
    assert listed.returncode == 0
    for word in (*toy.DIALECTS, *toy_faults.FAULTS):
        assert f"  {word}" in listed.stdout
    assert run(tmp_path / "out", "--dialect", "gpt-oss", "--fault", "truncated").returncode == 0
    assert (tmp_path / "out" / "config.json").is_file()
    assert run(tmp_path / "out", "--fault", "misspelt").returncode == 2
    assert run().returncode == 2
