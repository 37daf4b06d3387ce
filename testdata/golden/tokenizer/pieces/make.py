"""Makes testdata/golden/tokenizer/pieces: small tokenizers of WordPiece and Unigram in the forms of BERT, XLM-RoBERTa, ALBERT and
others, and a byte-level one in RoBERTa's, and what tokenizers makes of texts.

    python make.py FOLDER ../sentencepiece/unigram/tokenizer.model

The model of SentencePiece has the table of characters for the normaliser Precompiled. NAME/tokenizer.json, and NAME/cases.json: text, ids,
ids with the tokens around a text, the decoded text with special tokens and without; and of some lists of ids the decoded text.
"""
import base64, json, os, random, sys

import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "The quick brown fox jumps over the lazy dog. " * 3, "Tokens are pieces of words; words are pieces of texts, and texts of thoughts. It isn't so, they're not.",
    "def add(a, b): return a + b, print(add(1, 23456))", "Größe, Übung, naïve café, señor, 你好世界, こんにちは, привет мир", "embedding embeddings embedded unembedded walking walked walks talk talking talked",
] * 6

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "The quick brown fox", "  two spaces  in  a row ", "line\nand\ttab\n\n", "[CLS]begin", "a[SEP]b", "x [MASK] y[PAD] z", "<s>begin", "a</s>b", "x <s> y</s> z", "▁underline▁▁", "▁", "größer 你好 привет",
    "日本語 emoji 😀👍🏽 and \u0000\u0007 bytes", "unseen: ⅷ ℵ \U0001f9e0 ᚠ", "1234567890", "def add(a, b):\n    return a + b", "don't stop, they're not; it's he'll", "<0x41>", "é vs e\u0301", "\u200b\u00a0x\u3000y\u2003z", "ab" * 40,
    "unembeddings walkings", "ＡＢＣ１２３ ｶﾞ", "ﬁne ﬂow ½ ²", "مرحبا بالعالم", "שָׁלוֹם", "\ufeffbom", "soft\u00adhyphen", "zero\u200djoin\u200cer", "Å Å", "ÀÉÎ STRASSE ẞ İı", "각 각", "ǆ Ǆ", "\u0344x", "\ufffd", "Ⅷ㌔㍻", "a\u0300\u0301\u0302b",
    "quick" * 30, "，。！？「」", "[UNK] <unk>", "#@$%^&*()_+-=[]{}|;:,.<>?/~`", "\x01\x02\x7f\x85", "a\u2028b\u2029c", "हिन्दी में", "ไทย", "🇩🇪👨‍👩‍👧", "x\u00b7y", "\u0130stanbul", "``quoted''", "a . b , c ! d ? e ' f n't 'm 's 've 're do not", "-a--b---", "Wörter-mit_Strichen", "𝔘𝔫𝔦 𠀀𪜀",
]
random.seed(5)
for _ in range(80):
    TEXTS.append("".join(random.choice(["the", " ", "  ", "q", "z", "\n", "ü", "Ü", "世", "😀", "▁", "[SEP]", "</s>", "1", "over", "Ω", ".", ",", "Embed", "ding", "##", "'s", "\t", "e\u0301", "-"]) for _ in range(random.randint(1, 14))))


def special(i, content, **more):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **more}


def whole(names, normalizer, pre, post, decoder, model):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special(i, n) for i, n in enumerate(names)], "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": post, "decoder": decoder, "model": model}


def around(a, b, ids):
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": a, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": b, "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in ((a, ids[0]), (b, ids[1]))}}


BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
XLM = ["<s>", "<pad>", "</s>", "<unk>"]


def wordpiece(normalizer, pre, decoder, post, **more):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    probe = whole([], normalizer, pre, None, None, json.loads(t.to_str())["model"])
    t = Tokenizer.from_str(json.dumps(probe))
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=260, special_tokens=BERT, show_progress=False))
    model = json.loads(t.to_str())["model"]
    return whole(BERT, normalizer, pre, post, decoder, {**model, **more})


def unigram(normalizer, pre, decoder, post, fallback=False, names=XLM, **more):
    t = Tokenizer.from_str(json.dumps(whole([], normalizer, pre, None, None, {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]], "byte_fallback": False})))
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=200, special_tokens=names, unk_token="<unk>", show_progress=False))
    model = json.loads(t.to_str())["model"]
    if fallback:
        model["vocab"] += [["<0x%02X>" % b, 0.0] for b in range(256)]
    return whole(names, normalizer, pre, post, decoder, {**model, "byte_fallback": fallback, **more})


def meta(scheme, split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def bert(**o):
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True, **o}


def table(path):
    """The precompiled table of a model of SentencePiece: field 2 of the normaliser, which is field 3 of the model."""
    def fields(data):
        at = 0
        def number():
            nonlocal at
            n = shift = 0
            while True:
                b = data[at]; at += 1
                n |= (b & 127) << shift; shift += 7
                if b < 128:
                    return n
        while at < len(data):
            key = number()
            if key & 7 == 0:
                value = number()
            else:
                size = {1: 8, 5: 4}.get(key & 7) or number()
                value = data[at:at + size]; at += size
            yield key >> 3, value
    normalizer = dict(fields(open(path, "rb").read()))[3]
    return base64.b64encode(dict(fields(normalizer))[2]).decode()


def forms(path):
    word = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    pre = {"type": "BertPreTokenizer"}
    yield "bert", wordpiece(bert(), pre, word, around("[CLS]", "[SEP]", (2, 3)))
    yield "bert_cased", wordpiece(bert(lowercase=False), pre, {**word, "cleanup": False}, {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})
    yield "bert_accents", wordpiece(bert(lowercase=False, strip_accents=True, handle_chinese_chars=False, clean_text=False), pre, word, None, max_input_chars_per_word=12)
    yield "bert_keep", wordpiece(bert(strip_accents=False), pre, word, None)
    yield "words", wordpiece({"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]}, {"type": "Whitespace"}, word, None)
    yield "punctuation", wordpiece(None, {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "MergedWithPrevious"}, {"type": "CharDelimiterSplit", "delimiter": "o"}]}, word, None)
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    yield "xlm", unigram({"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": table(path)}, spaces]}, {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, meta("always")]}, meta("always"), around("<s>", "</s>", (0, 2)))
    quotes = [{"type": "Replace", "pattern": {"String": q}, "content": '"'} for q in ("``", "''")]
    yield "albert", unigram({"type": "Sequence", "normalizers": [*quotes, {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]}, meta("always"), meta("always"), around("<s>", "</s>", (0, 2)))
    yield "first", unigram({"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, {"type": "Strip", "strip_left": True, "strip_right": False}]}, meta("first"), meta("first"), None)
    yield "nmt", unigram({"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, spaces, {"type": "Strip", "strip_left": True, "strip_right": True}]}, meta("always"), meta("always"), None)
    replace = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    strip = {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    yield "unigram_bytes", unigram({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, space]}, None, strip, None, fallback=True)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=420, special_tokens=XLM, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    yield "roberta", whole(XLM, None, level, {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True, "add_prefix_space": False}, level, json.loads(t.to_str())["model"])


if __name__ == "__main__":
    top, path = sys.argv[1:3]
    print("tokenizers", tokenizers.__version__)
    for name, form in forms(path):
        folder = os.path.join(top, name)
        os.makedirs(folder)
        text = json.dumps(form, ensure_ascii=False)
        open(os.path.join(folder, "tokenizer.json"), "w").write(text)
        t = Tokenizer.from_str(text)
        cases = []
        for x in TEXTS:
            ids = t.encode(x, add_special_tokens=False).ids
            cases.append({"text": x, "ids": ids, "special": t.encode(x).ids, "decoded": t.decode(ids, skip_special_tokens=False), "plain": t.decode(t.encode(x).ids, skip_special_tokens=True)})
        lists = []
        known = t.get_vocab_size()
        for _ in range(60):
            ids = [random.randrange(known) for _ in range(random.randint(1, 8))]
            lists.append({"ids": ids, "decoded": t.decode(ids, skip_special_tokens=False)})
        json.dump({"cases": cases, "lists": lists}, open(os.path.join(folder, "cases.json"), "w"), ensure_ascii=False)
        print(name, known, len(text), cases[6])
