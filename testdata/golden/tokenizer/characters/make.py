"""Makes testdata/golden/tokenizer/characters: small BPE tokenizers over characters with byte fallback, in the forms of Llama 2
(normalisers, no pre-tokeniser), of newer folders (Metaspace) and of Gemma (Split), and what tokenizers makes of texts.

    python make.py FOLDER

NAME/tokenizer.json, and NAME/cases.json: text, ids, ids with the tokens around a text, the decoded text with special tokens and without;
and of some lists of ids the decoded text.
"""
import json, os, random, sys

import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "The quick brown fox jumps over the lazy dog. " * 3,
    "Tokens are pieces of words; words are pieces of texts, and texts of thoughts.\n\nA new line  with two spaces.",
    "def add(a, b):\n    return a + b\n\nprint(add(1, 23456))",
    "Größe, Übung, naïve café, señor, 你好世界, こんにちは, привет мир",
] * 4

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "The quick brown fox", "  two spaces  in  a row ", "line\nand\ttab\n\n", "<s>begin", "a</s>b", "x <s> y</s> z", "▁underline▁▁", "▁", "größer 你好 привет",
    "日本語 emoji 😀👍🏽 and \u0000\u0007 bytes", "unseen: ⅷ ℵ \U0001f9e0 ᚠ", "1234567890", "def add(a, b):\n    return a + b", "don't stop", "<0x41>", "é vs e\u0301", "\u200b\u00a0x", "ab" * 40, "<unk> is known", " </s>  <s> ",
]
random.seed(5)
for _ in range(40):
    TEXTS.append("".join(random.choice(["the", " ", "  ", "q", "z", "\n", "ü", "世", "😀", "▁", "<s>", "</s>", "1", "over", "Ω", "."]) for _ in range(random.randint(1, 14))))


def trained(count):
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=count, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False))
    model = json.loads(t.to_str())["model"]
    words = [w for w, _ in sorted(model["vocab"].items(), key=lambda x: x[1]) if w not in ("<unk>", "<s>", "</s>")]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for b in range(256):
        vocab["<0x%02X>" % b] = len(vocab)
    for w in words:
        vocab.setdefault(w, len(vocab))
    return vocab, model["merges"]


def special(i, content, **more):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **more}


REPLACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
AROUND = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}


def forms():
    vocab, merges = trained(420)

    def one(normalizer, pre, decoder, **model):
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")], "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": AROUND, "decoder": decoder,
                "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": vocab, "merges": merges, **model}}

    strip = {"type": "Sequence", "decoders": [REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    keep = {"type": "Sequence", "decoders": [REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    yield "llama", one({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, space]}, None, strip)
    for scheme, split in (("first", False), ("always", True), ("never", True)):
        meta = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
        yield "metaspace_" + scheme, one(None, meta, strip if scheme == "first" else meta)
    yield "gemma", one(space, {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}, keep)
    few = {w: i for w, i in vocab.items() if not w.startswith("<0x")}
    for fuse in (True, False):
        f = one(space, None, keep, byte_fallback=False, fuse_unk=fuse, vocab=few)
        yield "unknown_" + ("fused" if fuse else "single"), f


if __name__ == "__main__":
    top = sys.argv[1]
    print("tokenizers", tokenizers.__version__)
    for name, form in forms():
        folder = os.path.join(top, name)
        os.makedirs(folder)
        text = json.dumps(form, ensure_ascii=False)
        open(os.path.join(folder, "tokenizer.json"), "w").write(text)
        t = Tokenizer.from_str(text)
        cases = []
        for x in TEXTS:
            ids = t.encode(x, add_special_tokens=False).ids
            cases.append({"text": x, "ids": ids, "special": t.encode(x).ids, "decoded": t.decode(ids, skip_special_tokens=False), "plain": t.decode(ids, skip_special_tokens=True)})
        lists = []
        known = list(form["model"]["vocab"].values())
        for _ in range(40):
            ids = [random.choice(known) for _ in range(random.randint(1, 8))]
            lists.append({"ids": ids, "decoded": t.decode(ids, skip_special_tokens=False)})
        json.dump({"cases": cases, "lists": lists}, open(os.path.join(folder, "cases.json"), "w"), ensure_ascii=False)
        print(name, len(cases), cases[6])
