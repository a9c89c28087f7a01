"""The characters that the NFC of Hugging Face's tokenizers leaves alone, because its tables are older
(Unicode 10), and that newer tables reorder or compose.

  unicode_inert.py > src/text/unicode_inert.inc

digests() is what src/text/normalize_test.cpp holds its NFC against.
"""
import sys
import unicodedata

from tokenizers import normalizers

import unicode_additions

NFC = normalizers.NFC().normalize_str
LAST = 0x20000
# Marks of other classes behind and before it, and letters that may compose with it.
CONTEXTS = ["{}\u0345", "\u0345{}", "{}\u0334", "\u0301{}", "e\u0323{}\u0301", "q{}\u0323"]


def is_reordered(character):
    return any(NFC(context.format(character)) != context.format(character)
               for context in ("\u0345{}", "{}\u0334"))


def inert():
    assert unicodedata.unidata_version == "14.0.0", "run with the Python 3.11 of Debian 12"
    found = set()
    for group in ("L", "M"):
        for first, last in unicode_additions.members(rf"\p{{{group}}}"):
            found |= {c for c in range(first, last + 1) if unicodedata.category(chr(c)) == "Cn"}
    for code in range(0x300, LAST):
        character = chr(code)
        if unicodedata.combining(character) and not is_reordered(character):
            found.add(code)
        parts = unicodedata.normalize("NFD", character)
        if len(parts) > 1 and NFC(parts) != unicodedata.normalize("NFC", parts):
            found |= {code, ord(parts[-1])}
    return unicode_additions.ranges(sorted(found))


def digests():
    """For each 4,096 characters the FNV-1a hash of what NFC makes of all contexts."""
    lines = []
    for block in range(0, LAST, 0x1000):
        text = "".join(NFC(context.format(chr(code))) + "\n"
                       for code in range(max(block, 0x300), block + 0x1000)
                       if not 0xD800 <= code <= 0xDFFF for context in CONTEXTS)
        lines.append(f"{block:x} {unicode_additions.fnv(text.encode()):016x}\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.stdout.write("// By tools/oracle/unicode_inert.py: do not edit.\n"
                     + "".join(f"{{0x{a:X}, 0x{b:X}}},\n" for a, b in inert()))
