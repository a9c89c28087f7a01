"""What Hugging Face's tokenizers knows of Unicode and PCRE2 10.42 (Unicode 14) does not yet.

  unicode_additions.py > src/text/unicode_additions.inc

classes() says for each class that patterns may name how many characters it has, and the FNV-1a hash of
its ranges, for src/text/pattern_test.cpp. The interpreter's own tables serve as those of Unicode 14:
Debian 12's Python 3.11 has that version.
"""
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

# Without Mn, Mc and Me: a character has gone from one to another, which no addition can say.
CATEGORIES = ("Lu Ll Lt Lm Lo Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp").split()
GROUPS = "L M N P S Z".split()
SCRIPTS = "Han Hiragana Katakana".split()
EVERY = [c for c in range(1, 0x110000) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(map(chr, EVERY))



def members(pattern):
    """The ranges of characters that a class of one character matches."""
    split = pre_tokenizers.Split(Regex(f"{pattern}+"), "removed")
    inside = bytearray(b"\1" * len(EVERY))
    for _, (begin, end) in split.pre_tokenize_str(TEXT):
        inside[begin:end] = bytes(end - begin)
    return ranges(c for c, flag in zip(EVERY, inside) if flag)


def ranges(characters):
    found = []
    for character in characters:
        if found and found[-1][1] == character - 1:
            found[-1][1] = character
        else:
            found.append([character, character])
    return found


def new_ones(pairs, known=lambda category: category != "Cn"):
    """Those of the characters that are not in a category of the interpreter's that is `known`."""
    return ranges(c for first, last in pairs for c in range(first, last + 1)
                  if not known(unicodedata.category(chr(c))))


def neighbours():
    """The characters that an added token of a single word may not stand next to."""
    tokenizer = Tokenizer(models.BPE(vocab={}, merges=[]))
    tokenizer.add_tokens([AddedToken("ab", single_word=True, normalized=False)])
    text = "".join(chr(c) + "ab" + chr(0) for c in EVERY)
    found = {begin // 4 for begin, _ in tokenizer.encode(text).offsets}
    return ranges(c for place, c in enumerate(EVERY) if place not in found)


def is_plain_word(category):
    return category[0] in "LM" or category in ("Nd", "Pc")


def fnv(content):
    """FNV-1a of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in content:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def digest(pairs):
    return fnv("".join(f"{a:x}-{b:x};" for a, b in pairs).encode())


def every_class():
    patterns = {name: rf"\p{{{name}}}" for name in CATEGORIES + GROUPS + SCRIPTS}
    patterns |= {"s": r"\s", "d": r"\d", "w": r"\w"}
    return {name: members(pattern) for name, pattern in patterns.items()} | {"word": neighbours()}


def additions():
    """The text of src/text/unicode_additions.inc."""
    assert unicodedata.unidata_version == "14.0.0", "run with the Python 3.11 of Debian 12"
    found = every_class()
    rows = []
    for name in CATEGORIES + ["M"] + SCRIPTS:
        rows += [(name, first, last) for first, last in new_ones(found[name])]
    for name in ("w", "word"):
        rows += [(name, first, last) for first, last in new_ones(found[name], is_plain_word)]
    return ("// By tools/oracle/unicode_additions.py: do not edit.\n"
            + "".join(f'{{"{name}", 0x{a:X}, 0x{b:X}}},\n' for name, a, b in rows))


def classes():
    """The text of tests/golden/tokenizers/properties.txt."""
    return "".join(f"{name} {sum(b - a + 1 for a, b in pairs)} {digest(pairs):016x}\n"
                   for name, pairs in every_class().items())


if __name__ == "__main__":
    sys.stdout.write(additions())
