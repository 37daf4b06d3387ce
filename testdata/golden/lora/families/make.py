"""Golden adapters of PEFT for families of testdata/golden/families: random products of all kinds of layers, and the logits with them in float64.

    PYTHONPATH=../.. python make.py ../../families OUT

OUT/NAME has adapter_config.json and adapter_model.safetensors as PEFT saves them (in float32), and expected.json with ids and, for some
positions, logits.
"""
import json, os, sys
import torch
from safetensors.torch import load_file, save_file
from peft import LoraConfig, get_peft_model
import float64

families, out = sys.argv[1:]
torch.manual_seed(13)
kinds = {
    "mistral": dict(target_modules="all-linear"),
    "phi3_longrope": dict(target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"], use_rslora=True),
    "glm4": dict(target_modules="all-linear", rank_pattern={"q_proj": 2}, alpha_pattern={"mlp.down_proj": 12}),
    "gpt_oss": dict(target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]),
    "deepseek_v2_yarn": dict(target_modules=["q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]),
}
for name, options in kinds.items():
    model = get_peft_model(float64.model(f"{families}/{name}"), LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM", **options)).double().eval()
    for key, p in model.named_parameters():
        if "lora_" in key:
            p.data = (torch.randn(p.shape) / 8).double()
    to = f"{out}/{name}"
    model.save_pretrained(to)
    weights = load_file(to + "/adapter_model.safetensors")
    save_file({key: v.float().contiguous() for key, v in weights.items()}, to + "/adapter_model.safetensors", metadata={"format": "pt"})
    if os.path.exists(to + "/README.md"):
        os.remove(to + "/README.md")
    ids = json.load(open(f"{families}/{name}/expected.json"))["ids"][0]
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0]
        with model.disable_adapter():
            plain = model(torch.tensor([ids]), use_cache=False).logits[0]
    assert logits.dtype == torch.float64
    json.dump({"ids": ids, "logits": {str(at): logits[at].float().tolist() for at in (0, 13, 39)}}, open(to + "/expected.json", "w"))
    print(name, float((logits - plain).abs().max()), len(weights), sorted(weights)[:3])
