"""Files of a room that are compiled together (cmake/NibblePrecompiled.cmake) read as if each stood alone.

Which files these are changes with every file that is added, and a build with a compiler launcher has none. So these
tests say what the compiler says only sometimes: that names of anonymous namespaces clash, and that a file lacks a
header of ours that another one brings.
"""
import re

import pytest

from test_includes import reached

DECLARED = re.compile(r"""
    ^(?:struct|class|enum\ class|enum)\ (\w+)
    | ^using\ (\w+)\ =
    | ^(?:inline|constexpr)\ [^\n(]*?\b(k[A-Z]\w*)\b
    | ^(?:(?:inline|constexpr|\[\[nodiscard\]\])\ )*[\w:<>,*&\ ]*?[\w>*&]\ ?[*&]?(\w+_\w+)\(""", re.M | re.X)
# Whatever may be a declaration: a name of the file's own, though a header that it lacks has the same.
OWN = re.compile(r"""
    (?:struct|class|enum|typename|using)\ (?:class\ |\w+::)*(\w+)
    | [\w>&*](?<!return)(?<!co_await)(?<!co_return)(?<!case)(?<!throw)\ [&*]?(\w+)\ ?[(;={,)]
    | \b(k[A-Z]\w*)\b\ *[,={}\[]""", re.X)


def code_of(path):
    text = re.sub(r'R"(\w*)\(.*?\)\1"|//[^\n]*|"(?:[^"\\\n]|\\.)*"', " ", path.read_text(), flags=re.S)
    return re.sub(r"^#include.*$", "", text, flags=re.M)


def names(pattern, code):
    return {name for match in pattern.finditer(code) for name in match.groups() if name}


def used_names(code):
    """Types and constants, and functions with an underscore where they are called; members left out."""
    return set(re.findall(r"(?<![\w.])(?<!->)(?<!::)([A-Z]\w+|k[A-Z]\w+|\w+_\w+(?=\())", code))


def rooms_of(root):
    """room: itself and all rooms that it may include."""
    lower = {}
    for path in root.glob("*/CMakeLists.txt"):
        found = re.search(r"^ +DEPENDS ([\w ]+)$", path.read_text(), re.M)
        lower[path.parent.name] = found[1].split() if found else []

    def closure(room):
        return {room}.union(*map(closure, lower.get(room, [])))
    return {room: closure(room) for room in lower}


def lacking(files, root, rooms):
    """What a file uses that headers of its rooms declare, and none that it includes."""
    table = {}
    for path in root.rglob("*.h"):
        for name in names(DECLARED, code_of(path)):
            table.setdefault(name, set()).add(str(path.relative_to(root)))
    for path in files:
        code, here = code_of(path), str(path.relative_to(root))
        have = reached(path, root) | {here}
        for name in sorted((used_names(code) & table.keys()) - names(OWN, code)):
            room = rooms.get(here.split("/")[0], ())
            seen = {header for header in table[name] if header.split("/")[0] in room}
            if seen and not table[name] & have:
                yield f"{here}: {name} needs {' or '.join(sorted(seen))}"


def hidden_names(code):
    """(name, what tells it from another of that name) in the file's anonymous namespaces."""
    for space in re.findall(r"^namespace \{$(.*?)^\}  ?(?=\s|$)|^namespace \{$(.*)", code, re.M | re.S):
        text = space[0] or space[1]
        for found in re.finditer(r"^(?:struct|class|enum class|enum) (\w+)\b(?!;)", text, re.M):
            yield found[1], "type"
        for found in re.finditer(r"^using (\w+) =([^;]*);", text, re.M):
            yield found[1], "using" + found[2]
        for found in re.finditer(r"^(?:constexpr|const|std::atomic|thread_local)\b[^\n(;={]*?"
                                 r"\b(\w+)(?:\[\w*\])* ?[={;]", text, re.M):
            yield found[1], "value"
        for found in re.finditer(r"^(?![ }#]|TEST|static_assert|INSTANTIATE|using|struct|class|enum)"
                                 r"[^\n(;={]*?[ *&](\w+)(\([^)]*\)[^;{]*\{)", text, re.M):
            yield found[1], re.sub(r"\s+", " ", found[2])


def alike(parameters):
    """The parameters' types; those of texts are one, since a literal that one file gives to its own function may
    fit another's better."""
    inner = parameters[1:parameters.rindex(")")]
    while (flat := re.sub(r"<[^<>]*>|\([^()]*\)|\{[^{}]*\}", "", inner)) != inner:
        inner = flat
    types = [re.sub(r"\s*=.*|\s*\b\w+$", "", parameter.strip()) for parameter in inner.split(",")]
    text = re.compile(r"(?:const )?(?:char\s*\*|std::string_view|std::string\s*&?)")
    return tuple("text" if text.fullmatch(kind) else kind for kind in types)


def clashes(files):
    """Names that two files of one group of files give to things of their own."""
    first = {}
    for path in files:
        for name, kind in set(hidden_names(code_of(path))):
            key = (name, alike(kind) if kind.startswith("(") else "")
            other, there = first.setdefault(key, (path, kind))
            if other != path and not (kind == there and kind.startswith("using")):
                yield f"{path} and {other.name}: {name}"


def groups(root):
    """The sources and the tests of each room, without what is always compiled alone."""
    for cmake in sorted(root.glob("*/CMakeLists.txt")):
        text = cmake.read_text()
        if re.search(r"nibble_room\(\w+ .*\bSEPARATE\b", text):
            continue
        alone = " ".join(re.findall(r"set_source_files_properties\(([^)]*?)PROPERTIES", text)).split()
        listed = re.findall(r"[\w/]+\.cpp", text)
        for tests in (False, True):
            yield [cmake.parent / name for name in dict.fromkeys(listed)
                   if name.endswith("_test.cpp") == tests and name not in alone and "fixture" not in name]


def test_every_file_includes_the_headers_of_ours_that_it_uses(source_dir):
    root = source_dir / "src"
    files = sorted(path for path in root.rglob("*") if path.suffix in (".h", ".cpp"))
    assert len(files) > 500
    assert list(lacking(files, root, rooms_of(root))) == []


def test_no_two_files_of_a_room_use_one_name(source_dir):
    found = list(groups(source_dir / "src"))
    assert sum(map(len, found)) > 400
    assert [clash for files in found for clash in clashes(files)] == []


@pytest.mark.parametrize("text, fault", [
    ('#include "low/low.h"\nWidget a = make_widget(kMost);', []),
    ("Widget a;", ["Widget"]),
    ("auto a = make_widget(1);", ["make_widget"]),
    ("int a = kMost;", ["kMost"]),
    ("return make_widget(1);", ["make_widget"]),
    ("struct Widget {};\nWidget a;", []),  # its own
    ("const auto make_widget = [] {};\nint a = make_widget();", []),
    ("int a = other.make_widget(1);", []),
    ("Hidden a;", []),  # of a room that is not lower
])
def test_a_header_that_lacks_is_found(tmp_path, text, fault):
    for room in ("low", "room", "high"):
        (tmp_path / room).mkdir()
    (tmp_path / "low/low.h").write_text("struct Widget {\n};\nWidget make_widget(int a);\n"
                                        "inline constexpr int kMost = 3;\n")
    (tmp_path / "high/high.h").write_text("struct Hidden {\n};\n")
    path = tmp_path / "room/file.cpp"
    path.write_text(text + "\n")
    found = list(lacking([path], tmp_path, {"room": {"room", "low"}}))
    assert found == [f"room/file.cpp: {name} needs low/low.h" for name in fault]


@pytest.mark.parametrize("one, two, clash", [
    ("constexpr int kMost = 1;", "constexpr int kMost = 1;", True),
    ("struct Case {\n};", "struct Case {\n};", True),
    ("using Words = int;", "using Words = int;", False),
    ("using Words = int;", "using Words = long;", True),
    ("int f(int a) {\n}", "long f(int a) {\n}", True),
    ("int f(int a) {\n}", "int f(long a) {\n}", False),
    ("int f(int a,\n      int b) {\n}", "int f(int a, int b) {\n}", True),
    ("int f(std::string_view a) {\n}", "int f(const char* what) {\n}", True),
    ("int f(int a) {\n  int kMost = 1;\n}", "constexpr int kMost = 1;", False),
])
def test_a_clash_is_found(tmp_path, one, two, clash):
    for name, text in (("one.cpp", one), ("two.cpp", two)):
        (tmp_path / name).write_text(f"namespace nibble {{\nnamespace {{\n\n{text}\n\n}}  // namespace\n}}\n")
    assert bool(list(clashes([tmp_path / "one.cpp", tmp_path / "two.cpp"]))) == clash
