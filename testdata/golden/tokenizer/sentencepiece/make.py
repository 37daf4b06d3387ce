"""Makes testdata/golden/tokenizer/sentencepiece: small models of SentencePiece, in the forms that folders have without a
tokenizer.json, and what SentencePiece makes of texts.

    python make.py FOLDER

NAME/tokenizer.model, and NAME/cases.json: text, ids, and the text that they give back; and of some lists of ids the text.
"""
import io, json, os, random, sys

import sentencepiece

CORPUS = [
    "The quick brown fox jumps over the lazy dog.", "Tokens are pieces of words; words are pieces of texts, and texts of thoughts.", "A new line  with two spaces.",
    "def add(a, b): return a + b", "print(add(1, 23456))", "Größe, Übung, naïve café, señor", "你好世界 こんにちは", "привет мир и всем", "Full ＦＵＬＬ width ①②③ ﬁne", "مرحبا بالعالم", "שלום עולם",
    "pieces of <code> and </code> in texts", "In 2024, 365 days; in 2025, 365 too.",
] * 12

TEXTS = [
    "", " ", "  ", "a", " a", "a ", " a ", "The quick brown fox", "  two spaces  in  a row ", "line\nand\ttab\n\n", "\r\n\x0b\x0c", "▁underline▁▁", "▁", "größer 你好 привет", "日本語 emoji 😀👍🏽 and \u0007 bytes",
    "unseen: ⅷ ℵ \U0001f9e0 ᚠ", "1234567890", "def add(a, b):\n    return a + b", "don't stop", "<0x41>", "é vs e\u0301", "\u200b\u00a0x\u3000y\u2003z", "ab" * 40, "x <sep> y<sep>z", "<sep>", " <sep>  <sep>", "<code>a</code>", "ＡＢＣ１２３ ｶﾞ",
    "ﬁne ﬂow ½ ²", "مرحبا بالعالم", "שלום", "\ufeffbom", "soft\u00adhyphen", "zero\u200djoin\u200cer", "Å Å Å", "ÀÉÎ STRASSE ẞ İı", "각 각", "ǆ Ǆ", "\u0344x", "\ufffd", "Ⅷ㌔㍻", "a\u0300\u0301\u0302b", "quick" * 30, "，。！？", "<unk>", "#@$%^&*()",
    "\x01\x02\x7f", "\u0085a\u2028b\u2029c", "हिन्दी", "ไทย", "🇩🇪👨‍👩‍👧", "<s>", "\u2581x", " \t x", "～〜", "\u0130",
]
random.seed(7)
PARTS = ["the", " ", "  ", "q", "z", "\n", "ü", "世", "😀", "▁", "1", "over", "Ω", ".", "<sep>", "<code>", "ＡＢ", "ﬁ", "e\u0301", "pieces", "of", "Texts", "\t", "мир", "\u200b"]
for _ in range(60):
    TEXTS.append("".join(random.choice(PARTS) for _ in range(random.randint(1, 14))))

LLAMA = dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True)
FORMS = {
    "llama": dict(LLAMA, vocab_size=480),
    "bpe_symbols": dict(LLAMA, vocab_size=480, user_defined_symbols=["<code>", "</code>", "  "], control_symbols=["<sep>"], add_dummy_prefix=False),
    "bpe_plain": dict(model_type="bpe", vocab_size=260, normalization_rule_name="identity"),
    "unigram": dict(model_type="unigram", vocab_size=240),
    "unigram_symbols": dict(model_type="unigram", vocab_size=520, byte_fallback=True, normalization_rule_name="identity", user_defined_symbols=["<code>", "ord"], control_symbols=["<sep>"], remove_extra_whitespaces=False, pad_id=3),
    "unigram_suffix": dict(model_type="unigram", vocab_size=240, normalization_rule_name="nfkc_cf", treat_whitespace_as_suffix=True),
    "character": dict(model_type="char", vocab_size=100, normalization_rule_name="identity"),
    "word": dict(model_type="word", vocab_size=60, normalization_rule_name="identity"),
}

if __name__ == "__main__":
    top = sys.argv[1]
    print("sentencepiece", sentencepiece.__version__)
    for name, form in FORMS.items():
        folder = os.path.join(top, name)
        os.makedirs(folder, exist_ok=True)
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=out, character_coverage=0.98, hard_vocab_limit=False, minloglevel=2, num_threads=1, **form)
        open(os.path.join(folder, "tokenizer.model"), "wb").write(out.getvalue())
        t = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
        cases = [{"text": x, "ids": t.encode(x), "decoded": t.decode(t.encode(x))} for x in TEXTS]
        random.seed(11)
        lists = []
        for _ in range(80):
            ids = [random.randrange(t.get_piece_size()) for _ in range(random.randint(1, 8))]
            lists.append({"ids": ids, "decoded": t.decode(ids)})
        json.dump({"cases": cases, "lists": lists}, open(os.path.join(folder, "cases.json"), "w"), ensure_ascii=False)
        print(name, t.get_piece_size(), len(out.getvalue()), cases[8])
