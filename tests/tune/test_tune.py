"""nibble tune on the CPU: the real program, its workers, its file and its audit."""
import fcntl
import json
import subprocess
import time

import pytest

from conftest import environment
from tuning_files import BF16, SHORT, assert_refused, bench_layer, cache, changed, tune, tuned, validator  # noqa: F401


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
    assert [one.name for one in path.parent.iterdir()] == [path.name]  # neither a part nor a lock is left


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


def test_audit(tune, tuned, source_dir):
    path = str(tuned[0])
    whole = tune("--audit", path, "--json", model=False)
    assert whole.returncode == 0, whole.stderr
    document = json.loads(whole.stdout)
    validator(source_dir, "tuning_audit").validate(document)
    assert len(document["entries"]) == 4 and document["missing"] == []
    missing = tune("--audit", path, "--tokens", "1,4,64", "--on", "cpu", *BF16)
    assert missing.returncode == 3
    assert missing.stdout.count("missing: ") == 2
    assert "64 tokens: the file ends at 4 tokens, default taken" in missing.stdout
    assert f"{path} is of use on cpu" in missing.stdout
    # Another rank's shape: a quarter of the columns that the file is for.
    other = tune("--audit", path, "--tokens", "1", "--tp", "2", "--json", *BF16)
    assert other.returncode == 3
    whys = [one["why"] for one in json.loads(other.stdout)["missing"]]
    assert len(whys) == 2
    assert all("the file is for another rank's shape" in why and "not used" in why for why in whys)


def test_the_summary_counts_what_the_table_shows(tune, tuned, source_dir):
    path = str(tuned[0])
    other = tune("--audit", path, "--tokens", "1", "--activations", "int8")
    assert other.returncode == 3
    assert "none of the file's keys is needed\nthe file holds 4 more keys" in other.stdout
    assert "keep the default" not in other.stdout
    document = json.loads(tune("--audit", path, "--tokens", "1", "--json", *BF16).stdout)
    validator(source_dir, "tuning_audit").validate(document)
    assert (document["needed"], len(document["entries"])) == (2, 4)
    assert "the file is for bf16 activations, moe.down" in other.stdout
    assert "another rank" not in other.stdout and "another model" not in other.stdout


# GLM-5's checkpoint has both in NVFP4, and the CPU takes it: what tune lacks is what bench moe runs.
def test_activations_are_the_checkpoints_as_of_bench_moe(tune, tuned, nibble):
    audited = nibble("tune", "--audit", str(tuned[0]), "--model", "glm-5-nvfp4", "--tp", "8", "--tokens", "1")
    assert audited.returncode == 3
    said = " ".join(audited.stdout.split())
    assert said.count("nvfp4 x nvfp4, 1 token: the file is for another model's shape and bf16 activations") == 2, said


def is_locked(path):
    with open(path, "a+", encoding="utf8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.fixture(scope="module")
def ranks(binary, cache, source_dir, tuned, tmp_path_factory):
    """Two processes that tune a rank's shapes into one stale file: the file, what each said, and the old file."""
    path = changed(tuned, tmp_path_factory.mktemp("ranks"), kernel_version="nibble 0.0.0 avx2")
    old = json.loads(path.read_text())

    def rank(*words):
        return subprocess.Popen([binary, "tune", "--model", str(source_dir / "data/tiny"), "--tp", "4", *SHORT,
                                 "--output", str(path), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                env=environment(XDG_CACHE_HOME=str(cache)), text=True)

    first = rank("--seed", "1")
    end = time.monotonic() + 60
    while not is_locked(f"{path}.lock"):
        assert first.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    second = rank("--seed", "2", "--json")
    told = json.loads(second.communicate(timeout=120)[0])
    said = first.communicate(timeout=120)[0]
    assert (first.returncode, second.returncode) == (0, 0)
    return path, said, told, old


# The first finds a file of other kernels and decides anew; the second, which would draw other numbers, waits for it
# and takes its choices. (That neither need be first is in tuner_test.cpp.)
def test_two_ranks_come_to_one_choice_in_a_stale_file(ranks, tuned):
    path, said, told, old = ranks
    assert "is measured anew: it was made with kernels nibble 0.0.0 avx2" in said
    file = json.loads(path.read_text())
    assert told["entries"] == file["entries"] and len(file["entries"]) == 4
    assert min(entry["taken_unix_s"] for entry in file["entries"]) > old["taken_unix_s"]
    assert file["site"]["kernel_version"] == json.loads(tuned[0].read_text())["site"]["kernel_version"]
    assert "--seed 1" in file["command"]


def test_a_stale_or_foreign_file_says_so(tune, tuned, tmp_path):
    path = changed(tuned, tmp_path, kernel_version="nibble 0.0.0 avx2")
    for words in ((), ("--on", "cpu")):
        stale = tune("--audit", str(path), *words, model=False)
        assert "is not used on cpu: it was made with kernels nibble 0.0.0 avx2" in stale.stdout
        assert stale.returncode == 3
    stale = json.loads(tune("--audit", str(path), "--json", model=False).stdout)
    assert stale["of_use"] is False and len(stale["notes"]) == 1
    path = changed(tuned, tmp_path, device="Another CPU")
    foreign = tune("--audit", str(path), model=False)
    assert foreign.returncode == 3 and "is not used on cpu: it was made on Another CPU" in foreign.stdout
    path = changed(tuned, tmp_path, device="NVIDIA H200", units=132)
    before = path.read_bytes()
    assert_refused(tune(*SHORT, "--output", str(path)), 2, "is of another device", "--output")
    assert path.read_bytes() == before
    assert not path.with_name(path.name + ".lock").exists()


def test_a_gpus_file_is_not_compared_without_a_gpu(tune, nibble, tuned, tmp_path):
    if json.loads(nibble("doctor", "--json").stdout)["gpus"]:
        pytest.skip("this machine has a GPU")
    path = changed(tuned, tmp_path, device="NVIDIA H200", units=132, driver="CUDA 13.0")
    audited = tune("--audit", str(path), model=False)
    assert audited.returncode == 0
    assert "was not compared with this machine: " in audited.stdout
    assert "NVIDIA H200, 132 SMs, driver CUDA 13.0" in audited.stdout
    assert json.loads(tune("--audit", str(path), "--json", model=False).stdout)["of_use"] is None
    assert tune("--audit", str(path), "--on", "cpu", model=False).returncode == 3


# One edit each of what nibble tune wrote.
@pytest.mark.parametrize("edit,part", [
    (lambda entry: entry.update(regret_of_default=5), "regret_of_default"),
    (lambda entry: entry.update(times=[], ties=[]), '"chosen"'),
    (lambda entry: entry.pop("choice_text"), "choice_text"),
    (lambda entry: entry.pop("checked_tokens"), "checked_tokens")])
def test_a_file_that_contradicts_itself(tune, nibble, cache, source_dir, tuned, tmp_path, edit, part):
    file = json.loads(tuned[0].read_text())
    edit(file["entries"][1])
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(file))
    assert_refused(tune("--audit", str(path), model=False), 2, f"{path}: entries[1]", part)
    assert_refused(bench_layer(nibble, cache, source_dir, "--tuning", str(path)), 2, part)


def test_no_control_characters_of_a_file_reach_the_terminal(tune, tuned, tmp_path):
    file = json.loads(tuned[0].read_text())
    file["site"]["device"] = "\x1b[2Jdevice"
    file["entries"][0]["note"] = "\x1b]0;note\x07"
    path = tmp_path / "escapes.json"
    path.write_text(json.dumps(file))
    shown = tune("--audit", str(path), model=False)
    assert "?[2Jdevice" in shown.stdout and "?]0;note?" in shown.stdout
    assert "\x1b" not in shown.stdout and "\x07" not in shown.stdout


def test_what_cannot_be_tuned_is_refused_before_anything_is_written(tune, tmp_path):
    path = tmp_path / "none.json"
    assert_refused(tune("--tokens", "1048576", "--output", str(path)), 2, "--tokens is 1048576", "1 to 65536")
    assert_refused(tune(*SHORT, "--routing", "nofile.json", "--output", str(path)), 2, "nofile.json",
                   "there is no such file", "balanced, random, and zipf:S")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ['{"schema": "nibble.tuning/2"}', "{"])
def test_what_is_not_ours_to_overwrite(tune, tmp_path, text):
    path = tmp_path / "theirs.json"
    path.write_text(text)
    assert_refused(tune(*SHORT, "--output", str(path)), 2, "give another --output, or move the file away")
    assert [one.name for one in tmp_path.iterdir()] == ["theirs.json"]
    assert_refused(tune(*SHORT, "--output", "/dev/null"), 2, "/dev/null is no regular file")


# On a terminal, where progress shows.
def test_again_with_recorded_routing(nibble_in_terminal, tune, ranks, cache, source_dir, tmp_path):
    experts = json.loads((source_dir / "data/tiny/config.json").read_text())["num_experts"]
    routing = tmp_path / "routing.json"
    routing.write_text(json.dumps({"schema": "nibble.routing/1",
                                   "counts": [at % 5 for at in range(experts)]}))
    path = tmp_path / "again.json"
    path.write_bytes(ranks[0].read_bytes())
    status, shown = nibble_in_terminal("tune", "--model", str(source_dir / "data/tiny"), "--again",
                                       "--tp", "4", "--tokens", "1,16", *SHORT[2:], "--routing", str(routing),
                                       "--output", str(path), width=120, XDG_CACHE_HOME=str(cache))
    assert status == 0, shown
    assert "tuning" in shown and "checking" in shown
    old = json.loads(ranks[0].read_text())["entries"]
    entries = json.loads(path.read_text())["entries"]
    assert [entry["key"]["tokens"] for entry in entries] == [1, 4, 1, 4, 16, 16]
    for entry in entries:
        before = [one for one in old if one["key"] == entry["key"]]
        if entry["key"]["tokens"] == 4:
            assert entry == before[0]
        else:
            assert entry["routing"] == str(routing)
            assert not before or entry["taken_unix_s"] > before[0]["taken_unix_s"]
    routing.write_text(json.dumps({"schema": "nibble.routing/1", "counts": [1, 2, 3, 4]}))
    assert_refused(tune(*SHORT, "--routing", str(routing)), 2, "4 experts", f"the layer has {experts}")


# Where choices are read: every one of them the next best instruction set on one thread, which no default is.
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
