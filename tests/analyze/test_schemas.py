"""Every document that nibble reads or writes is valid by its schema in docs/schemas."""
import json

import jsonschema
import pytest


def schema(source_dir, name):
    document = json.loads((source_dir / "docs/schemas" / f"nibble.{name}.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.mark.parametrize("kind,folder", [("machine", "machines"), ("case", "cases")])
def test_built_in_files(source_dir, kind, folder):
    validator = schema(source_dir, kind)
    paths = sorted((source_dir / "data" / folder).glob("*.json"))
    assert paths
    for path in paths:
        validator.validate(json.loads(path.read_text()))


def test_doctor(nibble, source_dir):
    schema(source_dir, "doctor").validate(json.loads(nibble("doctor", "--json").stdout))


def test_a_machine_that_was_written_can_be_read(nibble, source_dir, tmp_path):
    words = ("analyze", "--model", "glm-5-nvfp4", "--tp", "8", "--json", "--machine")
    first = json.loads(nibble(*words, "rtx-pro-6000-server").stdout)
    schema(source_dir, "machine").validate(first["machine"])
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(first["machine"]))
    again = json.loads(nibble(*words, str(path)).stdout)
    assert again["levels"] == first["levels"]


@pytest.mark.parametrize("counts,valid", [([1, 2, 3], True), ([[1], [2]], True), ([], False), ([-1], False)])
def test_routing(source_dir, counts, valid):
    document = {"schema": "nibble.routing/1", "counts": counts}
    assert schema(source_dir, "routing").is_valid(document) == valid


def test_every_case_is_explained_and_valid(nibble, source_dir):
    validator = schema(source_dir, "ledger")
    for path in sorted((source_dir / "data/cases").glob("*.json")):
        for name in (path.stem, str(path)):
            result = nibble("analyze", "--case", name, "--json")
            assert result.returncode == 0, result.stderr
            validator.validate(json.loads(result.stdout))
