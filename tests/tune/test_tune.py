"""nibble tune on the CPU: the real program, its workers, its file, and its audit."""
import json
import re
import subprocess

import jsonschema
import pytest

from conftest import environment

# Budgets so small that the tests are quick: what is chosen does not matter.
SHORT = ("--tokens", "1,4", "--seconds", "0.05", "--replays", "3")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def tune(nibble, cache, source_dir):
    def run(*words, model=True):
        of_model = ("--model", str(source_dir / "data/tiny")) if model else ()
        return nibble("tune", *of_model, *words, env=environment(XDG_CACHE_HOME=str(cache)))

    return run


@pytest.fixture(scope="module")
def tuned(nibble, cache, source_dir, tmp_path_factory):
    """A tuning file of the embedded model, and what was printed."""
    path = tmp_path_factory.mktemp("tuned") / "cpu.json"
    result = nibble("tune", "--model", str(source_dir / "data/tiny"), *SHORT, "--output", str(path),
                    env=environment(XDG_CACHE_HOME=str(cache)))
    assert result.returncode == 0, result.stderr
    return path, result


def validator(source_dir, name):
    schema = json.loads((source_dir / f"docs/schemas/nibble.{name}.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def assert_refused(result, status, *parts):
    assert result.returncode == status, result.stdout
    assert result.stdout == ""
    assert re.fullmatch(r"nibble: .*\n", result.stderr), result.stderr
    for part in parts:
        assert part in result.stderr


def test_the_file(tuned, source_dir):
    path, result = tuned
    assert result.stderr == ""  # quiet in a pipe
    file = json.loads(path.read_text())
    validator(source_dir, "tuning").validate(file)
    config = json.loads((source_dir / "data/tiny/config.json").read_text())
    keys = [(entry["key"]["op"], entry["key"]["n"], entry["key"]["k"], entry["key"]["tokens"],
             entry["key"]["from_tokens"]) for entry in file["entries"]]
    inner, hidden = config["moe_intermediate_size"], config["hidden_size"]
    assert keys == [("moe.gate_up", 2 * inner, hidden, 1, 1), ("moe.gate_up", 2 * inner, hidden, 4, 2),
                    ("moe.down", hidden, inner, 1, 1), ("moe.down", hidden, inner, 4, 2)]
    for entry in file["entries"]:
        assert entry["key"]["experts"] == config["num_experts"]
        assert entry["rejected"] == []  # every CPU kernel is right
        assert entry["checked_tokens"] == sorted({entry["key"]["from_tokens"], entry["key"]["tokens"]})
        chosen = [timed for timed in entry["times"] if timed["standing"] == "chosen"]
        assert [timed["text"] for timed in chosen] == [entry["choice_text"]]
        # 1 / ratio - 1 and 1 - ratio, of the choice.
        assert entry["regret_of_default"] == pytest.approx(1 / chosen[0]["ratio"] - 1)
        assert entry["gain"] == pytest.approx(1 - chosen[0]["ratio"])
        assert all(timed["median_us"] > 0 for timed in entry["times"])
    assert not list(path.parent.glob(".nibble-*"))  # nothing half-written is left


def test_the_table(tuned):
    path, result = tuned
    assert str(path) in result.stdout
    assert "moe.gate_up" in result.stdout and "moe.down" in result.stdout
    assert "default: cpu" in result.stdout


def test_what_is_known_is_not_measured_again(tune, tuned, tmp_path):
    path = tmp_path / "copy.json"
    path.write_bytes(tuned[0].read_bytes())
    again = tune(*SHORT, "--output", str(path))
    assert again.returncode == 0
    assert "4 keys were in the file already" in again.stdout
    assert path.read_bytes() == tuned[0].read_bytes()
    anew = tune(*SHORT, "--output", str(path), "--again", "--json")
    assert anew.returncode == 0
    assert json.loads(anew.stdout) == json.loads(path.read_text())
    assert json.loads(path.read_text())["taken_unix_s"] > json.loads(tuned[0].read_text())["taken_unix_s"]
    more = tune("--tokens", "16", "--seconds", "0.05", "--replays", "3", "--output", str(path))
    assert more.returncode == 0
    assert len(json.loads(path.read_text())["entries"]) == 6


# Two processes, begun at once with different seeds: one measures, the other takes its choices.
def test_two_ranks_come_to_one_choice(binary, cache, source_dir, tmp_path):
    path = tmp_path / "shared.json"
    ranks = [subprocess.Popen([binary, "tune", "--model", str(source_dir / "data/tiny"), *SHORT,
                               "--seed", str(rank), "--output", str(path), "--json"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              env=environment(XDG_CACHE_HOME=str(cache)), text=True)
             for rank in (1, 2)]
    said = [json.loads(rank.communicate(timeout=120)[0]) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert said[0]["entries"] == said[1]["entries"] == json.loads(path.read_text())["entries"]


def test_audit(tune, tuned, source_dir):
    path = str(tuned[0])
    whole = tune("--audit", path, "--json", model=False)
    assert whole.returncode == 0, whole.stderr
    document = json.loads(whole.stdout)
    validator(source_dir, "tuning_audit").validate(document)
    assert len(document["entries"]) == 4 and document["missing"] == []
    missing = tune("--audit", path, "--tokens", "1,4,64", "--on", "cpu")
    assert missing.returncode == 3
    assert missing.stdout.count("missing: ") == 2
    assert "64 tokens: the file ends at 4 tokens, default taken" in missing.stdout
    assert f"{path} is of use on cpu" in missing.stdout
    # Another rank's shape: a quarter of the columns that the file is for.
    other = tune("--audit", path, "--tokens", "1", "--tp", "2", "--json")
    assert other.returncode == 3
    whys = [one["why"] for one in json.loads(other.stdout)["missing"]]
    assert len(whys) == 2
    assert all("the file is for another rank's shape" in why and "not used" in why for why in whys)


def changed(tuned, tmp_path, **changes):
    file = json.loads(tuned[0].read_text())
    for name, value in changes.items():
        (file if name in file else file["site"])[name] = value
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(file))
    return path


def test_stale_files(tune, tuned, tmp_path):
    path = changed(tuned, tmp_path, kernel_version="nibble 0.0.0 avx2")
    stale = tune("--audit", str(path), "--on", "cpu", model=False)
    assert "is not used on cpu: it was made with kernels nibble 0.0.0 avx2" in stale.stdout
    anew = tune(*SHORT, "--output", str(path))
    assert anew.returncode == 0
    assert "is measured anew: it was made with kernels nibble 0.0.0 avx2" in anew.stdout
    path = changed(tuned, tmp_path, device="NVIDIA H200", units=132)
    before = path.read_bytes()
    assert_refused(tune(*SHORT, "--output", str(path)), 2, "is of another device", "--output")
    assert path.read_bytes() == before


@pytest.mark.parametrize("text,part", [
    (None, "there is no tuning file"), ("{", "line 1"), ("[]", "is no tuning file"),
    ('{"schema": "nibble.tuning/2"}', "reads nibble.tuning/1"),
    ('{"schema": "nibble.tuning/1"}', "version")])
def test_files_that_cannot_be_read(tune, tmp_path, text, part):
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    assert_refused(tune("--audit", str(path), model=False), 2, part, str(path))
    if text is not None:
        assert_refused(tune(*SHORT, "--output", str(path)), 2, part)
        assert path.read_text() == text


@pytest.mark.parametrize("words,part", [
    (("--tokens", "0"), "--tokens"), (("--seconds", "-1"), "--seconds"), (("--replays", "1"), "--replays"),
    (("--routing", "sideways"), "--routing"), (("--on", "tpu"), "--on"),
    (("--activations", "fp16"), "fp16"), (("--output", "/proc/none/t.json"), "/proc/none")])
def test_usage(tune, words, part):
    assert_refused(tune(*words), 2, part)


def test_it_needs_a_model(tune):
    assert_refused(tune(model=False), 2, "--model")
    assert_refused(tune("--audit", "x.json", "--seconds", "1"), 2, "--seconds does not apply")


def test_recorded_routing(tune, tmp_path, source_dir):
    experts = json.loads((source_dir / "data/tiny/config.json").read_text())["num_experts"]
    routing = tmp_path / "routing.json"
    routing.write_text(json.dumps({"schema": "nibble.routing/1",
                                   "counts": [at % 5 for at in range(experts)]}))
    path = tmp_path / "recorded.json"
    result = tune("--tokens", "2", *SHORT[2:], "--routing", str(routing), "--output", str(path))
    assert result.returncode == 0, result.stderr
    assert {entry["routing"] for entry in json.loads(path.read_text())["entries"]} == {str(routing)}
    routing.write_text(json.dumps({"schema": "nibble.routing/1", "counts": [1, 2, 3, 4]}))
    assert_refused(tune(*SHORT, "--routing", str(routing)), 2, "4 experts", f"the layer has {experts}")


def test_progress_on_a_terminal(nibble_in_terminal, cache, source_dir, tmp_path):
    status, shown = nibble_in_terminal("tune", "--model", str(source_dir / "data/tiny"), "--tokens", "1",
                                       *SHORT[2:], "--output", str(tmp_path / "t.json"), width=120,
                                       XDG_CACHE_HOME=str(cache))
    assert status == 0
    assert "tuning" in shown and "checking" in shown


# The worker by itself: what is no job or no request is answered, and nothing ends it but its input.
def test_the_worker_answers_lines(binary):
    def ask(*lines):
        result = subprocess.run([binary, "tune", "--worker"], input="".join(line + "\n" for line in lines),
                                capture_output=True, text=True, timeout=60)
        return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]

    job = json.dumps({"on": "cpu", "routing": "random", "tokens": [1], "experts": 4, "seed": 1})
    key = {"op": "moe.down", "experts": 4, "top_k": 2, "n": 64, "k": 128, "format": "nvfp4",
           "activations": "bf16", "tokens": 1, "from_tokens": 1}
    tactic = {"op": "moe.down", "family": "cpu", "isa": "portable", "threads": 1}
    status, answers = ask(job, "rubbish", json.dumps({"do": "time", "key": key, "tactic": tactic, "round": 0}),
                          json.dumps({"do": "time", "key": key, "tactic": {**tactic, "op": "gemm"}, "round": 0}),
                          json.dumps({"do": "check", "key": key, "tactic": tactic, "tokens": 1, "repeats": 4}))
    assert status == 0
    assert answers[0] == {"ready": True}
    assert "failed" in answers[1] and answers[2]["us"] > 0
    assert "a tactic is of one operation" in answers[3]["failed"]
    assert answers[4]["error"] <= answers[4]["limit"]
    assert len(answers[4]["digests"]) == 4 and len(set(answers[4]["digests"])) == 1
    status, answers = ask('{"on": "cpu"}')
    assert status == 1 and "failed" in answers[0]
