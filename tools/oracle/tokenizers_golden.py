"""Writes tests/golden/tokenizers/ with Hugging Face's tokenizers package.

  tokenizers_golden.py FOLDER

texts.json        what is encoded (tokenizer_texts.py)
vocabulary.json   a byte-level vocabulary, trained on these texts, and its merges
families.json     the rules of each family (tokenizer_families.py), put together with the vocabulary
                  by whoever reads them; `merges` says how these are written there
NAME.txt          a line a text and family: its ids; or, of more than 12, their number and FNV-1a hash.
                  Then the same with special tokens around, where that differs, and what the ids
                  decode to where that is not the text
complete.json     a small tokenizer.json as the package itself writes it
properties.txt    the classes of characters (unicode_additions.py)
nfc.txt           normal forms of blocks of characters (unicode_inert.py)
invalid.txt       bytes and what Python's errors="replace" makes of them, both in hexadecimal
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Regex

import tokenizer_families
import tokenizer_texts
import unicode_additions
import unicode_inert

MOST_IDS = 12
# Tokens that no merge makes, for ignore_merges.
UNREACHABLE = ["Ġlazy", "Ġjumps", "Zw\u00c3\u00b6lf", "123", "indented"]


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(tokenizer_families.LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(tokenizer_texts.texts() * 2, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocab = dict(sorted(model["vocab"].items(), key=lambda item: item[1]))
    for token in UNREACHABLE:
        vocab.setdefault(token, len(vocab))
    return {"vocab": vocab, "merges": model["merges"]}


def complete():
    """What save() writes, with every step that the package names."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False, special_tokens=["<|end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(tokenizer_texts.LANGUAGES, trainer)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    return tokenizer.to_str(pretty=False) + "\n"


def summary(ids):
    if len(ids) <= MOST_IDS:
        return " ".join(map(str, ids))
    return f"#{len(ids)} {unicode_additions.fnv(' '.join(map(str, ids)).encode()):016x}"


def expected(tokenizer, texts):
    lines = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        around = tokenizer.encode(text, add_special_tokens=True).ids
        decoded = tokenizer.decode(ids, skip_special_tokens=False)
        skipped = tokenizer.decode(ids, skip_special_tokens=True)
        fields = [summary(ids)]
        fields.append("" if around == ids else summary(around))
        fields.append("" if decoded == text else json.dumps(decoded))
        fields.append("" if skipped == decoded else json.dumps(skipped))
        lines.append("\t".join(fields).rstrip("\t"))
    return "\n".join(lines) + "\n"


def invalid():
    generator = random.Random(5)
    starts = [0x41, 0x80, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF,
              0x8F, 0x90, 0x9F, 0xA0]
    samples = [bytes(generator.choice(starts) for _ in range(generator.randrange(1, 8)))
               for _ in range(300)]
    return "".join(f"{s.hex()} {s.decode(errors='replace').encode().hex()}\n" for s in samples)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    texts = tokenizer_texts.texts()
    model = train()
    dump = {"ensure_ascii": True, "separators": (",", ":")}
    (folder / "texts.json").write_text("[\n" + ",\n".join(map(json.dumps, texts)) + "\n]\n")
    (folder / "vocabulary.json").write_text(json.dumps(model, **dump) + "\n")
    families = {}
    for name, family in tokenizer_families.FAMILIES.items():
        document = tokenizer_families.compose(name, model)
        tokenizer = Tokenizer.from_str(json.dumps(document))
        (folder / f"{name}.txt").write_text(expected(tokenizer, texts))
        for key in ("vocab", "merges"):
            document["model"].pop(key)
        unknown = document["model"]["unk_token"]
        families[name] = {"merges": family["merges"], "without": family.get("without", ""),
                          "document": document}
        assert unknown is None or unknown == "t" or unknown in [
            token["content"] for token in document["added_tokens"]]
    lines = [f"{json.dumps(name)}:{json.dumps(value, **dump)}" for name, value in families.items()]
    (folder / "families.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    (folder / "complete.json").write_text(complete())
    (folder / "invalid.txt").write_text(invalid())
    (folder / "properties.txt").write_text(unicode_additions.classes())
    (folder / "nfc.txt").write_text(unicode_inert.digests())


if __name__ == "__main__":
    main()
