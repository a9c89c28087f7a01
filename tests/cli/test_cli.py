"""The command line as a whole: help, mistakes, pipes, terminals, full disks."""
import json
import re
import subprocess
import unicodedata

import pytest

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def columns(line):
    """Columns of a terminal that the line takes."""
    line = ANSI.sub("", line)
    return sum(0 if unicodedata.combining(c) else 1 for c in line)


def commands(nibble):
    """Every command, as the help lists them."""
    listed = nibble("--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines() if re.match(r"  \S", line)]


def assert_usage_error(result, *parts):
    assert result.returncode == 2
    assert result.stdout == ""
    assert re.fullmatch(r"nibble: .*\n", result.stderr), result.stderr
    for part in parts:
        assert part in result.stderr


# ---- help and version --------------------------------------------------------------------------

def test_help_has_three_ways_in(nibble):
    text = nibble("--help").stdout
    assert "Usage: nibble COMMAND" in text
    for words in ((), ("-h",), ("help",)):
        result = nibble(*words)
        assert (result.returncode, result.stdout, result.stderr) == (0, text, "")


def test_every_command_explains_itself(nibble):
    names = commands(nibble)
    assert {"completion", "man", "help"} <= set(names)
    for name in names:
        result = nibble(name, "--help")
        assert result.returncode == 0 and result.stderr == ""
        assert f"Usage: nibble {name}" in result.stdout
        assert "--help, -h" in result.stdout
        if name != "help":
            assert nibble("help", name).stdout == result.stdout
        # help wins over other faults on the line
        assert nibble(name, "--no-such-option", "-h").stdout == result.stdout


def test_version(nibble):
    result = nibble("--version")
    assert result.returncode == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert re.fullmatch(r"nibble \d+\.\d+\.\d+", lines[0])
    assert lines[1].split()[0] == "build" and lines[2].split()[0] == "compiler"
    for line in lines[3:]:  # libraries: a version or path, or why they are not there
        assert re.search(r"not found|/", line), line
    assert_usage_error(nibble("--version", "doctor"), "--version", "doctor")


def test_manual_page_and_completions_are_printed(nibble):
    assert nibble("man").stdout.startswith(".TH NIBBLE 1")
    for shell, mark in (("bash", "complete -F"), ("zsh", "#compdef nibble"), ("fish", "complete -c")):
        assert mark in nibble("completion", shell).stdout


# ---- mistakes ----------------------------------------------------------------------------------

def test_unknown_command(nibble):
    assert_usage_error(nibble("completio"), '"completio"', "did you mean completion?")
    assert_usage_error(nibble("zzzzzzzz"), '"zzzzzzzz"', "nibble --help")
    assert_usage_error(nibble(""), '""')


def test_option_before_the_command(nibble):
    assert_usage_error(nibble("--json", "doctor"), "--json", "before the command")


def test_unknown_option_of_every_command(nibble):
    for name in commands(nibble):
        assert_usage_error(nibble(name, "--helq"), "--helq", "did you mean --help?")


def test_stray_word_of_every_command(nibble):
    for name in commands(nibble):
        assert_usage_error(nibble(name, "stray", "word"), "word")


def test_operand_faults(nibble):
    assert_usage_error(nibble("completion"), "SHELL", "bash, zsh, fish")
    assert_usage_error(nibble("completion", "tcsh"), '"tcsh"', "bash, zsh, fish")
    assert_usage_error(nibble("help", "nothing"), '"nothing"', "completion")


@pytest.mark.parametrize("word", ["a\nb", "\x1b[31mred", "\x07", "x" * 100_000])
def test_errors_stay_on_one_harmless_line(nibble, word):
    result = nibble(word)
    assert_usage_error(result)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.stderr)
    assert len(result.stderr) < 3000


# ---- where the output goes ---------------------------------------------------------------------

PRINTING = [("--help",), ("--version",), ("man",), ("completion", "bash")]


@pytest.mark.parametrize("words", PRINTING)
def test_pipes_carry_no_colour(nibble, words):
    assert "\x1b" not in nibble(*words).stdout


@pytest.mark.parametrize("words", PRINTING)
def test_a_reader_may_stop_early(binary, words):
    line = f'set -o pipefail; "{binary}" {" ".join(words)} | head -c 1'
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("words", PRINTING)
def test_a_full_disk_is_a_failure(binary, words):
    with open("/dev/full", "w") as full:
        result = subprocess.run([binary, *words], stdout=full, stderr=subprocess.PIPE, text=True,
                                timeout=60)
    assert result.returncode == 1
    assert result.stderr == "nibble: cannot write to standard output: No space left on device\n"


def test_closed_streams(binary):
    """A closed descriptor must not become the first file that is opened."""
    result = subprocess.run(["bash", "-c", f'"{binary}" --help >&-'], stderr=subprocess.PIPE,
                            text=True, timeout=60)
    assert result.returncode == 1
    assert result.stderr == "nibble: cannot write to standard output: Bad file descriptor\n"
    closed = subprocess.run(["bash", "-c", f'"{binary}" nothing 2>&- <&-'], timeout=60)
    assert closed.returncode == 2


@pytest.mark.parametrize("width", [60, 120])
def test_terminals_have_colour_and_a_width(nibble, nibble_in_terminal, width):
    for words in [("--help",)] + [(name, "--help") for name in commands(nibble)]:
        status, shown = nibble_in_terminal(*words, width=width)
        assert status == 0
        assert "\x1b[" in shown
        lines = shown.splitlines()
        assert max(map(columns, lines)) <= width, max(lines, key=columns)
        # the words are those of the pipe, but for the backslashes of broken command lines
        text = ANSI.sub("", shown).replace(" \\\n", "\n")
        assert text.split() == nibble(*words).stdout.split()


def test_no_color(nibble_in_terminal):
    assert "\x1b" not in nibble_in_terminal("--help", NO_COLOR="1")[1]


# ---- doctor ------------------------------------------------------------------------------------

def test_doctor_document_follows_its_schema(nibble, source_dir):
    import jsonschema

    result = nibble("doctor", "--json")
    assert result.returncode == 0, result.stderr
    schema = json.loads((source_dir / "docs/schemas/nibble.doctor.1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(result.stdout))


def test_doctor_in_a_pipe_and_on_terminals(nibble, nibble_in_terminal):
    result = nibble("doctor")
    assert result.returncode == 0 and result.stderr == ""
    assert result.stdout.strip() and "\x1b" not in result.stdout
    for width in (60, 120):
        status, shown = nibble_in_terminal("doctor", width=width)
        assert status == 0
        assert "\x1b[" in shown
        assert max(map(columns, shown.splitlines())) <= width
    assert "\x1b" not in nibble_in_terminal("doctor", NO_COLOR="1")[1]
