"""The tokenizer of the embedded model, and its texts as token ids.

    python tools/tiny/tokens.py PACKAGES OUT    # OUT/tokenizer.json, train.u16, held_out.u16, held_out.txt

A byte-level BPE of 4,096 tokens with Qwen's pattern, trained on the training texts. Documents are
joined by <|endoftext|>. Needs `tokenizers` from PyPI.
"""
import array
import json
import re
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import texts

VOCABULARY = 4096
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+")


def train_tokenizer(lines):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    return tokenizer


def encode(tokenizer, documents, path):
    ids = array.array("H")
    for encoding in tokenizer.encode_batch([d.text for d in documents]):
        ids.extend(encoding.ids)
        ids.append(0)
    path.write_bytes(ids.tobytes())
    return len(ids)


def characters(documents):
    """Of the documents' texts, special tokens left out."""
    return sum(len(re.sub("|".join(map(re.escape, SPECIAL)), "", d.text)) for d in documents)


def main():
    packages, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    train, held_out = texts.split(texts.read_documents(packages))
    tokenizer = train_tokenizer(d.text for d in train)
    tokenizer.save(str(out / "tokenizer.json"))
    (out / "held_out.txt").write_text("<|endoftext|>".join(d.text for d in held_out) + "<|endoftext|>",
                                      encoding="utf-8")
    counts = {"train_documents": len(train), "train_characters": characters(train),
              "held_out_documents": len(held_out),
              "held_out_characters": characters(held_out),
              "train_tokens": encode(tokenizer, train, out / "train.u16"),
              "held_out_tokens": encode(tokenizer, held_out, out / "held_out.u16")}
    (out / "counts.json").write_text(json.dumps(counts, indent=1) + "\n")
    print(counts)


if __name__ == "__main__":
    main()
