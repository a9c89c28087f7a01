"""Each file includes what declares the names of std, fmt and Asio that it uses, itself or through our headers.

The compiler would say so, were not most of them in precompiled headers (cmake/NibblePrecompiled.cmake).
"""
import re

import pytest

# header: names that it declares. A name of several headers may come from any of them.
NAMES = {
    "algorithm": """
        adjacent_find all_of any_of binary_search clamp copy copy_backward copy_if copy_n count
        count_if equal fill fill_n find find_if find_if_not is_permutation is_sorted lower_bound
        make_heap max max_element min min_element minmax_element move none_of nth_element
        partial_sort pop_heap push_heap ranges remove replace replace_if reverse rotate sort
        sort_heap stable_partition stable_sort swap transform unique upper_bound""",
    "array": """
        array back_inserter begin distance end get iterator_traits make_move_iterator next prev size
        ssize""",
    "atomic": """
        atomic memory_order_acq_rel memory_order_acquire memory_order_relaxed memory_order_release""",
    "bit": "bit_cast bit_ceil bit_width rotr",
    "bitset": "bitset",
    "cctype": "isalnum isalpha isdigit ispunct isupper isxdigit tolower toupper",
    "charconv": "errc from_chars",
    "chrono": "chrono",
    "cmath": """
        abs acos ceil copysign cos erf erfc exp exp2 expm1 fabs floor fma fmod hypot ilogb
        isfinite isinf isnan ldexp lerp lgamma llround log log10 log1p log2 nan nanf nearbyint
        nextafter pow round signbit sin sqrt tan trunc""",
    "condition_variable": "condition_variable",
    "csignal": "raise signal",
    "cstddef": "byte nullptr_t ptrdiff_t size_t to_integer",
    "cstdint": "int16_t int32_t int64_t int8_t uint16_t uint32_t uint64_t uint8_t uintptr_t",
    "cstdio": """
        FILE clearerr fclose ferror fflush fopen fprintf fread ftell fwrite printf size_t
        snprintf tmpfile""",
    "cstdlib": "_Exit abort abs atof atoi free getenv malloc size_t strtod strtoll system",
    "cstring": "memcmp memcpy memset size_t strlen",
    "ctime": "size_t strftime time time_t tm",
    "deque": """
        back_inserter begin deque distance end erase_if iterator_traits make_move_iterator next prev
        size ssize""",
    "exception": "exception exception_ptr current_exception rethrow_exception",
    "filesystem": "error_code filesystem",
    "fstream": "ifstream ios istream ofstream ostream",
    "functional": "cref equal_to function greater hash less plus",
    "future": "future future_status promise",
    "initializer_list": "initializer_list",
    "ios": "hex ios",
    "iostream": "cin cout endl ios istream ostream",
    "istream": "getline istream",
    "iterator": """
        back_inserter begin distance end forward_iterator_tag istreambuf_iterator iterator_traits
        make_move_iterator next prev size ssize""",
    "limits": "numeric_limits",
    "list": """
        back_inserter begin distance end iterator_traits list make_move_iterator next prev size
        ssize""",
    "locale": "locale",
    "map": """
        back_inserter begin distance end erase_if initializer_list iterator_traits less
        make_move_iterator map next pair prev size ssize""",
    "memory": """
        enable_shared_from_this make_shared make_unique make_unique_for_overwrite shared_ptr
        unique_ptr weak_ptr""",
    "mutex": "lock_guard mutex unique_lock",
    "new": "bad_alloc exception set_new_handler",
    "numbers": "numbers",
    "numeric": "accumulate iota partial_sum",
    "optional": "nullopt optional",
    "ostream": "ostream",
    "queue": "priority_queue",
    "random": "gamma_distribution mt19937 mt19937_64 normal_distribution random_device uniform_int_distribution",
    "ratio": "milli",
    "set": """
        back_inserter begin distance end erase_if initializer_list iterator_traits less
        make_move_iterator next prev set size ssize""",
    "span": """
        as_bytes as_writable_bytes back_inserter begin distance end iterator_traits
        make_move_iterator next prev size span ssize""",
    "sstream": "ios istream istringstream ostream ostringstream",
    "stdexcept": "exception runtime_error",
    "string": """
        back_inserter begin distance end erase erase_if getline hash initializer_list
        iterator_traits make_move_iterator next prev size ssize stod stoi stoll stoul string
        to_string u32string""",
    "string_view": """
        back_inserter begin distance end hash iterator_traits make_move_iterator next prev size
        ssize string_view""",
    "system_error": "errc error_code generic_category system_error",
    "thread": "this_thread thread",
    "tuple": "forward get pair tie tuple",
    "type_traits": """
        bool_constant decay_t false_type is_enum_v is_floating_point_v is_pointer_v is_same_v
        is_trivially_copyable_v remove_const_t remove_pointer_t remove_reference_t
        type_identity_t""",
    "unordered_map": """
        back_inserter begin distance end erase_if iterator_traits make_move_iterator next pair prev
        size ssize unordered_map""",
    "unordered_set": """
        back_inserter begin distance end iterator_traits make_move_iterator next prev size ssize
        unordered_set""",
    "utility": "as_const exchange forward get in_place in_place_index initializer_list move pair swap",
    "variant": "get get_if holds_alternative monostate variant visit",
    "vector": """
        back_inserter begin distance end erase erase_if initializer_list iterator_traits
        make_move_iterator next prev size ssize vector""",
}
# What the headers of containers and strings of every libstdc++ bring along.
BROUGHT = """abs equal equal_to fflush max min nullptr_t pair ptrdiff_t remove_reference_t size_t string_view
    uint32_t uint64_t"""
CONTAINERS = ("array", "functional", "map", "memory", "optional", "span", "string", "string_view",
              "unordered_map", "vector")
ELSEWHERE = {"exception_ptr": "boost/asio/co_spawn.hpp", "locale": "fmt/format-inl.h", "tuple": "functional"}
# asio::NAME is of <boost/asio/NAME.hpp>, but for these. Beast's parsers and Asio's streams bring some.
ASIO = {"async_initiate": "async_result", "async_write": "write", "buffer_size": "buffer",
        "const_buffer": "buffer", "error": "ip/tcp", "execution_context": "io_context", "ip": "ip/tcp",
        "make_work_guard": "executor_work_guard", "mutable_buffer": "buffer",
        "use_awaitable_t": "use_awaitable"}
HEADERS = {}  # name: the headers that declare it
for _header, _names in NAMES.items():
    for _name in _names.split():
        HEADERS.setdefault(_name, set()).add(_header)
for _name in BROUGHT.split():
    HEADERS[_name].update(CONTAINERS)
for _name, _header in ELSEWHERE.items():
    HEADERS[_name].add(_header)


def includes(path):
    return set(re.findall(r'^#include [<"]([^>"]+)[>"]', path.read_text(), re.M))


def reached(path, root):
    """All that the file includes, itself and through headers under root."""
    found, todo = set(), [path]
    while todo:
        new = includes(todo.pop()) - found
        found |= new
        todo += [root / name for name in new if (root / name).is_file()]
    return found


def used_names(path):
    code = re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', " ", path.read_text())
    return [set(re.findall(rf"\b{space}::(\w+)", code)) for space in ("std", "fmt", "asio")]


def faults_of(path, root):
    """What the file uses and nothing that it includes declares; names that no table here knows."""
    have = reached(path, root)
    if have & {"boost/beast/http/parser.hpp", "boost/asio/ip/tcp.hpp"}:
        have |= {"boost/asio/buffer.hpp", "boost/asio/async_result.hpp"}
    of_std, of_fmt, of_asio = used_names(path)
    faults = [f"{path}: std::{name} needs <{'> or <'.join(sorted(HEADERS[name]))}>"
              if name in HEADERS else f"{path}: add std::{name} to NAMES of {__file__}"
              for name in sorted(of_std) if not HEADERS.get(name, set()) & have]
    if of_fmt and not any(name.startswith("fmt/") for name in have):
        faults.append(f"{path}: fmt::{min(of_fmt)} needs <fmt/core.h>")
    needed = {name: f"boost/asio/{ASIO.get(name, name)}.hpp" for name in of_asio}
    return faults + [f"{path}: asio::{name} needs <{header}>" for name, header in needed.items()
                     if header not in have]


def test_every_file_includes_what_it_uses(source_dir):
    root = source_dir / "src"
    files = sorted(path for path in root.rglob("*") if path.suffix in (".h", ".cpp")
                   and not path.name.endswith("_test.cpp"))
    assert len(files) > 300
    assert [fault for path in files for fault in faults_of(path, root)] == []


@pytest.mark.parametrize("text, fault", [
    ("#include <vector>\nstd::vector<int> a;", None),
    ("std::vector<int> a;", "std::vector needs <vector>"),
    ("#include <vector>\nstd::sort(a);", "std::sort needs <algorithm>"),
    ('#include "room/lower.h"\nstd::string a;', None),
    ('#include "room/lower.h"\nstd::optional<int> a;', "std::optional needs <optional>"),
    ("// std::vector\nconst char* a = \"std::vector\";", None),
    ("std::no_such_name a;", "add std::no_such_name"),
    ("asio::awaitable<void> a();", "asio::awaitable needs <boost/asio/awaitable.hpp>"),
    ('const char* a = fmt::format("{}", 1);', "fmt::format needs <fmt/core.h>"),
])
def test_what_is_missing_is_found(tmp_path, text, fault):
    (tmp_path / "room").mkdir()
    (tmp_path / "room/lower.h").write_text("#include <string>\n")
    (tmp_path / "room/file.h").write_text(text + "\n")
    faults = faults_of(tmp_path / "room/file.h", tmp_path)
    assert [fault] == [f.split(": ", 1)[1].split(" to NAMES")[0] for f in faults] if fault else faults == []
