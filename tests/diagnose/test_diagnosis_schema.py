"""Diagnoses are valid by docs/schemas/nibble.diagnosis.1.json, and their bars add up."""
import json

import jsonschema
import pytest


@pytest.fixture(scope="module")
def validator(source_dir):
    schema = json.loads((source_dir / "docs/schemas/nibble.diagnosis.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("case", ["glm5_rtxpro6000", "glm52_rtxpro6000_spin", "deepseek_r1_h200"])
def test_a_case(nibble, validator, case):
    result = nibble("diagnose", "--case", case, "--json")
    assert result.returncode == 0, result.stderr
    diagnosis = json.loads(result.stdout)
    validator.validate(diagnosis)
    for level in diagnosis["levels"]:
        known = [bar["ms"] for bar in level["waterfall"] if bar["ms"] is not None]
        assert sum(known) == pytest.approx(level["measured_ms"], rel=1e-9)
        # In flight over the rate: every case states both.
        assert level["measured_ms"] == pytest.approx(level["users"] / level["output_rate"] * 1e3, rel=1e-9)


def test_a_null_without_its_reason_is_not_valid(nibble, validator):
    diagnosis = json.loads(nibble("diagnose", "--case", "glm5_rtxpro6000", "--json").stdout)
    bar = next(bar for bar in diagnosis["levels"][0]["waterfall"] if bar["ms"] is None)
    bar["reason"] = None
    assert not validator.is_valid(diagnosis)
