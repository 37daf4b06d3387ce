"""Golden embeddings and scores of encoders in float64, scores of rerankers that are decoders, and ids of pairs of texts.

    PYTHONPATH=.. python make.py ../tokenizer OUT

OUT/NAME are folders as transformers saves them, with random weights in float32, a tokenizer of ../tokenizer/pieces with the special tokens that hub
folders have around texts (xlm_rerank has that of xlm, and qwen3 the one in ../tokenizer/small), and what sentence_transformers writes about the pooling. expected.json has texts, their ids and embeddings of length
one, or pairs of texts, their ids, types and scores. Every text is computed by itself, without padding.
OUT/pairs.json has pairs of texts as tokenizers encodes them with several post-processors.
"""
import json, os, sys, traceback
import torch
from tokenizers import Tokenizer
from transformers import (BertConfig, BertForSequenceClassification, BertModel, Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification,
                          RobertaConfig, RobertaModel, XLMRobertaConfig, XLMRobertaForSequenceClassification, XLMRobertaModel)
import float64

tokenizers, out = sys.argv[1:]
torch.manual_seed(19)
texts = ["a small brown fox", "the lazy dog sleeps all day", "x", "what is an emulator? it computes the same numbers", "Größe, naïve 你好 [PAD] <pad> and [SEP] </s> words"]
pairs = [["a small brown fox", "the lazy dog sleeps all day"], ["the lazy dog sleeps all day", "a small brown fox"], ["what is an emulator?", "x"], ["x", "it computes the same numbers, isn't it"]]
sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=66)
longest = {"bert": 66, "xlm": 64, "roberta": 64}
pooling = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": False,
           "pooling_mode_mean_sqrt_len_tokens": False}
modules = [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
           for i, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")])]


def template(single, pair, ids):
    part = lambda p: {"Sequence" if p[0] == "$" else "SpecialToken": {"id": p.split(":")[0].lstrip("$"), "type_id": int((p.split(":") + ["0"])[1])}}
    return {"type": "TemplateProcessing", "single": [part(p) for p in single.split()], "pair": [part(p) for p in pair.split()],
            "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in ids.items()}}


frames = {
    "bert": template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", {"[CLS]": 2, "[SEP]": 3}),
    "xlm": template("<s> $A </s>", "<s> $A </s> </s> $B </s>", {"<s>": 0, "</s>": 2}),
    "roberta": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True, "add_prefix_space": False},
}


def tokenizer(name, post):
    t = json.load(open(f"{tokenizers}/pieces/{name}/tokenizer.json"))
    t["post_processor"] = post
    return Tokenizer.from_str(json.dumps(t))


def write(name, model, t, expected, pooled=None):
    to = f"{out}/{name}"
    model.float().save_pretrained(to)
    if t is not None and (pooled or len(t.to_str()) < 1 << 15):
        t.save(to + "/tokenizer.json")
    if pooled:
        os.makedirs(to + "/1_Pooling")
        json.dump({**pooling, "pooling_mode_cls_token": pooled == "cls", "pooling_mode_mean_tokens": pooled == "mean"}, open(to + "/1_Pooling/config.json", "w"), indent=1)
        json.dump(modules, open(to + "/modules.json", "w"), indent=1)
    json.dump(expected, open(to + "/expected.json", "w"))
    print(name, json.dumps(expected)[:200])


def randomised(model):
    for key, p in model.named_parameters():
        p.data = (torch.randn(p.shape) / 6 + (1 if "norm.weight" in key.lower() else 0)).float().double()
    sys.modules[type(model).__module__].torch = float64.Wide("torch")
    return model.double().eval()


def filled(t, n):
    """A text of n tokens, those around it included."""
    text = "fox"
    while len(t.encode(text).ids) < n:
        text += " fox" if len(t.encode(text + " fox").ids) <= n else "."
    assert len(t.encode(text).ids) == n, (len(t.encode(text).ids), n)
    return text


def states(model, ids, types):
    s = model(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([types])).last_hidden_state[0]
    assert s.dtype == torch.float64
    return s


def encoder(name, tok, config, base, head, pooled, extra):
    t = tokenizer(tok, frames[tok])
    c = config(vocab_size=t.get_vocab_size(), **sizes, **extra)
    model = randomised(base(c))
    own = texts + [filled(t, longest[tok])]
    rows, vectors = [t.encode(x) for x in own], []
    for r in rows:
        s = states(model, r.ids, r.type_ids)
        v = s[0] if pooled == "cls" else s.mean(0)
        vectors.append((v / v.norm()).tolist())
    write(name, model, t, {"texts": own, "ids": [r.ids for r in rows], "embeddings": vectors}, pooled)
    if head is None:
        return
    c.num_labels = 1
    model = randomised(head(c))
    rows = [t.encode(a, b) for a, b in pairs]
    scores = [float(model(input_ids=torch.tensor([r.ids]), token_type_ids=torch.tensor([r.type_ids])).logits[0, 0]) for r in rows]
    write(name + "_rerank", model, t, {"pairs": pairs, "ids": [r.ids for r in rows], "types": [r.type_ids for r in rows], "scores": scores})


def decoders():
    """Qwen3 as a classifier with one label, and as Qwen3-Reranker: the logarithm of the odds of one token against another one after a prompt."""
    t = Tokenizer.from_file(f"{tokenizers}/small/tokenizer.json")
    c = dict(vocab_size=4096, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=48, max_position_embeddings=512,
             tie_word_embeddings=True, pad_token_id=0)
    model = randomised(Qwen3ForSequenceClassification(Qwen3Config(**c, num_labels=1)))
    rows = [t.encode(a, b).ids for a, b in pairs]
    write("qwen3_rerank", model, None, {"pairs": pairs, "ids": rows, "scores": [float(model(input_ids=torch.tensor([r])).logits[0, 0]) for r in rows]})
    model = randomised(Qwen3ForCausalLM(Qwen3Config(**c)))
    prefix = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
              "<|im_start|>user\n")
    suffix = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    instruct = "Given a web search query, retrieve relevant passages that answer the query"
    no, yes = t.token_to_id("no"), t.token_to_id("not")
    rows, scores = [], []
    for q, d in pairs:
        ids = t.encode(f"{prefix}<Instruct>: {instruct}\n<Query>: {q}\n<Document>: {d}{suffix}").ids
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
        rows.append(ids)
        scores.append(float(logits[yes] - logits[no]))
    write("qwen3_judge", model, None, {"pairs": pairs, "no": "no", "yes": "not", "ids": rows, "scores": scores})


def encoded():
    both = [*pairs, ["", ""], ["a", ""], ["", "b"], ["a [SEP] b", "[CLS] c"]]
    plain, level = template("$A", "$A $B", {}), {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    cases = []
    for name, post in (("template", frames["bert"]), ("same type", template("[CLS] $A [SEP]", "[CLS] $A [SEP] [SEP] $B [SEP]", {"[CLS]": 2, "[SEP]": 3})),
                       ("turned round", template("$A [SEP]", "[CLS]:3 $B:2 [SEP]:1 $A", {"[CLS]": 2, "[SEP]": 3})),
                       ("bare", plain), ("types", template("$A", "$A $B:1", {})), ("none", None), ("ByteLevel", level),
                       ("BertProcessing", {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}),
                       ("RobertaProcessing", {"type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2], "trim_offsets": False, "add_prefix_space": False}),
                       ("level and template", {"type": "Sequence", "processors": [level, frames["bert"]]}),
                       ("two templates", {"type": "Sequence", "processors": [frames["bert"], template("[MASK] $A", "[MASK]:4 $A:5 $B:6", {"[MASK]": 4})]})):
        try:
            t = tokenizer("bert", post)
            rows = [t.encode(a, b) for a, b in both]
            cases.append({"name": name, "post_processor": post, "pairs": both, "ids": [r.ids for r in rows], "types": [r.type_ids for r in rows]})
        except BaseException:  # tokenizers panics where it has not done something
            traceback.print_exc()
    json.dump(cases, open(f"{out}/pairs.json", "w"))
    print(json.dumps(cases)[:3000])


with torch.no_grad():
    for job in (lambda: encoder("bert", "bert", BertConfig, BertModel, BertForSequenceClassification, "cls", {}),
                lambda: encoder("bert_mean", "bert", BertConfig, BertModel, None, "mean", {"hidden_act": "gelu_new"}),
                lambda: encoder("xlm", "xlm", XLMRobertaConfig, XLMRobertaModel, XLMRobertaForSequenceClassification, "cls", {"type_vocab_size": 1, "pad_token_id": 1}),
                lambda: encoder("roberta", "roberta", RobertaConfig, RobertaModel, None, "mean", {"type_vocab_size": 1, "pad_token_id": 1, "layer_norm_eps": 1e-5}),
                decoders, encoded):
        try:
            job()
        except Exception:
            traceback.print_exc()
