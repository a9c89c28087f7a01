"""The real safetensors package reads every toy checkpoint of tests/checkpoint/toy.py."""
import pathlib
import sys
import tempfile

import safetensors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "checkpoint"))
import toy  # noqa: E402  (found through the line above)
import toy_layout  # noqa: E402


def main():
    for dialect in toy.DIALECTS:
        with tempfile.TemporaryDirectory() as name:
            folder = toy.write(name, dialect)
            for shard in (toy_layout.shard_name(1), toy_layout.shard_name(2)):
                content = (folder / shard).read_bytes()
                header, data = toy_layout.read_shard(folder / shard)
                tensors = dict(safetensors.deserialize(content))
                assert len(tensors) > 10 and len(tensors) == len(header) - 1
                for tensor_name, tensor in tensors.items():
                    entry = header[tensor_name]
                    assert tensor["dtype"] == entry["dtype"], tensor_name
                    assert tensor["shape"] == entry["shape"], tensor_name
                    assert bytes(tensor["data"]) == data[slice(*entry["data_offsets"])], tensor_name


if __name__ == "__main__":
    main()
