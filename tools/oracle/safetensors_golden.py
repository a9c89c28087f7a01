"""Writes tests/golden/safetensors/ with the real safetensors package.

  safetensors_golden.py FOLDER

tiny.safetensors   F32, BF16, F8_E4M3, U8, I64 and F16 tensors, a scalar, one without elements, a name
                   that JSON must escape, and metadata
tiny.json          what is in it: metadata; dtype, shape and bytes (hexadecimal) of each tensor, and
                   the values of those of numbers
"""
import json
import pathlib
import sys

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

DTYPES = {np.float32: "F32", ml_dtypes.bfloat16: "BF16", ml_dtypes.float8_e4m3fn: "F8_E4M3",
          np.uint8: "U8", np.int64: "I64", np.float16: "F16"}
METADATA = {"format": "pt", "made by": "tools/oracle/safetensors_golden.py", "quote": "a \"b\" \\ ü"}


def arrays():
    count = np.arange(24)
    return {
        "model.norm.weight": ((count[:8] - 3.5) / 2).astype(ml_dtypes.bfloat16),
        "experts.0.down_proj.weight": (count * 11 % 256).astype(np.uint8).reshape(3, 8),
        "experts.0.down_proj.weight_scale": (2.0 ** (count[:6] - 3)).astype(
            ml_dtypes.float8_e4m3fn).reshape(3, 2),
        "experts.0.down_proj.weight_scale_2": np.array(4.125e-5, np.float32),
        "experts.0.down_proj.input_global_scale": np.array([1344.0], np.float32),
        "half": np.array([[1.5, -65504.0]], np.float16),
        "position_ids": np.array([[0, 1, 2**40]], np.int64),
        "nothing": np.zeros((0, 4), np.float32),
        "name \"quoted\" \\ ü": np.array([1, 2, 3], np.uint8),
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    expected = {name: {"dtype": DTYPES[array.dtype.type], "shape": list(array.shape),
                       "bytes": array.tobytes().hex(),
                       "values": array.astype(np.float64).reshape(-1).tolist()}
                for name, array in arrays().items()}
    path = folder / "tiny.safetensors"
    path.write_bytes(save())
    check(path, expected)
    document = {"metadata": METADATA, "tensors": expected}
    (folder / "tiny.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def save():
    """The package writes metadata in the order of a hash table, another one each time: this takes
    the first file in which the keys are sorted, so that the same bytes come out again."""
    text = json.dumps({"__metadata__": dict(sorted(METADATA.items()))}, separators=(",", ":"),
                      ensure_ascii=False)[:-1].encode()
    for _ in range(1000):
        content = safetensors.numpy.save(arrays(), METADATA)
        if content[8:].startswith(text):
            return content
    sys.exit("the package writes its header in another way than expected")


def check(path, expected):
    """What stands in tiny.json is what the package reads."""
    read = dict(safetensors.deserialize(path.read_bytes()))
    assert read.keys() == expected.keys()
    for name, tensor in read.items():
        assert bytes(tensor["data"]).hex() == expected[name]["bytes"], name
        assert tensor["dtype"] == expected[name]["dtype"], name


if __name__ == "__main__":
    main()
