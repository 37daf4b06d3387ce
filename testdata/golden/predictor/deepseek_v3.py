"""Golden data of the layer of DeepSeek V3 that predicts a token further: random weights, and its logits in float64.

The layers are written down here once more. That they are right shows the loss of the golden folder beside, which transformers computed.
Run it in this folder; it needs Python only.
"""
import json
import math
import random
import struct

FOLDER = "../families/deepseek_v3/"
config = json.load(open(FOLDER + "config.json"))
expected = json.load(open(FOLDER + "expected.json"))
EPS, HEADS = config["rms_norm_eps"], config["num_attention_heads"]
PLAIN, ROTATED, VALUE, RANK = (config[k] for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank"))


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def read(path):
    """Returns matrices as lists of rows, and vectors as lists."""
    raw = open(path, "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, t in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            lo, hi = t["data_offsets"]
            x = [struct.unpack("<f", b"\0\0" + raw[8 + size + i:8 + size + i + 2])[0] for i in range(lo, hi, 2)]
            if len(t["shape"]) == 2:
                x = [x[i:i + t["shape"][1]] for i in range(0, len(x), t["shape"][1])]
            tensors[name] = x
    return tensors


def write(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        rows = x if isinstance(x[0], list) else [x]
        raw = b"".join(struct.pack("<f", v)[2:] for row in rows for v in row)
        header[name] = {"dtype": "BF16", "shape": [len(x), len(x[0])] if rows is x else [len(x)], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


def times(w, x):
    return [sum(map(float.__mul__, row, x)) for row in w]


def add(x, y):
    return [a + b for a, b in zip(x, y)]


def norm(x, w):
    scale = math.sqrt(sum(v * v for v in x) / len(x) + EPS)
    return [v / scale * f for v, f in zip(x, w)]


def rotate(x, position):
    """Turns neighbouring pairs; frequencies and angles are float32, as in the reference."""
    y = []
    for i in range(0, ROTATED, 2):
        frequency = single(1 / single(config["rope_parameters"]["rope_theta"] ** single(i / ROTATED)))
        angle = single(position * frequency)
        c, s = math.cos(angle), math.sin(angle)
        y += [x[i] * c - x[i + 1] * s, x[i + 1] * c + x[i] * s]
    return y


def attention(w, states):
    queries, keys, values, out = [], [], [], []
    for position, x in enumerate(states):
        q = times(w["q_b_proj.weight"], norm(times(w["q_a_proj.weight"], x), w["q_a_layernorm.weight"]))
        latent = times(w["kv_a_proj_with_mqa.weight"], x)
        kv = times(w["kv_b_proj.weight"], norm(latent[:RANK], w["kv_a_layernorm.weight"]))
        shared = rotate(latent[RANK:], position)
        heads = [q[h * (PLAIN + ROTATED):][:PLAIN + ROTATED] for h in range(HEADS)]
        queries = [h[:PLAIN] + rotate(h[PLAIN:], position) for h in heads]
        heads = [kv[h * (PLAIN + VALUE):][:PLAIN + VALUE] for h in range(HEADS)]
        keys.append([h[:PLAIN] + shared for h in heads])
        values.append([h[PLAIN:] for h in heads])
        y = []
        for h in range(HEADS):
            weights = [math.exp(sum(map(float.__mul__, queries[h], k[h])) / math.sqrt(PLAIN + ROTATED)) for k in keys]
            y += [sum(p * v[h][d] for p, v in zip(weights, values)) / sum(weights) for d in range(VALUE)]
        out.append(times(w["o_proj.weight"], y))
    return out


def unit(w, prefix, x):
    gate, up = times(w[prefix + "gate_proj.weight"], x), times(w[prefix + "up_proj.weight"], x)
    return times(w[prefix + "down_proj.weight"], [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)])


def experts(w, x):
    score = [1 / (1 + math.exp(-v)) for v in times(w["gate.weight"], x)]
    choice = add(score, w["gate.e_score_correction_bias"])
    size = len(choice) // config["n_group"]
    groups = sorted(range(config["n_group"]), key=lambda g: -sum(sorted(choice[g * size:][:size])[-2:]))[:config["topk_group"]]
    chosen = sorted((e for e in range(len(choice)) if e // size in groups), key=lambda e: -choice[e])[:config["num_experts_per_tok"]]
    y = unit(w, "shared_experts.", x)
    for e in chosen:
        share = score[e] / sum(score[c] for c in chosen) * config["routed_scaling_factor"]
        y = add(y, [share * v for v in unit(w, "experts.%d." % e, x)])
    return y


def layer(tensors, number, states):
    def part(name):
        prefix = "model.layers.%d.%s" % (number, name)
        return {k[len(prefix):]: v for k, v in tensors.items() if k.startswith(prefix)}
    before, after, mlp = part("input_layernorm.")["weight"], part("post_attention_layernorm.")["weight"], part("mlp.")
    mixed = attention(part("self_attn."), [norm(x, before) for x in states])
    states = [add(x, y) for x, y in zip(states, mixed)]
    return [add(x, experts(mlp, norm(x, after)) if "gate.weight" in mlp else unit(mlp, "", norm(x, after))) for x in states]


def main():
    model = read(FOLDER + "model.safetensors")
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]

    def states(ids):
        x = [model["model.embed_tokens.weight"][i] for i in ids]
        for i in range(layers):
            x = layer(model, i, x)
        return [norm(v, model["model.norm.weight"]) for v in x]

    losses = []
    for ids in expected["ids"]:
        for x, target in zip(states(ids[:-1]), ids[1:]):
            y = times(model["lm_head.weight"], x)
            losses.append(math.log(sum(map(math.exp, y))) - y[target])
    loss = sum(losses) / len(losses)
    assert abs(loss - expected["loss"]) < 1e-7, (loss, expected["loss"])

    rng, prefix, last = random.Random(5), "model.layers.%d." % layers, "model.layers.%d." % (layers - 1)
    shapes = {prefix + k[len(last):]: v for k, v in model.items() if k.startswith(last)}
    vector = [0.0] * hidden
    shapes.update({prefix + "enorm.weight": vector, prefix + "hnorm.weight": vector, prefix + "eh_proj.weight": [2 * vector] * hidden, prefix + "shared_head.norm.weight": vector})

    def values(name, like):
        if isinstance(like, list):
            return [values(name, v) for v in like]
        return struct.unpack("<f", b"\0\0" + struct.pack("<f", rng.gauss("norm" in name, 1 / 8))[2:])[0]

    predictor = {name: values(name, like) for name, like in shapes.items()}
    write("deepseek_v3.safetensors", predictor)
    ids = expected["ids"][0]
    x = [
        times(predictor[prefix + "eh_proj.weight"], norm(model["model.embed_tokens.weight"][token], predictor[prefix + "enorm.weight"]) + norm(state, predictor[prefix + "hnorm.weight"]))
        for state, token in zip(states(ids[:-1]), ids[1:])
    ]
    y = [times(model["lm_head.weight"], norm(v, predictor[prefix + "shared_head.norm.weight"])) for v in layer(predictor, layers, x)]
    json.dump({"ids": ids, "logits": [[single(v) for v in row] for row in y]}, open("deepseek_v3.json", "w"))


main()
