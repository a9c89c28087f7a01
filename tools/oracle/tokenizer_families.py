"""The rules of the tokenizers that nibble reads, as the tokenizer.json of each family has them:
everything but the vocabulary. compose() puts a vocabulary into one.
"""
NO_AFFIX = {"dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False}

# The patterns of the published files.
QWEN3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
          r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = ["\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
            "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]

CHAT = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
THINK = ["<think>", "</think>"]


def byte_level(prefix=False, use_regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True,
            "use_regex": use_regex}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def template(*before):
    special = {name: {"id": name, "ids": [], "tokens": [name]} for name in before}
    single = [{"SpecialToken": {"id": name, "type_id": 0}} for name in before]
    return {"type": "TemplateProcessing", "single": single + [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": special}


def special(*contents):
    return [added(content, special=True) for content in contents]


def added(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


# added: ids are given by compose(). model: what differs from the ordinary; merges: how they are written.
FAMILIES = {
    "qwen3": {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": sequence(split(QWEN3), byte_level()),
        "post_processor": byte_level(),
        "added": special(*CHAT) + [added(content) for content in THINK],
        "merges": "pairs"},
    "qwen3.5": {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": sequence(split(QWEN35), byte_level()),
        "post_processor": byte_level(),
        "added": special(*CHAT) + [added(content) for content in THINK],
        "merges": "pairs"},
    "glm4": {
        "normalizer": None,
        "pre_tokenizer": sequence(split(LLAMA3), byte_level()),
        "post_processor": {"type": "Sequence", "processors": [
            byte_level(), template("[gMASK]", "<sop>")]},
        "added": special("<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>",
                         "<|system|>", "<|user|>", "<|assistant|>")
        + [added("<think>", lstrip=False), added("</think>")],
        "merges": "pairs"},
    "llama3": {
        "normalizer": None,
        "pre_tokenizer": sequence(split(LLAMA3), byte_level()),
        "post_processor": {"type": "Sequence", "processors": [
            byte_level(prefix=True), template("<|begin_of_text|>")]},
        "added": special("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"),
        "model": {"ignore_merges": True}, "merges": "strings"},
    "o200k": {
        "normalizer": None,
        "pre_tokenizer": sequence(split(O200K), byte_level()),
        "post_processor": None,
        "added": special("<|startoftext|>", "<|endoftext|>", "<|start|>", "<|message|>"),
        "model": {"ignore_merges": True}, "merges": "pairs"},
    "deepseek": {
        "normalizer": {"type": "Sequence", "normalizers": []},
        "pre_tokenizer": sequence(*map(split, DEEPSEEK), byte_level()),
        "post_processor": template("<｜begin▁of▁sentence｜>"),
        "added": special("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")
        + [added("<｜User｜>", normalized=True)],
        "merges": "strings"},
    "gpt2": {
        "normalizer": None,
        "pre_tokenizer": byte_level(use_regex=True),
        "post_processor": byte_level(prefix=True),
        "added": [added("<|endoftext|>", special=True, normalized=True)],
        "model": {"unk_token": "<|endoftext|>", "continuing_subword_prefix": "",
                  "end_of_word_suffix": ""},
        "merges": "strings"},
    # No model has these: each is a rule that the above do not use.
    "flags": {
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
        "pre_tokenizer": byte_level(prefix=True, use_regex=True),
        "post_processor": None,
        "added": [added("<s>", special=True, lstrip=True), added("</s>", special=True, rstrip=True),
                  added("word", single_word=True), added("both", lstrip=True, rstrip=True),
                  added("caf\u00e9", normalized=True), added("a b", normalized=True),
                  added("wordy"), added(" ", rstrip=True, single_word=True), added("\u0120x")],
        "merges": "pairs"},
    "digits": {
        "normalizer": None,
        "pre_tokenizer": sequence({"type": "Digits", "individual_digits": True},
                                  byte_level(prefix=False, use_regex=True)),
        "post_processor": None, "added": [], "merges": "strings"},
    "digit_runs": {
        "normalizer": None,
        "pre_tokenizer": sequence({"type": "Digits", "individual_digits": False}, byte_level(True)),
        "post_processor": None, "added": [], "merges": "strings"},
    "removed": {
        "normalizer": None,
        "pre_tokenizer": sequence(split(r"\s+", "Removed"), byte_level(prefix=True)),
        "post_processor": None, "added": [], "merges": "strings"},
    "previous": {
        "normalizer": None,
        "pre_tokenizer": sequence(split(" ", "MergedWithPrevious", kind="String"), byte_level()),
        "post_processor": None, "added": [], "merges": "strings"},
    "next": {
        "normalizer": None,
        "pre_tokenizer": sequence(split(r"[\p{P}\s]", "MergedWithNext"), byte_level()),
        "post_processor": None, "added": [], "merges": "strings"},
    "contiguous": {
        "normalizer": None,
        "pre_tokenizer": sequence(split(r"\w", "Contiguous"), byte_level()),
        "post_processor": None, "added": [], "merges": "strings"},
    "inverted": {
        "normalizer": None,
        "pre_tokenizer": sequence(split(r"\p{L}+|\p{N}{1,2}+|\p{Han}*", "Removed", invert=True),
                                  byte_level()),
        "post_processor": None, "added": [], "merges": "strings"},
    "empty_matches": {
        "normalizer": None,
        "pre_tokenizer": sequence(split(r"x*|(?=\p{Lu})", "MergedWithPrevious"), byte_level()),
        "post_processor": None, "added": [], "merges": "strings"},
    "unknown": {  # a vocabulary without some bytes: see compose()
        "normalizer": None,
        "pre_tokenizer": byte_level(use_regex=True), "post_processor": None,
        "added": [], "model": {"unk_token": "t", "fuse_unk": True}, "without": "eé0\u0122Ġ",
        "merges": "strings"},
    "left_out": {
        "normalizer": None,
        "pre_tokenizer": byte_level(use_regex=True), "post_processor": None,
        "added": [], "without": "eé0\u0122Ġ", "merges": "strings"},
}


def byte_letters():
    """GPT-2's character for each byte."""
    own = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {byte: chr(byte) for byte in own} | {
        byte: chr(0x100 + index) for index, byte in enumerate(others)}


def compose(name, model):
    """The tokenizer.json of the family, with the vocabulary and the pairs of merges of `model`."""
    family = FAMILIES[name]
    return finish(head(name), family, model)


def head(name):
    """All but the vocabulary, the merges and the ids of added tokens."""
    family = FAMILIES[name]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": family["added"],
            "normalizer": family["normalizer"], "pre_tokenizer": family["pre_tokenizer"],
            "post_processor": family["post_processor"], "decoder": byte_level(prefix=True),
            "model": {"type": "BPE", **NO_AFFIX, "ignore_merges": False, **family.get("model", {})}}


def finish(document, family, model):
    without = set(family.get("without", ""))
    vocab = {token: i for token, i in model["vocab"].items() if not without & set(token)}
    merges = [pair for pair in model["merges"] if not without & set("".join(pair))]
    if family["merges"] == "strings":
        merges = [" ".join(pair) for pair in merges]
    document["added_tokens"] = number(document["added_tokens"], vocab)
    ids = {token["content"]: token["id"] for token in document["added_tokens"]}
    unknown = document["model"]["unk_token"]
    if unknown is not None and unknown not in vocab:
        vocab[unknown] = ids[unknown]
    give_ids(document["post_processor"], ids)
    document["model"] |= {"vocab": vocab, "merges": merges}
    return document


def number(tokens, vocab):
    following = len(vocab)
    numbered = []
    for token in tokens:
        known = vocab.get(token["content"])
        numbered.append({"id": following if known is None else known, **token})
        following += known is None
    return numbered


def give_ids(processor, ids):
    if processor is None:
        return
    for inner in processor.get("processors", []):
        give_ids(inner, ids)
    for name, entry in processor.get("special_tokens", {}).items():
        entry["ids"] = [ids[name]]
