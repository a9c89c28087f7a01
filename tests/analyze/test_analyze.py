"""`nibble analyze` end to end: known answers, schemas, flags, and every kind of bad input."""
import itertools
import json
import re

import jsonschema
import pytest

GLM5 = ("analyze", "--model", "glm-5-nvfp4", "--machine", "rtx-pro-6000-server", "--tp", "8")


@pytest.fixture(scope="session")
def schema(source_dir):
    return json.loads((source_dir / "docs/schemas/nibble.ledger.1.json").read_text())


@pytest.fixture(scope="session")
def ledger(nibble, schema):
    """Runs analyze with --json, checks the document against its schema, and returns it."""

    def run(*words):
        result = nibble(*words, "--json")
        assert result.returncode == 0, result.stderr
        document = json.loads(result.stdout)
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
        return document

    return run


def near(expected, share=0.01):
    return pytest.approx(expected, rel=share)


def op(level, name):
    return next(o for o in level["ops"] if o["name"] == name)


def catalog(source_dir, kind):
    return sorted(path.stem for path in (source_dir / "data" / kind).glob("*.json"))


# ---- known answers ------------------------------------------------------------------------------

def test_expert_weights_of_glm5_at_1024_tokens(ledger):
    # 256 x 3 x 6144 x 2048 / 8 x 0.5625 B = 679.5 MB a layer; 75 layers at 1597 GB/s = 31.9 ms
    level = ledger(*GLM5, "--concurrency", "1024")["levels"][0]
    layer = op(level, "moe.gate_up")["weight_bytes"] + op(level, "moe.down")["weight_bytes"]
    assert layer == near(679.5e6)
    assert 75 * layer / 1597e9 == near(31.9e-3)
    assert op(level, "moe.gate_up")["count"] == 75


def test_ring_all_reduce_of_1024_tokens(ledger):
    # 2 * 7/8 * 1024 * 6144 * 2 B / 64 GB/s = 344.1 us, 156 of them
    words = ("--concurrency", "1024", "--link", "64", "--link-latency-us", "0", "--all-reduce", "ring")
    level = ledger(*GLM5, *words)["levels"][0]
    assert op(level, "attn.all_reduce")["link_us"] == near(344.06, 1e-4)
    assert level["link_us"] == near(156 * 344.06, 1e-4)


STEPS = [  # facts on MoE arithmetic, 4.6: context, concurrency -> distinct, weights GB, KV GB, ms
    ("glm-5.2-nvfp4", "rtx-pro-6000-workstation", 8, 4096, 32, 163.3, 39.47, 3.72, 24.10),
    ("deepseek-r1", "h200", 8, 4096, 128, 251.6, 83.29, 36.84, 25.03),
    ("qwen3-30b-a3b", "h200", 1, 1024, 256, 128, 60.44, 25.77, 17.96),
]


@pytest.mark.parametrize("model,machine,tp,context,concurrency,distinct,weights,kv,ms", STEPS)
def test_step_table(ledger, model, machine, tp, context, concurrency, distinct, weights, kv, ms):
    level = ledger("analyze", "--model", model, "--machine", machine, "--tp", str(tp), "--context",
                   str(context), "--concurrency", str(concurrency))["levels"][0]
    assert level["distinct_experts"] == pytest.approx(distinct, abs=0.06)
    assert level["weight_bytes"] == near(weights * 1e9)
    assert level["kv_bytes"] == near(kv * 1e9)
    assert level["weights_and_kv_us"] == near(ms * 1e3)
    assert level["step_us"] >= level["weights_and_kv_us"]


def test_parameters(ledger):
    model = ledger(*GLM5)["model"]
    assert model["parameters_total"] == near(743.9e9, 0.005)
    assert model["parameters_active"] == near(40.8e9, 0.005)


def test_a_level_is_the_sum_of_its_operations(ledger):
    for level in ledger(*GLM5, "--concurrency", "1..256", "--context", "1000")["levels"]:
        for kind in ("weight_bytes", "kv_bytes", "activation_bytes", "link_bytes", "flop", "link_us"):
            assert level[kind] == near(sum(o["count"] * o[kind] for o in level["ops"]), 1e-9)
        assert level["step_us"] == near(sum(o["total_us"] for o in level["ops"]), 1e-9)
        bound = sum(level[f"bound_{term}_us"] for term in ("memory", "compute", "link", "launch"))
        assert level["step_us"] == near(bound + level["pipeline_bubble_us"], 1e-9)
        for o in level["ops"]:
            terms = (o["memory_us"], o["compute_us"], o["link_us"])
            assert o["floor_us"] == near(max(terms) + o["launch_us"], 1e-9)


# ---- what changes what --------------------------------------------------------------------------

def test_half_the_bandwidth_doubles_the_memory_time(ledger):
    full = ledger(*GLM5, "--concurrency", "64")["levels"][0]
    half = ledger(*GLM5, "--concurrency", "64", "--bandwidth-efficiency", "0.5")["levels"][0]
    assert half["memory_us"] == near(2 * full["memory_us"], 1e-9)
    number = ledger(*GLM5, "--concurrency", "64", "--set", "bandwidth_gb_s=798.5")["levels"][0]
    assert number["memory_us"] == near(half["memory_us"], 1e-9)


def test_a_sparse_peak_is_halved(ledger):
    def peak(*words):
        machine = ledger(*GLM5, *words)["machine"]
        return machine["peaks"]["fp4"]["dense_tflops"]["value"]

    assert peak("--peak", "fp4=4000", "--peak-is", "sparse") == near(2000, 1e-9)
    assert peak("--peak", "fp4=4000", "--peak-is", "dense") == near(4000, 1e-9)


def test_the_output_says_what_hangs_on_the_peak(ledger):
    for concurrency, verdict in (("8", "does not matter"), ("8192", "matters")):
        words = ("--concurrency", concurrency, "--context", "128", "--link", "10000")
        found = ledger(*GLM5, *words)["findings"]
        assert [f["verdict"] for f in found if f["id"] == "step.peak_sensitivity"] == [verdict]


def test_kv_format_and_draft_tokens(ledger):
    bf16 = ledger(*GLM5, "--kv-format", "bf16", "--concurrency", "8")["levels"][0]
    fp8 = ledger(*GLM5, "--kv-format", "fp8", "--concurrency", "8")["levels"][0]
    # at 4096 tokens: 2048 x 1152 + 4096 x 132 against 2048 x 656 + 4096 x 132
    assert bf16["kv_bytes"] / fp8["kv_bytes"] == near((2048 * 1152 + 4096 * 132) / (2048 * 656 + 4096 * 132), 1e-3)
    draft = ledger(*GLM5, "--concurrency", "8", "--draft-tokens", "3")["levels"][0]
    assert draft["rows"] == 32 and draft["distinct_experts"] == pytest.approx(163.3, abs=0.06)


def test_skewed_routing_touches_fewer_experts(ledger, tmp_path):
    uniform = ledger(*GLM5, "--concurrency", "32")["levels"][0]["distinct_experts"]
    zipf = ledger(*GLM5, "--concurrency", "32", "--routing", "zipf:1")["levels"][0]["distinct_experts"]
    assert zipf == near(105.5, 0.03) and zipf < uniform  # simulated: 105.5
    counts = tmp_path / "counts.json"
    counts.write_text(json.dumps({"schema": "nibble.routing/1", "counts": [1] * 256}))
    recorded = ledger(*GLM5, "--concurrency", "32", "--routing", str(counts))["levels"][0]
    assert recorded["distinct_experts"] == near(uniform, 1e-9)


def test_compare_says_what_does_not_fit(ledger, nibble):
    # Kimi-K2 in fp8 is about 1,030 GB: no four or eight H200 of 141 GB hold it.
    words = ("analyze", "--model", "kimi-k2", "--machine", "h200", "--tp", "4", "--concurrency", "8", "--compare", "tp=8")
    assert ledger(*words)["compare"][0]["capacity"]["tokens"] == 0
    text = nibble(*words).stdout
    assert text.count("the weights alone take") >= 2


def test_what_the_machine_lacks_is_said(ledger):
    gate_up = op(ledger("analyze", "--model", "glm-5-nvfp4", "--machine", "h200", "--tp", "8")["levels"][0], "moe.gate_up")
    assert gate_up["precision"] == "bf16" and gate_up["format"] == "nvfp4 x bf16" and "bf16" in gate_up["note"]


def test_blocks_cut_by_the_layout_are_a_finding(ledger):
    document = ledger("analyze", "--model", "qwen3-30b-a3b-fp8", "--machine", "h200", "--tp", "8")
    sentences = [f["sentence"] for f in document["findings"] if f["id"] == "layout.block_alignment"]
    assert len(sentences) == 1 and "K = 96" in sentences[0]


def test_compare_layouts(ledger):
    document = ledger(*GLM5, "--concurrency", "512", "--compare", "tp=4,pp=2", "--compare", "tp=7")
    pipeline, refused = document["compare"]
    assert pipeline["layout"]["text"].startswith("TP4 x PP2") and pipeline["levels"]
    assert refused["levels"] == [] and "64 does not divide by --tp 7" in refused["refused"]


def test_prefill(ledger):
    prefill = ledger(*GLM5, "--prefill", "2048")["prefill"]
    assert prefill["rows"] == 2048 and prefill["step_us"] > 0


def test_a_checkpoint_folder_and_a_config_file(ledger, source_dir, tmp_path):
    entry = json.loads((source_dir / "data/models/glm-5-nvfp4.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(entry["config"]))
    if "hf_quant_config" in entry:
        (tmp_path / "hf_quant_config.json").write_text(json.dumps(entry["hf_quant_config"]))
    known = ledger(*GLM5)["levels"]
    words = ("analyze", "--machine", "rtx-pro-6000-server", "--tp", "8", "--model")
    assert ledger(*words, str(tmp_path))["levels"] == known


# ---- every catalog entry ------------------------------------------------------------------------

def test_the_catalogs_are_large_enough(source_dir):
    assert len(catalog(source_dir, "models")) >= 13
    assert len(catalog(source_dir, "machines")) >= 14


def test_every_model_on_every_machine(nibble, schema, source_dir):
    models, machines = catalog(source_dir, "models"), catalog(source_dir, "machines")
    validator = jsonschema.Draft202012Validator(schema)
    for number, (model, machine) in enumerate(itertools.product(models, machines)):
        layout = (["--tp", "8"], ["--tp", "4", "--pp", "2"], ["--tp", "8", "--dp-attention"])[number % 3]
        result = nibble("analyze", "--model", model, "--machine", machine, *layout, "--concurrency", "1,100", "--json")
        assert result.returncode == 0, f"{model} on {machine}: {result.stderr}"
        document = json.loads(result.stdout)
        if number % 7 == 0:  # the schema check is slow in Python
            validator.validate(document)
        for level in document["levels"]:
            assert level["step_us"] >= level["weights_and_kv_us"] > 0
            assert 0 < level["tensor_activity"] <= 1


# ---- the case -----------------------------------------------------------------------------------

def test_the_case_answers_fourteen_points(ledger):
    document = ledger("analyze", "--case", "glm5_rtxpro6000")
    points = {finding.get("point", 0) for finding in document["findings"]}
    assert set(range(1, 15)) <= points
    for finding in document["findings"]:
        assert finding["sentence"] and finding["confidence"]
        if finding["value"] is not None:
            assert finding["formula"] and finding["inputs"], finding["id"]


def test_the_case_in_words(nibble):
    text = nibble("analyze", "--case", "glm5_rtxpro6000").stdout
    text = re.sub(r"\s+", " ", text)
    for number in ("54.86", "1158", "31.91", "639.6", "743.9", "101,376", "unexplained"):
        assert number in text, number


def test_the_peak_moves_the_ridge_of_the_case(ledger):
    def ridge(*words):
        kernels = ledger("analyze", "--case", "glm5_rtxpro6000", *words)["case"]["kernels"]
        return next(k["ridge_flop_per_byte"] for k in kernels if "nvfp4" in k["label"])

    assert ridge() == near(1850e12 / 1597e9, 1e-3)
    assert ridge("--peak-is", "dense") == near(3700e12 / 1597e9, 1e-3)


def test_the_report_is_written(nibble, tmp_path):
    folder = tmp_path / "a" / "report"
    result = nibble("analyze", "--case", "glm5_rtxpro6000", "--report", str(folder))
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "report.json", "report.md"]
    assert str(folder / "report.html") in result.stdout
    assert json.loads((folder / "report.json").read_text())["schema"] == "nibble.ledger/1"


# ---- bad input: one clear sentence, exit status 2 ------------------------------------------------

BAD = [
    (("--model", "glm5-nvfp4"), ["glm-5-nvfp4"]),                       # nearest name offered
    (("--machine", "rtx6000"), ["rtx-pro-6000"]),
    (("--model", "/no/such/config.json"), ["/no/such/config.json"]),
    (("--tp", "7"), ["64", "7"]),
    (("--tp", "0"), ["--tp", "0"]),
    (("--tp", "-8"), ["--tp", "-8"]),
    (("--tp", "eight"), ["--tp", "eight"]),
    (("--tp", "99999999999999999999"), ["--tp"]),
    (("--ep", "512"), ["512"]),
    (("--ep", "3"), ["--ep 3"]),
    (("--pp", "79"), ["79", "78"]),
    (("--concurrency", "0"), ["--concurrency"]),
    (("--concurrency", "-1"), ["--concurrency"]),
    (("--concurrency", "1,,2"), ["--concurrency"]),
    (("--concurrency", ""), ["--concurrency"]),
    (("--concurrency", "1e400"), ["--concurrency"]),
    (("--context", "0"), ["--context"]),
    (("--context", "99999999"), ["--context", "202752"]),
    (("--kv-format", "fp7"), ["fp7"]),
    (("--routing", "zipf:-1"), ["zipf:-1"]),
    (("--routing", "no-such-file.json"), ["no-such-file.json"]),
    (("--bandwidth-efficiency", "1.5"), ["1.5"]),
    (("--bandwidth-efficiency", "nan"), ["nan"]),
    (("--link", "nvlink9"), ["nvlink9", "pcie5"]),
    (("--link", "-3"), ["-3"]),
    (("--link", "inf"), ["--link"]),
    (("--all-reduce", "tree"), ["tree"]),
    (("--tile", "128x0"), ["128x0"]),
    (("--peak", "fp4"), ["fp4"]),
    (("--peak", "fp5=100"), ["fp5"]),
    (("--peak", "fp4=-1"), ["-1"]),
    (("--set", "bandwith=100"), ["bandwidth_gb_s"]),
    (("--set", "bandwidth_gb_s=0"), ["0"]),
    (("--set", "bandwidth_gb_s=inf"), ["bandwidth_gb_s"]),
    (("--compare", "tp=2,zz=3"), ["zz"]),
    (("--at", "77"), ["77"]),
    (("--compare", "tp=4,tp=8"), ["tp twice"]),
    (("--peak-is", "sparse"), ["--peak"]),
    (("--set", "sms=100", "--set", "sms=120"), ["sms twice"]),
    (("--dp-attention",), ["--dp-attention"]),
    (("--pp-microbatches", "4"), ["--pp-microbatches"]),
    (("--case", "glm5_rtxpro6000"), ["--case"]),
    (("--memory-utilization", "0"), ["--memory-utilization"]),
    (("--draft-tokens", "-1"), ["--draft-tokens"]),
]


@pytest.mark.parametrize("words,names", BAD, ids=[" ".join(words) for words, _ in BAD])
def test_bad_flags(nibble, words, names):
    defaults = {"--model": "glm-5-nvfp4", "--machine": "rtx-pro-6000-server", "--tp": "1"}
    given = dict(defaults)
    rest = []
    if words[0] in given:
        given[words[0]] = words[1]
    else:
        rest = list(words)
    command = ["analyze", *(w for pair in given.items() for w in pair), *rest]
    result = nibble(*command)
    expect_sentence(result, names)


def expect_sentence(result, names):
    assert result.returncode == 2, (result.returncode, result.stdout[:300], result.stderr)
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("nibble: "), result.stderr
    for name in names:
        assert name in lines[0], lines[0]


def test_no_model(nibble):
    expect_sentence(nibble("analyze"), ["--model"])
    expect_sentence(nibble("analyze", "--model", "glm-5"), ["--machine"])


CONFIGS = [
    ("", ["config.json"]),
    ("{", ["config.json", "line 1"]),
    ("[]", ["object"]),
    ("{}", ["hidden_size"]),
    ('{"hidden_size": 64}', ["num_hidden_layers"]),
]


@pytest.mark.parametrize("text,names", CONFIGS, ids=[text or "empty" for text, _ in CONFIGS])
def test_bad_configs(nibble, tmp_path, text, names):
    path = tmp_path / "config.json"
    path.write_text(text)
    expect_sentence(nibble("analyze", "--model", str(path), "--machine", "h200"), names)


def test_a_truncated_config_is_refused_wherever_it_ends(nibble, source_dir, tmp_path):
    text = json.dumps(json.loads((source_dir / "data/models/qwen3-30b-a3b.json").read_text())["config"])
    path = tmp_path / "config.json"
    for end in range(0, len(text), 37):
        path.write_text(text[:end])
        expect_sentence(nibble("analyze", "--model", str(path), "--machine", "h200"), [str(path)])


CASES = [
    ({"unknwon": 1}, ["unknwon"]),
    ({"load": {"levels": [{"concurrency": -1, "output_tok_s": 5}]}}, ["concurrency"]),
    ({"load": {"levels": [{"concurrency": 8, "output_tok_s": -5}]}}, ["output_tok_s"]),
    ({"load": {"levels": [{"concurrency": 8, "itl_ms": {"p50": -1}}]}}, ["p50"]),
    ({"machine": {"bandwidth_gb_s": 0}}, ["bandwidth_gb_s"]),
    ({"schema": "nibble.case/9"}, ["nibble.case/9"]),
    ({"model": {"name": "no-such-model"}}, ["no-such-model"]),
]


@pytest.mark.parametrize("change,names", CASES, ids=[json.dumps(change)[:50] for change, _ in CASES])
def test_bad_cases(nibble, source_dir, tmp_path, change, names):
    case = json.loads((source_dir / "data/cases/glm5_rtxpro6000.json").read_text())
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(case.get(key), dict):
            case[key].update(value)
        else:
            case[key] = value
    path = tmp_path / "case.json"
    path.write_text(json.dumps(case))
    expect_sentence(nibble("analyze", "--case", str(path)), names)


def test_utilization_above_100_percent_and_truncation(nibble, source_dir, tmp_path):
    text = (source_dir / "data/cases/glm5_rtxpro6000.json").read_text()
    path = tmp_path / "case.json"
    case = json.loads(text)
    next(l for l in case["load"]["levels"] if "gpus" in l)["gpus"]["utilization_pct"][0] = 143
    path.write_text(json.dumps(case))
    expect_sentence(nibble("analyze", "--case", str(path)), ["utilization_pct", "143"])
    path.write_text(text[: len(text) // 2])
    expect_sentence(nibble("analyze", "--case", str(path)), ["line"])


def test_a_report_that_cannot_be_written(nibble, tmp_path):
    target = tmp_path / "file"
    target.write_text("keep")
    result = nibble(*GLM5, "--report", str(target))
    assert result.returncode in (1, 2) and len(result.stderr.strip().splitlines()) == 1
    assert target.read_text() == "keep"
