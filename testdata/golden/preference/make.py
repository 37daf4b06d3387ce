"""Golden data of losses that compare two answers: direct preference optimisation (arXiv:2305.18290, equation 7; with label smoothing as in its
appendix A, and the loss of the chosen answer's tokens besides) and the loss of reward models (arXiv:2203.02155, equation 1), in float64.

    PYTHONPATH=.. python make.py FOLDERS OUT

FOLDERS has families, hub and lora. Sequences are computed one by one, without padding. Where the policy is a whole model, it is the folder with the
weights of its last norm (of gemma and qwen3_5: 1 + weight) times 1.5, and the reference the folder as it is. With an adapter the reference is the model without it.

OUT/NAME.json has the pairs (ids, and how many of them are the prompt) and by case the options, the losses, log-probabilities or scores;
OUT/NAME.safetensors.golden of each gradient its root mean square (CASE/WEIGHT/rms) and up to 64 elements (CASE/WEIGHT/values) at flat indices
(CASE/WEIGHT/at).
"""
import json, sys
import torch
from torch.nn.functional import logsigmoid
from safetensors.torch import save_file
from peft import PeftModel
import float64

folders, out = sys.argv[1:]
torch.manual_seed(17)


def pairs(vocab):
    """Three pairs of other lengths that share their prompt."""
    made = []
    for prompt, chosen, rejected in ((5, 9, 4), (11, 3, 8), (2, 12, 12)):
        ids = torch.randint(3, vocab, (prompt + chosen + rejected,)).tolist()
        made.append({"prompt": prompt, "chosen": ids[:prompt + chosen], "rejected": ids[:prompt] + ids[prompt + chosen:]})
    return made


def logp(model, ids, prompt):
    logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    assert logits.dtype == torch.float64
    return logits[:-1].log_softmax(-1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])][prompt - 1:].sum()


def gradients(store, case, weights):
    for name, p in weights:
        if p.grad is None:
            continue
        g = p.grad.flatten()
        at = torch.randperm(len(g))[:64]
        store |= {f"{case}/{name}/rms": g.square().mean().sqrt()[None].float(), f"{case}/{name}/values": g[at].float(), f"{case}/{name}/at": at}
        p.grad = None


def dpo(name, policy, reference, weights, vocab):
    cases, store, data = {}, {}, pairs(vocab)
    with torch.no_grad():
        known = [[float(reference(p[k], p["prompt"])) for k in ("chosen", "rejected")] for p in data]
    for case, beta, smoothing, sft in (("plain", 0.1, 0.0, 0.0), ("smooth", 0.5, 0.2, 0.0), ("sft", 0.3, 0.0, 0.7)):
        own = [[policy(p[k], p["prompt"]) for k in ("chosen", "rejected")] for p in data]
        margins = [beta * ((c - rc) - (r - rr)) for (c, r), (rc, rr) in zip(own, known)]
        loss = sum(-(1 - smoothing) * logsigmoid(m) - smoothing * logsigmoid(-m) for m in margins) / len(data)
        loss = loss - sft * sum(c for c, _ in own) / sum(len(p["chosen"]) - p["prompt"] for p in data)
        loss.backward()
        gradients(store, case, weights())
        cases[case] = {"beta": beta, "smoothing": smoothing, "sft": sft, "loss": float(loss), "margins": [float(m) for m in margins],
                       "own": [[float(v) for v in pair] for pair in own]}
    json.dump({"pairs": data, "reference": known, "cases": cases}, open(f"{out}/{name}.json", "w"))
    save_file({k: v.contiguous() for k, v in store.items()}, f"{out}/{name}.safetensors.golden")
    print(name, cases["plain"]["loss"], cases["plain"]["margins"], len(store))


def raised(model):
    """The policy of a folder."""
    norm = model.model.norm
    plus = 1 if type(norm).__name__.startswith(("Gemma", "Qwen3_5")) else 0
    norm.weight.data = 1.5 * (plus + norm.weight.data) - plus
    return model


for folder in ("families/llama_llama3", "families/glm4_moe", "families/mixtral", "hub/qwen3_5", "hub/qwen3_tied"):
    try:
        policy, reference = raised(float64.model(f"{folders}/{folder}")), float64.model(f"{folders}/{folder}")
        dpo(folder.split("/")[1], lambda i, n: logp(policy, i, n), lambda i, n: logp(reference, i, n), policy.named_parameters, policy.config.vocab_size)
    except Exception as e:
        print("FAILED", folder, repr(e))

try:
    adapted = PeftModel.from_pretrained(float64.model(f"{folders}/families/mistral"), f"{folders}/lora/families/mistral", is_trainable=True).double().eval()

    def bare(ids, prompt):
        with adapted.disable_adapter():
            return logp(adapted, ids, prompt)

    named = lambda: [(k.replace(".default", ""), p) for k, p in adapted.named_parameters() if p.requires_grad]
    dpo("mistral_lora", lambda i, n: logp(adapted, i, n), bare, named, adapted.config.vocab_size)
except Exception as e:
    print("FAILED lora", repr(e))

# A reward is the product of the state of the last token and the weights of a head with one label.
for name in ("llama_llama3", "qwen3_bias"):
    try:
        model = float64.model(f"{folders}/families/{name}")
        hidden = model.config.hidden_size
        head = torch.tensor([[(i * 37 % 64 - 31.5) / 64 for i in range(hidden)]], dtype=torch.float64, requires_grad=True)
        score = lambda ids: (model.model(torch.tensor([ids]), use_cache=False).last_hidden_state[0, -1] @ head[0])
        data, store, cases = pairs(model.config.vocab_size), {}, {}
        for case, margins in (("plain", [0, 0, 0]), ("margin", [0.25, 1, 0])):
            own = [[score(p["chosen"]), score(p["rejected"])] for p in data]
            loss = sum(-logsigmoid(c - r - m) for (c, r), m in zip(own, margins)) / len(data)
            loss.backward()
            gradients(store, case, [*model.named_parameters(), ("score.weight", head)])
            cases[case] = {"margins": margins, "loss": float(loss), "own": [[float(v) for v in pair] for pair in own]}
        json.dump({"pairs": data, "cases": cases}, open(f"{out}/{name}_reward.json", "w"))
        save_file({k: v.contiguous() for k, v in store.items()}, f"{out}/{name}_reward.safetensors.golden")
        print(name, "reward", cases["plain"]["loss"], cases["plain"]["own"], len(store))
    except Exception as e:
        print("FAILED reward", name, repr(e))
