"""safetensors files for the toy checkpoints: two shards and their index."""
import json
import math
import struct
from typing import NamedTuple

DTYPE_BYTES = {"F32": 4, "BF16": 2, "F8_E4M3": 1, "U8": 1, "I8": 1}
INDEX = "model.safetensors.index.json"


class Tensor(NamedTuple):
    dtype: str
    shape: tuple
    data: bytes


def tensor(dtype, shape, data):
    assert math.prod(shape) * DTYPE_BYTES[dtype] == len(data), (dtype, shape, len(data))
    return Tensor(dtype, tuple(shape), data)


def shard_name(number):
    return f"model-{number:05}-of-00002.safetensors"


def file_bytes(header_text, data):
    """A safetensors file; the header is padded with spaces so that the data is aligned."""
    header = header_text.encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data


def write_shard(path, tensors):
    """Wide types first, as the safetensors package orders them, so that all are aligned."""
    names = sorted(tensors, key=lambda name: (-DTYPE_BYTES[tensors[name].dtype], name))
    header, parts, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name in names:
        dtype, shape, data = tensors[name]
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    path.write_bytes(file_bytes(json.dumps(header, separators=(",", ":")), b"".join(parts)))


def read_shard(path):
    """(header, data) of a file; no checks."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:8 + length]), content[8 + length:]


def write_checkpoint(folder, shards, files):
    """`shards` is two dictionaries of tensors, `files` JSON documents by name."""
    folder.mkdir(parents=True, exist_ok=True)
    weight_map = {}
    for number, tensors in enumerate(shards, 1):
        write_shard(folder / shard_name(number), tensors)
        weight_map.update({name: shard_name(number) for name in tensors})
    total = sum(len(t.data) for tensors in shards for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    for name, document in {**files, INDEX: index}.items():
        (folder / name).write_text(json.dumps(document, indent=2) + "\n")
