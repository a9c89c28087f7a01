"""Chat templates by jinja2, set up as transformers' apply_chat_template does.

  chat_templates.py write FOLDER                   golden files of tests/golden/chat_templates
  chat_templates.py real FIXTURE PATH...           compares nibble_render_fixture on templates found
                                                   below PATH (*.jinja, tokenizer_config.json)
  chat_templates.py fuzz FIXTURE SEED COUNT        the same on random snippets

families.json       templates of our own with the constructs of each family (chat_families.py)
conversations.json  what is rendered
expected.json       family -> list of [conversation, add_generation_prompt, variables, text or null];
                    null where jinja2 raises
snippets.json       [source, text or null], one construct each (chat_snippets.py)
"""
import datetime
import functools
import json
import pathlib
import random
import subprocess
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

import chat_families
import chat_snippets

NOW = 1_700_000_000  # 14 November 2023, 22:13:20 UTC


class Generation(jinja2.ext.Extension):
    """The blocks by which transformers marks what the assistant wrote; they only render here."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("render"), [], [], body).set_lineno(line)

    def render(self, caller):
        return caller()


@functools.lru_cache(maxsize=1)
def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(
        NOW, datetime.timezone.utc).strftime(form)
    return made


@functools.lru_cache(maxsize=8)
def compiled(source):
    return environment().from_string(source)


def render(source, messages, tools=None, add_generation_prompt=False, variables=None, tokens=None):
    """(text, None), or (None, why)."""
    try:
        arguments = {"documents": None, **(tokens or {}), **(variables or {})}
        arguments.update(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt)
        return compiled(source).render(**arguments), None
    except Exception as error:  # whatever Python raises within a template
        return None, f"{type(error).__name__}: {error}"


def tool(name, properties, required):
    return {"type": "function", "function": {
        "name": name, "description": f"Does {name} <well> & \"fast\" – größer",
        "parameters": {"type": "object", "properties": properties, "required": required}}}


def conversations():
    user = {"role": "user", "content": "How warm is it in Köln? "}
    system = {"role": "system", "content": "Be brief.\n"}
    call = {"id": "abcdef012", "type": "function",
            "function": {"name": "weather", "arguments": {"city": "Köln", "days": 3, "more": {"a": [1, 2.5, None, True]}}}}
    second = {"id": "ghijkl345", "type": "function",
              "function": {"name": "clock", "arguments": {}}}
    asked = {"role": "assistant", "content": "", "reasoning_content": "\nI should look.\n", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "abcdef012", "name": "weather", "content": "{\"warm\": 21}"}
    answer = {"role": "assistant", "content": "<think>\n21 it is\n</think>\n\nIt is 21 °C."}
    tools = [tool("weather", {"city": {"type": "string", "description": "where"},
                              "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                              "days": {"type": ["integer", "null"], "default": 1},
                              "tags": {"type": "array", "items": {"type": "string"}},
                              "grid": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
                              "at": {"oneOf": [{"type": "string", "description": "name"},
                                               {"type": "object", "properties": {"x": {"type": "number"}}}]},
                              "more": {"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "integer"}},
                                       "required": ["a"]}}, ["city"]),
             tool("clock", {}, [])]
    plain = {"role": "assistant", "content": "Hello 👋🏽 there"}
    return {
        "one": ([user], None),
        "system": ([system, user], None),
        "turns": ([user, plain, {"role": "user", "content": "And now?\n\n"}, answer, user], None),
        "system_turns": ([system, user, answer, {"role": "user", "content": "ใช่ 你好 \u200b e\u0301"}], None),
        "ends_with_answer": ([user, answer], None),
        "tools": ([user], tools),
        "tools_system": ([system, user], tools),
        "tool_call": ([system, user, asked, result, answer], tools),
        "tool_call_open": ([user, asked, result], tools),
        "two_calls": ([user, {"role": "assistant", "content": "Two things.", "tool_calls": [call, second]},
                       result, {**result, "tool_call_id": "ghijkl345", "content": "12:00"}], tools),
        "call_as_text": ([user, {"role": "assistant", "content": None, "tool_calls": [
            {"id": "abcdef012", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Köln\"}"}}]}, result], None),
        "parts": ([{"role": "user", "content": [{"type": "text", "text": " What is this? "}, {"type": "image"},
                                                 {"type": "text", "text": "And that?"}]}], None),
        "wrong_order": ([user, user], None),
        "developer": ([{"role": "developer", "content": "Rules."}, user], None),
        "channel_tags": ([user, {"role": "assistant", "content": "<|channel|>final<|message|>no"}], None),
        "empty": ([], None),
        "empty_content": ([{"role": "user", "content": ""}], None),
        "override": ([{"role": "system", "content": "/no_think /system_override Speak plainly."}, user], None),
    }


VARIABLES = [{}, {"enable_thinking": False}]


def write(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def dump(name, value):
        text = json.dumps(value, ensure_ascii=False, indent=0)
        (folder / name).write_text(text + "\n", encoding="utf-8")

    talks = conversations()
    expected = {}
    for name, (tokens, source) in chat_families.FAMILIES.items():
        expected[name] = []
        for talk, (messages, tools) in talks.items():
            for prompt in (False, True):
                for variables in VARIABLES:
                    text, _ = render(source, messages, tools, prompt, variables, tokens)
                    expected[name].append([talk, prompt, variables, text])
    dump("families.json", {name: {"tokens": tokens, "source": source}
                           for name, (tokens, source) in chat_families.FAMILIES.items()})
    dump("conversations.json", {name: {"messages": messages, "tools": tools}
                                for name, (messages, tools) in talks.items()})
    dump("expected.json", expected)
    dump("snippets.json", {"variables": chat_snippets.VARIABLES, "now": NOW,
                           "snippets": [[source, render(source, [], None, False, chat_snippets.VARIABLES)[0]]
                                        for source in chat_snippets.SNIPPETS]})


class Fixture:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={"TZ": "UTC"}, text=True, encoding="utf-8")

    def render(self, **line):
        self.process.stdin.write(json.dumps({"now": NOW, **line}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer.get("text"), answer.get("error")


def sources(paths):
    for path in map(pathlib.Path, paths):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.suffix in (".jinja", ".jinja2"):
                yield str(file), file.read_text(encoding="utf-8")
            elif file.name == "tokenizer_config.json":
                found = json.loads(file.read_text(encoding="utf-8")).get("chat_template")
                if isinstance(found, str):
                    yield str(file), found


def real(fixture, paths):
    """Every template over every conversation; says how many agree in all."""
    fixture = Fixture(fixture)
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    counts = {"equal": 0, "differ": 0, "refused": 0}
    for name, source in sources(paths):
        problems = []
        rendered = 0
        for talk, (messages, tools) in conversations().items():
            for prompt, variables in ((True, {}), (False, {"enable_thinking": False})):
                want, why = render(source, messages, tools, prompt, variables, tokens)
                got, error = fixture.render(source=source, messages=messages, tools=tools, tokens=tokens,
                                            add_generation_prompt=prompt, variables=variables)
                rendered += want is not None
                if got != want:
                    problems.append((talk, why or want[:3000], error or got[:3000]))
        refused = bool(problems) and all("not supported" in str(problem[2]) for problem in problems)
        kind = "equal" if not problems else "refused" if refused else "differ"
        counts[kind] += 1
        if problems:
            print(f"{kind}: {name}: {len(problems)} of 36 ({rendered} rendered); {problems[0]}")
    print(counts)
    return counts["differ"] == 0


def fuzz(fixture, seed, count):
    """Where both give a text it must be the same; jinja2 alone giving one is a refusal."""
    fixture = Fixture(fixture)
    generator = random.Random(seed)
    differ = refused = agreed = failed = 0
    for _ in range(count):
        source = chat_snippets.random_source(generator)
        want, why = render(source, [], None, False, chat_snippets.VARIABLES)
        if want is not None and " at 0x" in want:
            continue
        got, error = fixture.render(source=source, variables=chat_snippets.VARIABLES, messages=[])
        if got == want:
            agreed += want is not None
            failed += want is None
            continue
        if got is None and ("not supported" in error or "64 bits" in error or "printed" in error):
            refused += 1
            continue
        differ += 1
        if differ <= 25:
            print(f"{source!r}\n  jinja2: {want!r} {why}\n  nibble: {got!r} {error}")
    print(f"{agreed} equal, {failed} refused by both, {refused} by nibble alone, {differ} differ")
    return differ == 0


def main():
    mode, *rest = sys.argv[1:]
    if mode == "write":
        write(*rest)
    elif mode == "real":
        sys.exit(not real(rest[0], rest[1:]))
    elif mode == "fuzz":
        sys.exit(not fuzz(rest[0], int(rest[1]), int(rest[2])))
    else:
        sys.exit("chat_templates.py: give write, real or fuzz")


if __name__ == "__main__":
    main()
