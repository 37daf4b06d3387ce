"""Golden data of layers that predict a further token, which transformers leaves out: random weights with the names of hub folders, and logits in
float64 by transformers' own layers.

    PYTHONPATH=.. python others.py FOLDERS OUT

FOLDERS has glm4_moe of families, and qwen3_next and qwen3_5 of hub.

For each NAME, OUT/NAME.safetensors has the weights, and OUT/NAME.json ids and for each of them except the last the logits of the token after next.
"""
import json, sys, tempfile, shutil, glob
import torch
from safetensors.torch import load_file, save_file
import float64

folders, out = sys.argv[1:]
torch.manual_seed(11)
for name in "glm4_moe qwen3_next qwen3_5".split():
    source = f"{folders}/{name}"
    config = json.load(open(source + "/config.json"))
    base = {}
    for path in glob.glob(source + "/*.safetensors"):
        base.update(load_file(path))
    n, hidden, qwen = config["num_hidden_layers"], config["hidden_size"], name.startswith("qwen")

    def values(key, shape):
        norm = key.endswith("norm.weight") and "linear_attn" not in key
        return (torch.randn(shape) / 8 + (1 if norm and not qwen else 0)).bfloat16()

    last, extra = f"model.layers.{n - 1}.", f"model.layers.{n}."
    layer = {key[len(last):]: values(key, v.shape).to(v.dtype) for key, v in base.items() if key.startswith(last)}
    own = {key: values(key, shape) for key, shape in
           {"embedded.norm.weight": [hidden], "state.norm.weight": [hidden], "join.weight": [hidden, 2 * hidden], "end.norm.weight": [hidden]}.items()}
    folder = tempfile.mkdtemp()
    config["num_hidden_layers"] = n + 1
    if "layer_types" in config:
        config["layer_types"].append(config["layer_types"][-1])
    json.dump(config, open(folder + "/config.json", "w"))
    save_file({**base, **{extra + key: v for key, v in layer.items()}}, folder + "/model.safetensors", metadata={"format": "pt"})
    longer, model = float64.model(folder), float64.model(source)
    ids = torch.tensor(json.load(open(source + "/expected.json"))["ids"][:1])
    norm = type(model.model.norm)

    def normed(x, key):
        m = norm(hidden, eps=config["rms_norm_eps"]).double()
        m.weight.data = own[key].double()
        return m(x)

    with torch.no_grad():
        state = model.model(ids[:, :-1], use_cache=False).last_hidden_state
        x = torch.cat([normed(model.model.embed_tokens(ids[:, 1:]), "embedded.norm.weight"), normed(state, "state.norm.weight")], -1) @ own["join.weight"].double().T
        length = x.shape[1]
        positions = torch.arange(length)[None]
        mask = torch.full((1, 1, length, length), -torch.inf, dtype=torch.float64).triu(1)
        y = longer.model.layers[n](x, position_embeddings=longer.model.rotary_emb(x, positions[None].expand(3, 1, -1) if name == "qwen3_5" else positions), attention_mask=mask, position_ids=positions, past_key_values=None)
        if isinstance(y, tuple):
            y = y[0]
        logits = model.lm_head(normed(y, "end.norm.weight"))[0]
    assert logits.dtype == torch.float64
    if qwen:
        names = {"embedded.norm.weight": "mtp.pre_fc_norm_embedding.weight", "state.norm.weight": "mtp.pre_fc_norm_hidden.weight", "join.weight": "mtp.fc.weight", "end.norm.weight": "mtp.norm.weight"}
        prefix = "mtp.layers.0."
    else:
        names = {"embedded.norm.weight": "enorm.weight", "state.norm.weight": "hnorm.weight", "join.weight": "eh_proj.weight", "end.norm.weight": "shared_head.norm.weight"}
        names, prefix = {a: extra + b for a, b in names.items()}, extra
    save_file({**{prefix + key: v for key, v in layer.items()}, **{names[key]: v for key, v in own.items()}}, f"{out}/{name}.safetensors")
    json.dump({"ids": ids[0].tolist(), "logits": logits.float().tolist()}, open(f"{out}/{name}.json", "w"))
    print(name, logits.abs().max().item(), sorted(layer)[:6], len(layer))
