"""What `nibble serve` says of a model that is broken: one sentence with the place, and no server; or, where the fault
shows only in numbers, an error instead of text. The built-in model is changed as reports about other servers have it.
"""
import json
import shutil
import struct

import pytest

from serving import serving

EXPERT = "model.layers.3.mlp.experts.17"


class Model:
    """A copy of data/tiny that is about to be changed."""

    def __init__(self, source, folder):
        self.folder = folder
        shutil.copytree(source, folder)
        data = (folder / "model.safetensors").read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        self.metadata = header.pop("__metadata__", None)
        ordered = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
        self.tensors = {name: (entry["dtype"], entry["shape"],
                               bytearray(data[8 + length + entry["data_offsets"][0]:
                                              8 + length + entry["data_offsets"][1]]))
                        for name, entry in ordered}

    def write(self):
        header, at = {} if self.metadata is None else {"__metadata__": self.metadata}, 0
        for name, (dtype, shape, data) in self.tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
            at += len(data)
        text = json.dumps(header).encode()
        (self.folder / "model.safetensors").write_bytes(
            struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in self.tensors.values()))

    def edit(self, name, **changes):
        path = self.folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture
def model(source_dir, tmp_path):
    return Model(source_dir / "data/tiny", tmp_path / "changed")


def drop(name):
    return lambda model: model.tensors.pop(name)


def fill(name, at, value):
    def change(model):
        model.tensors[name][2][at:at + len(value)] = value
    return change


def lost_shard(model):
    names = dict.fromkeys(model.tensors, "model.safetensors")
    names["model.norm.weight"] = "model-00002-of-00002.safetensors"
    (model.folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    model.tensors.pop("model.norm.weight")


def lost_file(name):
    return lambda model: (model.folder / name).unlink()


def template(text):
    return lambda model: model.edit("tokenizer_config.json", chat_template=text)


# report: (change, what the one sentence must name)
BROKEN = {
    "vllm#45212: an expert without input_scale": (drop(f"{EXPERT}.up_proj.input_scale"),
                                                  [EXPERT, "calibration did not reach it"]),
    "vllm PR#52501: no weight_scale": (drop(f"{EXPERT}.down_proj.weight_scale"), [EXPERT, "weight_scale"]),
    "sglang PR#32279: a shard is not there": (lost_shard, ["model-00002-of-00002.safetensors"]),
    "a block scale is NaN": (fill(f"{EXPERT}.up_proj.weight_scale", 5, b"\x7f"), [f"{EXPERT}.up_proj"]),
    "a factor is 0": (fill(f"{EXPERT}.up_proj.weight_scale_2", 0, bytes(4)), [f"{EXPERT}.up_proj"]),
    "llama.cpp#11443: a template's construct is unknown":
        (template("{% import 'x' as y %}{{ messages }}"), ["chat_template", "import"]),
    "club-3090#1250: a template does not end": (template("{% for m in messages %}"), ["chat_template", "endfor"]),
    "another architecture": (lambda model: model.edit("config.json", architectures=["LlamaForCausalLM"]),
                             ["LlamaForCausalLM"]),
    "fewer tokens than the tokenizer has": (lambda model: model.edit("config.json", vocab_size=4000), ["4000"]),
    "no tokenizer": (lost_file("tokenizer.json"), ["tokenizer.json"]),
    "no configuration": (lost_file("config.json"), ["config.json"]),
}


@pytest.mark.parametrize("report", BROKEN)
def test_a_broken_model_is_not_served(nibble, model, report):
    change, says = BROKEN[report]
    change(model)
    model.write()
    result = nibble("serve", "--port", "0", "--model", model.folder)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("nibble: ") and result.stderr.count("\n") == 1, result.stderr
    for word in says:
        assert word in result.stderr


def test_a_file_that_is_cut_off_is_not_served(nibble, model):
    path = model.folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    result = nibble("serve", "--port", "0", "--model", model.folder)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert "model.safetensors" in result.stderr and "1000" in result.stderr.replace(",", "")


def test_a_copy_is_served_like_the_built_in_one(binary, model):
    """The changes above are what is refused: an unchanged copy is not."""
    model.write()
    asked = {"prompt": "The river", "max_tokens": 12, "temperature": 0}
    with serving(binary, "--model", model.folder) as copy, serving(binary) as built_in:
        assert copy.post("/v1/completions", **asked)["choices"] == built_in.post("/v1/completions", **asked)["choices"]


def test_a_model_without_a_template_has_no_chats(binary, model):
    template(None)(model)
    with serving(binary, "--model", model.folder) as server:
        status, text = server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})
        assert status == 400 and "chat template" in text
        assert server.post("/v1/completions", prompt="a", max_tokens=2)["choices"]


def test_a_model_that_gives_nan_answers_with_errors(binary, model):
    """vllm's corrupted_requests: NaN served as text. The norm's weight is no number: every logit is none."""
    fill("model.norm.weight", 0, b"\xc0\x7f")(model)
    model.write()
    with serving(binary, "--model", model.folder) as server:
        for _ in range(2):
            status, text = server.ask("/v1/completions", {"prompt": "The river", "max_tokens": 4})
            assert status == 500 and "finite" in json.loads(text)["error"]["message"]
        state = server.state()
        assert state["nonfinite_logits"] >= 2 and state["choices"]["error"] == 2
        assert server.comes_to_rest()
