"""The rules of data/trace_ops.json and the schemas of traces."""
import itertools
import json
import re

import jsonschema
import pytest


def validator(source_dir, name):
    document = json.loads((source_dir / f"docs/schemas/nibble.{name}.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.fixture(scope="module")
def mapping(source_dir):
    return json.loads((source_dir / "data/trace_ops.json").read_text())


@pytest.fixture(scope="module")
def ledger_operations(source_dir):
    """The names that the ledger gives its operations."""
    text = "".join((source_dir / "src/ledger" / name).read_text()
                   for name in ("operations.cpp", "attention.cpp"))
    names = set(re.findall(r'"([a-z]+\.[a-z_]+|embed|lm_head)"', text))
    parts = itertools.product(re.findall(r'mlp\("(\w+)"', text), re.findall(r'prefix \+ "(\.\w+)"', text))
    return names | {prefix + part for prefix, part in parts}


def test_the_ledgers_names_were_found(ledger_operations):
    assert {"attn.core", "moe.gate_up", "dense.down", "shared.gate_up", "lm_head", "embed",
            "attn.all_reduce"} <= ledger_operations


def test_built_in_rules_are_valid(source_dir, mapping):
    validator(source_dir, "trace_ops").validate(mapping)


def test_each_rule_leads_to_an_operation_or_a_row(mapping, ledger_operations):
    known = ledger_operations | set(mapping["rows"])
    for rule in mapping["rules"]:
        assert {rule["op"], rule.get("then", rule["op"]), rule.get("otherwise", rule["op"])} <= known


def test_rows_cover_operations_of_the_ledger(mapping, ledger_operations):
    assert not set(mapping["rows"]) & ledger_operations
    for covered in mapping["rows"].values():
        assert set(covered) <= ledger_operations


def test_each_row_is_documented_and_used(source_dir, mapping):
    page = (source_dir / "docs/trace.md").read_text()
    used = {rule.get(key) for rule in mapping["rules"] for key in ("op", "then", "otherwise")}
    for row in mapping["rows"]:
        assert f"`{row}`" in page
        assert row in used


def test_each_rule_has_an_example(mapping):
    examples = [rule["example"] for rule in mapping["rules"]]
    assert len(set(examples)) == len(examples)


def document(**changes):
    kernel = {"name": "nvjet_a", "count": 1, "ms": 0.01}
    op = {"op": "gemm", "covers": ["attn.out"], "count": 1, "ms": 0.01, "kernels": [kernel]}
    return {"schema": "nibble.trace/1", "source": "a.json", "kind": "chrome", "engine": "vllm",
            "device": "", "steps": 1, "steps_by": "the whole trace", "step_ms": 0.01, "busy_ms": 0.01,
            "ops": [op], "notes": [], **changes}


@pytest.mark.parametrize("changes,valid", [
    ({}, True), ({"kind": "perf"}, False), ({"steps": 0}, False), ({"step_ms": -1}, False),
    ({"ops": [{}]}, False), ({"more": 1}, False), ({"schema": "nibble.trace/2"}, False)])
def test_schema_of_a_summary(source_dir, changes, valid):
    assert validator(source_dir, "trace").is_valid(document(**changes)) == valid
