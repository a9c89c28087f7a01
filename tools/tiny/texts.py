"""The English that the embedded model is trained on: Debian packages, cleaned, as documents.

    documents = read_documents("build/tiny/packages")    # folders that dpkg-deb -x filled
    train, held_out = split(documents)

A document is a text, or a conversation in the form of the chat template. What is held out is whole
chapters of the Bible, whole entries of the dictionaries and whole synsets of WordNet, chosen by a hash
of the text, so that no held-out gloss stands elsewhere under another word.
"""
import gzip
import hashlib
import random
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("bible-kjv", "bible-kjv-text", "dict-wn", "dict-jargon", "dict-devil", "wamerican-huge")
USER, ASSISTANT = "<|im_start|>user\n", "<|im_start|>assistant\n"
END_OF_TURN, END_OF_TEXT = "<|im_end|>", "<|endoftext|>"
HELD_OUT_ONE_IN = 160
# WordNet marks these; a model that answers with them helps nobody.
UNWANTED = re.compile(r"ethnic slur|offensive|derogatory|disparag|obscen|vulgar|slang|sexual|negro|racial|"
                      r"\bslut|\bwhore|penis|vagina|copulat|prostitut", re.IGNORECASE)


@dataclass(frozen=True)
class Document:
    source: str
    text: str
    key: str  # what decides whether it is held out


def is_held_out(document):
    digest = hashlib.sha256(document.key.encode()).digest()
    return int.from_bytes(digest[:8], "big") % HELD_OUT_ONE_IN == 0


def split(documents):
    train = [d for d in documents if not is_held_out(d)]
    held_out = [d for d in documents if is_held_out(d)]
    return train, held_out


def read_documents(packages):
    packages = Path(packages)
    documents = bible(packages) + wordnet(packages) + jargon(packages) + devil(packages)
    random.Random(1).shuffle(documents)
    return documents


def chat(question, answer):
    return f"{USER}{question}{END_OF_TURN}\n{ASSISTANT}{answer}{END_OF_TURN}\n"


def dictd(packages, name):
    with gzip.open(packages / f"usr/share/dictd/{name}.dict.dz", "rt", encoding="utf-8", errors="replace") as file:
        return file.read()


def plain(text):
    text = text.replace("‘", "'").replace("’", "'").replace("“", '"').replace("”", '"')
    text = text.replace("—", "-").replace("–", "-")
    return re.sub(r"\s+", " ", re.sub(r"[{}]", "", text)).strip()


# ---- the King James Bible -----------------------------------------------------------------------

def bible(packages):
    printed = subprocess.run(
        [packages / "usr/bin/bible", "-p", str(packages / "usr/lib/"), "-l0", "Gen1:1-Rev22:21"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    documents, chapter, verses = [], None, []

    def close():
        if verses:
            documents.append(Document("bible", f"{chapter}\n\n" + "\n".join(verses), chapter))
            book = chapter.rsplit(" ", 1)[0]
            for verse in verses[:2]:
                documents.append(Document("bible", chat(f"Tell me a verse from {book}.", verse), chapter))

    for line in printed.splitlines():
        verse = re.match(r"\s+(\d+) (.*)", line)
        if verse:
            verses.append(plain(verse[2]))
        elif re.match(r"[1-3A-Z].* \d+$", line):
            close()
            chapter, verses = line.strip(), []
    close()
    return documents


# ---- WordNet ------------------------------------------------------------------------------------

PARTS = {"n": "noun", "v": "verb", "adj": "adjective", "adv": "adverb"}


def senses(entry):
    """(part of speech, definition, examples, synonyms) of each sense of an entry's lines."""
    part = None
    for piece in re.split(r"\n(?=\s+(?:(?:n|v|adj|adv) )?\d+: )", "\n" + entry):
        found = re.match(r"\s*(?:(n|v|adj|adv) )?\d+: (.*)", piece, re.DOTALL)
        if not found:
            continue
        part = found[1] or part
        text = found[2]
        synonyms = re.findall(r"\{([^}]*)\}", "".join(re.findall(r"\[syn:(.*?)\]", text, re.DOTALL)))
        text = plain(re.sub(r"\[[a-z]+:.*?\]", "", text, flags=re.DOTALL))
        examples = re.findall(r'"([^"]{8,})"', text)
        definition = re.split(r';\s*"', text)[0].strip(" ;")
        if part and len(definition) > 8 and '"' not in definition:
            yield PARTS[part], definition, examples, [plain(s) for s in synonyms]


def sentence(text):
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else text + "."


def article(word):
    return "an" if word[0] in "aeiou" else "a"


def word_list(packages):
    """Every word that counts as English, in lower case."""
    words = (packages / "usr/share/dict/american-english-huge").read_text(encoding="utf-8").split()
    return {word.lower() for word in words}


def unknown_words(text, known):
    """Words of a text that the list has not: possessives count as their word, hyphens part words."""
    words = re.findall(r"[A-Za-z]+(?:'[a-z]+)?", text)
    return [word for word in words
            if word.lower() not in known and re.sub(r"'s?$", "", word.lower()) not in known]


def wordnet(packages):
    """One text, and now and then a question, for each sense; names of species and the like left out."""
    documents, told = [], set()
    known = word_list(packages)
    entries = re.split(r"\n(?=\S)", dictd(packages, "wn"))
    for entry in entries[1:]:
        word, _, body = entry.partition("\n")
        word = plain(word)
        if not re.fullmatch(r"[A-Za-z][A-Za-z' -]*", word) or word.startswith("00"):
            continue
        for part, definition, examples, synonyms in senses(body):
            everything = " ".join([word, definition, *examples, *synonyms])
            if definition in told or UNWANTED.search(everything) or unknown_words(everything, known):
                continue
            told.add(definition)
            documents += of_sense(word, part, definition, examples, synonyms)
    return documents


def of_sense(word, part, definition, examples, synonyms):
    chance = random.Random(f"{word}/{definition}")
    others = [s for s in synonyms if s.lower() != word.lower()]
    told = f"{word} is {article(part)} {part}: {definition}."
    if examples:
        told += f' "{sentence(examples[0])}"'
    if others and chance.random() < 0.5:
        told += f" Another word for it is {others[0]}."
    result = [Document("wordnet", sentence(told), definition)]
    if chance.random() < 0.5:
        question = chance.choice([f'What does "{word}" mean?', f"What is the meaning of {word}?",
                                  f"Define {word}.", f"What is {word}?"])
        result.append(Document("wordnet", chat(question, sentence(definition)), definition))
    for example in [e for e in examples if word.lower()[:4] in e.lower()][:2]:
        question = chance.choice([f'Use "{word}" in a sentence.', f"Give an example of {word}."])
        result.append(Document("wordnet", chat(question, sentence(example)), definition))
    return result


# ---- the Jargon File and the Devil's Dictionary -------------------------------------------------

def jargon(packages):
    documents = []
    for entry in re.split(r"\n\n(?=\S)", dictd(packages, "jargon")):
        head, _, body = entry.partition("\n")
        paragraphs = [plain(p) for p in re.split(r"\n\s*\n", body)]
        paragraphs = [p for p in paragraphs if len(p) > 40 and re.match(r"[\x20-\x7e]+$", p)]
        if not paragraphs or len(head) > 40 or UNWANTED.search(entry):
            continue
        documents.append(Document("jargon", "\n".join([plain(head), *paragraphs]), head))
    return documents


def devil(packages):
    documents = []
    for entry in re.split(r"\n\n(?=[A-Z' -]+,? )", dictd(packages, "devil")):
        found = re.match(r"([A-Z' -]{2,}), \w+\.\s+(.*)", entry, re.DOTALL)
        if not found or UNWANTED.search(entry):
            continue
        word, prose = found[1].lower(), plain(re.split(r"\n\n", found[2])[0])
        if len(prose) < 20:
            continue
        documents.append(Document("devil", f"{word}: {prose}", word))
        documents.append(Document("devil", chat(f"What would a cynic say about {word}?", prose), word))
    return documents
