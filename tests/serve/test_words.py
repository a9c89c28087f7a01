"""What the built-in model writes is English: at temperature 0.7 at least 95 % of its words are in a dictionary.

The dictionary is Debian's wamerican-huge, which has American spellings: of the King James Version's own it
lacks some. A word is [A-Za-z]+('[a-z]+)?, lower-cased, without a possessive 's. The last word of an answer that
its length has cut off is left out.
"""
import collections
import concurrent.futures
import pathlib
import re

import pytest

from serving import serving

DICTIONARY = pathlib.Path("/usr/share/dict/american-english-huge")
WORDS_WANTED = 3000
SHARE = 0.95

# Beginnings of each kind of text that data/tiny/README.md names, and questions that it says the model knows.
TEXTS = ["Courage is a noun:", "To wander is a verb:", "Psalms 119\n\n", "And it came to pass", "Genesis 1\n\n",
         "hacker\n", "kludge\n", "LOVE, n.", "The river"]
QUESTIONS = ['What does "courage" mean?', 'What does "harvest" mean?', 'Use "river" in a sentence.',
             'Use "quiet" in a sentence.', "Tell me a verse from Ruth.", "Tell me a verse from Proverbs.",
             "What would a cynic say about marriage?", "What would a cynic say about money?"]


@pytest.fixture(scope="module")
def dictionary():
    if not DICTIONARY.exists():
        pytest.skip(f"{DICTIONARY} is missing: install wamerican-huge")
    return {line.lower() for line in DICTIONARY.read_text(encoding="utf-8").split("\n") if line}


def words_of(text, whole):
    words = [word.lower() for word in re.findall(r"[A-Za-z]+(?:'[a-z]+)?", text)]
    if not whole and re.search(r"[A-Za-z']$", text):
        words = words[:-1]
    return [word.removesuffix("'s") for word in words]


def test_words_are_found():
    assert words_of("God's Well-being, don't st", whole=False) == ["god", "well", "being", "don't"]
    assert words_of("The end. ", whole=False) == ["the", "end"]
    assert words_of("the last", whole=True) == ["the", "last"]


def asked(server):
    """Every request of the test: (path, body), the seeds fixed."""
    common = {"temperature": 0.7}
    for seed in range(8):
        for text in TEXTS:
            yield "/v1/completions", {**common, "prompt": text, "max_tokens": 120, "seed": seed}
    for seed in range(20):
        for text in QUESTIONS:
            yield "/v1/chat/completions", {**common, "messages": [{"role": "user", "content": text}],
                                           "max_tokens": 120, "seed": seed}


def test_words_are_in_a_dictionary(binary, dictionary, capsys):
    with serving(binary) as server, concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = pool.map(lambda ask: server.post(ask[0], **ask[1])["choices"][0], asked(server))
        written = [word for answer in answers
                   for word in words_of(answer["text"] if "text" in answer else answer["message"]["content"],
                                        answer["finish_reason"] == "stop")]
    unknown = collections.Counter(word for word in written if word not in dictionary)
    share = 1 - unknown.total() / len(written)
    with capsys.disabled():
        print(f"\n{len(written)} words, {share:.2%} in {DICTIONARY.name}; not in it: {unknown.most_common(12)}")
    assert len(written) >= WORDS_WANTED
    assert share >= SHARE, unknown.most_common(40)
