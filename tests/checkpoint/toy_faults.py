"""What can be wrong with a toy checkpoint: each fault changes one thing.

A fault has up to three parts: `options` change how the tensors are made, `edit` changes tensors and
JSON documents before they are written, `spoil` changes the files afterwards. The docstring of a fault
is its line in `toy.py --list`.
"""
import json
import math
import struct
from typing import Callable, NamedTuple

import toy_layout
from toy_layout import INDEX, Tensor, shard_name
from toy_numbers import E4M3_NAN, E8M0_NAN, fp32

NVFP4 = ("modelopt", "modelopt-legacy", "compressed-tensors")
MODELOPT = ("modelopt", "modelopt-legacy")
PER_EXPERT = NVFP4 + ("mxfp4-compressed-tensors",)
ALL = PER_EXPERT + ("gpt-oss",)

VICTIM = "model.layers.1.mlp.experts.2."  # where a fault sits that concerns one expert
FUSED = "model.layers.1.mlp.experts."     # the same in gpt-oss


class Fault(NamedTuple):
    dialects: tuple
    meaning: str = ""
    options: dict = {}
    edit: Callable = lambda tensors, documents: None
    spoil: Callable = lambda folder: None


FAULTS = {}


def find(name, dialect):
    """The fault of that name, None for a whole checkpoint; ValueError when there is none."""
    if name is None:
        return Fault(ALL)
    if name not in FAULTS:
        raise ValueError(f"no fault {name!r}; toy.py --list names them")
    if dialect not in FAULTS[name].dialects:
        raise ValueError(f"{name} does not occur in {dialect}; it does in "
                         f"{', '.join(FAULTS[name].dialects)}")
    return FAULTS[name]


def meaning(name):
    fault = FAULTS[name]
    where = {ALL: "", NVFP4: " (NVFP4)", MODELOPT: " (ModelOpt)", PER_EXPERT: " (not gpt-oss)"}[fault.dialects]
    return fault.meaning + where


def _register(part, dialects):
    def keep(function):
        name = function.__name__.replace("_", "-")
        FAULTS[name] = Fault(dialects, function.__doc__, **{part: function})
        return function
    return keep


def edits(dialects):
    """Marks f(tensors, documents)."""
    return _register("edit", dialects)


def spoils(dialects=ALL):
    """Marks f(folder)."""
    return _register("spoil", dialects)


def _only(tensors, prefix, *suffixes):
    """The one tensor under the prefix with one of the suffixes."""
    found = [name for name in tensors if name.startswith(prefix) and name.endswith(suffixes)]
    assert len(found) == 1, (prefix, suffixes, found)
    return found[0]


def _codes(tensors):
    if VICTIM + "down_proj.weight_scale" in tensors:
        return _only(tensors, VICTIM, "down_proj.weight", "down_proj.weight_packed")
    return FUSED + "down_proj_blocks"


def _scales(tensors):
    name = VICTIM + "down_proj.weight_scale"
    return name if name in tensors else FUSED + "down_proj_scales"


def _set_byte(tensors, name, at, byte):
    data = tensors[name].data
    tensors[name] = tensors[name]._replace(data=data[:at] + bytes([byte]) + data[at + 1:])


# ---- tensors ------------------------------------------------------------------------------------

@edits(ALL)
def missing_tensor(tensors, documents):
    """the block scales of one down_proj are in no shard and not in the index"""
    del tensors[_scales(tensors)]


@edits(ALL)
def extra_tensor(tensors, documents):
    """a tensor that no model of this kind has"""
    tensors["model.layers.1.mlp.mystery.weight"] = Tensor("BF16", (4,), bytes(8))


@edits(ALL)
def wrong_shape(tensors, documents):
    """the codes of one down_proj have half the rows and twice the columns"""
    name = _codes(tensors)
    shape = list(tensors[name].shape)
    rows = 0 if len(shape) == 2 else 1
    shape[rows], shape[rows + 1] = shape[rows] // 2, shape[rows + 1] * 2
    tensors[name] = tensors[name]._replace(shape=tuple(shape))


@edits(ALL)
def wrong_dtype(tensors, documents):
    """the codes of one down_proj are I8 where U8 is meant"""
    name = _codes(tensors)
    tensors[name] = tensors[name]._replace(dtype="I8")


@edits(ALL)
def nan_scale(tensors, documents):
    """one block scale is NaN"""
    name = _scales(tensors)
    _set_byte(tensors, name, 5, E4M3_NAN if tensors[name].dtype == "F8_E4M3" else E8M0_NAN)


@edits(NVFP4)
def negative_scale(tensors, documents):
    """one block scale has its sign bit set"""
    name = _scales(tensors)
    _set_byte(tensors, name, 5, tensors[name].data[5] | 0x80)


FAULTS["k-not-multiple"] = Fault(PER_EXPERT, "experts of 40: down_proj has 40 columns",
                                 options={"intermediate": 40})


# ---- factors ------------------------------------------------------------------------------------

WEIGHT_FACTORS = (".weight_scale_2", ".weight_global_scale")
INPUT_FACTORS = (".input_scale", ".input_global_scale")


def _is_divisor(name):
    return name.endswith("_global_scale")


def _value(tensors, name):
    return struct.unpack("<f", tensors[name].data)[0]


def _store(tensors, name, value):
    tensors[name] = tensors[name]._replace(data=struct.pack("<f", value))


def _multiply_factor(tensors, name, by):
    """In the meaning of a multiplier, whichever way the dialect writes it. `by` is a power of 2."""
    value = _value(tensors, name)
    _store(tensors, name, value / by if _is_divisor(name) else value * by)


@edits(NVFP4)
def missing_input_scale(tensors, documents):
    """one expert has no activation scale, as when calibration never routed a token to it"""
    for name in [n for n in tensors if n.startswith(VICTIM) and n.endswith(INPUT_FACTORS)]:
        del tensors[name]


@edits(NVFP4)
def zero_input_scale(tensors, documents):
    """the activation scale of one up_proj is stored as 0"""
    _store(tensors, _only(tensors, VICTIM + "up_proj", *INPUT_FACTORS), 0.0)


@edits(NVFP4)
def reciprocal_global_scale(tensors, documents):
    """every weight factor is stored as the other dialect stores it: the reciprocal"""
    for name in [n for n in tensors if n.endswith(WEIGHT_FACTORS)]:
        _store(tensors, name, fp32(1 / _value(tensors, name)))


FAULTS["gate-up-factors-differ"] = Fault(
    NVFP4, "up_proj has twice the factor of gate_proj everywhere, with scales to match: no error, "
           "unless one factor is used for both", options={"up_divisor": 0.5})


@edits(NVFP4)
def gate_up_inconsistent(tensors, documents):
    """the factor of one up_proj is 16 times what its scales are meant for"""
    _multiply_factor(tensors, _only(tensors, VICTIM + "up_proj", *WEIGHT_FACTORS), 16)


@edits(NVFP4)
def factor_out_of_range(tensors, documents):
    """one weight factor is 1000 as a multiplier"""
    name = _only(tensors, VICTIM + "up_proj", *WEIGHT_FACTORS)
    _store(tensors, name, fp32(1e-3) if _is_divisor(name) else 1e3)


@edits(NVFP4)
def factor_zero(tensors, documents):
    """one weight factor is stored as 0"""
    _store(tensors, _only(tensors, VICTIM + "up_proj", *WEIGHT_FACTORS), 0.0)


@edits(NVFP4)
def factor_nan(tensors, documents):
    """one weight factor is NaN"""
    _store(tensors, _only(tensors, VICTIM + "up_proj", *WEIGHT_FACTORS), math.nan)


# ---- what the configuration claims --------------------------------------------------------------

def _ignored(documents):
    """The list of modules that are said not to be quantized."""
    if "hf_quant_config.json" in documents:
        return documents["hf_quant_config.json"]["quantization"]["exclude_modules"]
    claim = documents["config.json"]["quantization_config"]
    return claim.get("ignore", claim.get("modules_to_not_convert"))


@edits(ALL)
def config_contradicts_header(tensors, documents):
    """the configuration says that lm_head is quantized; it is BF16"""
    _ignored(documents).remove("lm_head")


@edits(ALL)
def config_excludes_experts(tensors, documents):
    """the configuration says that the experts of layer 1 are not quantized; they are"""
    compressed = "compressed" in documents["config.json"].get("quantization_config", {}).get(
        "quant_method", "")
    _ignored(documents).append("re:model\\.layers\\.1\\.mlp\\.experts.*" if compressed
                               else "model.layers.1.mlp.experts*")


def _claims_of_blocks(documents):
    """The descriptions of weights or matrices that state a group_size."""
    if "hf_quant_config.json" in documents:
        return [documents["hf_quant_config.json"]["quantization"]]
    claim = documents["config.json"]["quantization_config"]
    return [group["weights"] for group in claim["config_groups"].values()]


@edits(MODELOPT)
def config_other_blocks(tensors, documents):
    """the configuration says that blocks have 32 columns; they have 16"""
    for claim in _claims_of_blocks(documents):
        claim["group_size"] = 32


@edits(MODELOPT)
def config_no_blocks(tensors, documents):
    """the configuration says that blocks have 0 columns; they have 16"""
    for claim in _claims_of_blocks(documents):
        claim["group_size"] = 0


@edits(ALL)
def config_fewer_layers(tensors, documents):
    """the configuration says 1 layer; there are 2"""
    config = documents["config.json"]
    config["num_hidden_layers"] = 1
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:1]


# ---- files --------------------------------------------------------------------------------------

@spoils()
def truncated(folder):
    """the last shard lacks its last byte"""
    path = folder / shard_name(2)
    path.write_bytes(path.read_bytes()[:-1])


@spoils()
def shard_missing(folder):
    """the last shard is not there"""
    (folder / shard_name(2)).unlink()


def _edit_index(folder, change):
    path = folder / INDEX
    index = json.loads(path.read_text())
    change(index["weight_map"])
    path.write_text(json.dumps(index, indent=2) + "\n")


@spoils()
def index_disagrees(folder):
    """the index places model.norm.weight in the first shard; it is in the second"""
    _edit_index(folder, lambda weight_map: weight_map.update({"model.norm.weight": shard_name(1)}))


@spoils()
def index_lists_absent_tensor(folder):
    """the index lists a tensor that no shard has"""
    _edit_index(folder, lambda weight_map: weight_map.update({"model.absent.weight": shard_name(1)}))


@spoils()
def header_too_long(folder):
    """the second shard says that its header is longer than the file"""
    path = folder / shard_name(2)
    content = path.read_bytes()
    path.write_bytes(struct.pack("<Q", len(content)) + content[8:])


@spoils()
def header_not_json(folder):
    """the header of the second shard is not JSON"""
    path = folder / shard_name(2)
    content = path.read_bytes()
    path.write_bytes(content[:8] + b"[" + content[9:])


def _rewrite(folder, change):
    """change(entries of the second shard by name, data) gives (header text, data)."""
    path = folder / shard_name(2)
    header, data = toy_layout.read_shard(path)
    path.write_bytes(toy_layout.file_bytes(*change(header, data)))


@spoils()
def duplicate_key(folder):
    """the header of the second shard lists lm_head.weight twice"""
    def change(header, data):
        again = json.dumps({"lm_head.weight": header["lm_head.weight"]})
        return json.dumps(header)[:-1] + "," + again[1:], data
    _rewrite(folder, change)


@spoils()
def overlap_offsets(folder):
    """in the second shard the data of model.norm.weight begins inside the tensor before it"""
    def change(header, data):
        offsets = header["model.norm.weight"]["data_offsets"]
        header["model.norm.weight"]["data_offsets"] = [offset - 2 for offset in offsets]
        return json.dumps(header), data
    _rewrite(folder, change)


@spoils()
def header_gap(folder):
    """in the second shard 64 bytes between two tensors belong to none"""
    def change(header, data):
        at = header["model.norm.weight"]["data_offsets"][0]
        for name, entry in header.items():
            if name != "__metadata__" and entry["data_offsets"][0] >= at:
                entry["data_offsets"] = [offset + 64 for offset in entry["data_offsets"]]
        return json.dumps(header), data[:at] + bytes(64) + data[at:]
    _rewrite(folder, change)
