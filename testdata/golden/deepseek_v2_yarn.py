# Golden data of a DeepSeek V2 with YaRN, groups of experts and a factor of their weights, in float64: loss, gradients, greedy tokens, logits.
# OUT is the folder to write to; families/deepseek_v2 is read from the working folder. (torch has no grouped products of float64, hence the loop.)
import json, os, shutil
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM


def grouped_mm(x, weights, offs, bias=None, out_dtype=None):
    parts, begin = [], 0
    for i, end in enumerate(offs.tolist()):
        parts.append(x[begin:end] @ weights[i])
        begin = end
    return torch.cat(parts)


torch.nn.functional.grouped_mm = grouped_mm
out = os.environ["OUT"]
base = json.load(open("families/deepseek_v2/config.json"))
base.update(n_group=4, topk_group=2, topk_method="group_limited_greedy", routed_scaling_factor=2.5, rope_parameters={
    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64,
    "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707})
json.dump(base, open("families/deepseek_v2/config.json", "w"), indent=2)
model = AutoModelForCausalLM.from_pretrained("families/deepseek_v2", dtype=torch.float32, attn_implementation="eager")
model.save_pretrained(out + "/saved")
model = model.double().eval()
old = json.load(open("families/deepseek_v2/expected.json"))
ids = torch.tensor(old["ids"])
loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
loss.backward()
grads = {}
generator = torch.Generator().manual_seed(1)
for name, p in model.named_parameters():
    g = p.grad.flatten()
    at = torch.randperm(len(g), generator=generator)[:512].sort().values
    grads[name + "/rms"] = g.square().mean().sqrt().reshape(1).float()
    grads[name + "/values"], grads[name + "/at"] = g[at].float(), at
save_file(grads, out + "/grad0.safetensors.golden")
result = {"ids": old["ids"], "loss": loss.item(), "prompt": old["prompt"], "greedy": [], "long_ids": old["long_ids"], "long_logits": {}}
with torch.no_grad():
    tokens, margin = list(old["prompt"]), 1e9
    for _ in range(48):
        top = model(torch.tensor([tokens])).logits[0, -1].topk(2)
        margin = min(margin, (top.values[0] - top.values[1]).item())
        tokens.append(top.indices[0].item()); result["greedy"].append(tokens[-1])
    result["smallest_margin"] = margin
    logits = model(torch.tensor(old["long_ids"])).logits[0]
    for i in (1, 50, 76, 149):
        result["long_logits"][str(i)] = logits[i].tolist()
json.dump(result, open(out + "/expected.json", "w"))
print("scaling", model.model.layers[0].self_attn.scaling, "loss", loss.item(), "margin", margin)
os.rename(out + "/saved/config.json", out + "/config.json")
os.rename(out + "/saved/model.safetensors", out + "/model.safetensors")
shutil.rmtree(out + "/saved")
