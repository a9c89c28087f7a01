"""Fixtures of the tests of `nibble load`: a mock and a run of the program, each in the test's own folder."""
import json

import jsonschema
import pytest

import loadrun


@pytest.fixture
def mock(binary, tmp_path):
    """mock(itl_ms=2, faults=[...]) starts a `nibble mock`; all of them end with the test."""
    running = []

    def start(*words, **script):
        running.append(loadrun.Mock(binary, tmp_path / f"mock{len(running)}", *words, **script))
        return running[-1]

    yield start
    for one in running:
        one.stop()


@pytest.fixture
def load(binary, tmp_path):
    return loadrun.Loader(binary, tmp_path)


@pytest.fixture(scope="session")
def valid(source_dir):
    """valid("load", document) holds the document to docs/schemas/nibble.load.1.json."""
    validators = {}

    def check(name, document):
        if name not in validators:
            schema = json.loads((source_dir / f"docs/schemas/nibble.{name}.1.json").read_text())
            jsonschema.Draft202012Validator.check_schema(schema)
            validators[name] = jsonschema.Draft202012Validator(schema)
        problems = [f"{list(error.absolute_path)}: {error.message[:200]}"
                    for error in validators[name].iter_errors(document)]
        assert problems == []

    return check
