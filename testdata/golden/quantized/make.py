"""Makes the folders of testdata/golden/quantized: tiny random models of transformers, quantised by hand as the methods'
documents describe, and what transformers computes in float64 with the weights that they stand for.

    python make.py FOLDER

Each folder has the config.json and model.safetensors of a quantised model, expected.json with ids [2, 24], and
expected.safetensors.golden with their logits in float32, and of each quantised weight its root mean square (NAME/rms)
and up to 256 elements (NAME/values) at flat indices NAME/at.
"""
import json, os, sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

F8 = torch.float8_e4m3fn
torch.manual_seed(7)


def block_fp8(w, rows, columns):
    """DeepSeek's: a scale for each block, codes up to 448."""
    out, inn = w.shape
    down, across = -(-out // rows), -(-inn // columns)
    scale = torch.zeros(down, across)
    for r in range(down):
        for c in range(across):
            scale[r, c] = w[r * rows : (r + 1) * rows, c * columns : (c + 1) * columns].abs().max() / 448
    wide = scale.repeat_interleave(rows, 0)[:out].repeat_interleave(columns, 1)[:, :inn]
    codes = (w / wide).to(F8)
    return codes, scale, codes.to(torch.float64) * wide.double()


def channel_fp8(w):
    scale = (w.abs().amax(1, keepdim=True) / 448).bfloat16()
    codes = (w / scale.float()).to(F8)
    return codes, scale, codes.double() * scale.double()


def channel_int8(w, symmetric, scale_type=torch.bfloat16):
    if symmetric:
        scale = (w.abs().amax(1, keepdim=True) / 127).to(scale_type)
        codes = (w / scale.float()).round().clamp(-128, 127).to(torch.int8)
        return codes, scale, None, codes.double() * scale.double()
    low, high = w.amin(1, keepdim=True), w.amax(1, keepdim=True)
    scale = ((high - low) / 255).to(scale_type)
    zero = (-128 - low / scale.float()).round().clamp(-128, 127).to(torch.int8)
    codes = (w / scale.float() + zero.float()).round().clamp(-128, 127).to(torch.int8)
    return codes, scale, zero, (codes.double() - zero.double()) * scale.double()


def groups(inn, size, order):
    """Groups of inputs in the order of their activation, or in their own."""
    g = torch.arange(inn) // size
    if order:
        p = torch.randperm(inn)
        g = g[torch.argsort(p)]
    return g.to(torch.int32)


def group_codes(w, g, count, bits, symmetric, scale_type):
    """Unsigned codes, zero points [out, count] and scales of groups of inputs."""
    top = 2**bits - 1
    scale, zero = torch.zeros(w.shape[0], count), torch.zeros(w.shape[0], count)
    for k in range(count):
        part = w[:, g == k]
        if symmetric:
            scale[:, k], zero[:, k] = part.abs().amax(1) / (2 ** (bits - 1) - 0.5), 2 ** (bits - 1)
        else:
            low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
            scale[:, k] = (high - low) / top
            zero[:, k] = (-low / scale[:, k]).round().clamp(0, top)
    scale = scale.to(scale_type)
    wide, zeros = scale.float()[:, g.long()], zero[:, g.long()]
    codes = (w / wide + zeros).round().clamp(0, top)
    return codes.long(), zero.long(), scale, (codes.double() - zeros.double()) * wide.double()


def signed(x):
    return torch.where(x >= 2**31, x - 2**32, x).to(torch.int32)


def pack(codes, bits, dim):
    """So many codes in an int32, the first in the lowest bits."""
    each, codes = 32 // bits, codes.movedim(dim, -1)
    short = -codes.shape[-1] % each
    codes = torch.nn.functional.pad(codes, (0, short)).reshape(*codes.shape[:-1], -1, each)
    words = sum(codes[..., i] << (bits * i) for i in range(each))
    return signed(words).movedim(-1, dim).contiguous()


def pack_stream(codes, bits, dim):
    """One row of bits; a code may lie in two words."""
    codes = codes.movedim(dim, -1)
    flat = torch.stack([(codes >> b) & 1 for b in range(bits)], -1).flatten(-2)
    short = -flat.shape[-1] % 32
    flat = torch.nn.functional.pad(flat, (0, short)).reshape(*flat.shape[:-1], -1, 32)
    words = sum(flat[..., i] << i for i in range(32))
    return signed(words).movedim(-1, dim).contiguous()


def gptq(w, bits, size, order, symmetric, v2):
    inn = w.shape[1]
    size = inn if size == -1 else size
    g, count = groups(inn, size, order), -(-inn // size)
    codes, zero, scale, value = group_codes(w, g, count, bits, symmetric, torch.float16)
    stored = zero if v2 else (zero - 1) & (2**bits - 1)
    tensors = {"qweight": pack_stream(codes.T, bits, 0), "qzeros": pack_stream(stored.T, bits, 1), "scales": scale.T.contiguous(), "g_idx": g}
    return tensors, value


def awq(w, size):
    inn = w.shape[1]
    g = groups(inn, size, False)
    codes, zero, scale, value = group_codes(w, g, -(-inn // size), 4, False, torch.float16)
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def eight(x):  # [rows, columns]: eight columns in an int32
        x = x.reshape(x.shape[0], -1, 8)[:, :, order]
        return signed(sum(x[..., i] << (4 * i) for i in range(8))).contiguous()

    return {"qweight": eight(codes.T), "qzeros": eight(zero.T), "scales": scale.T.contiguous()}, value


def packed(w, bits, size, order, symmetric):
    inn = w.shape[1]
    g = groups(inn, size or inn, order)
    count = -(-inn // (size or inn))
    codes, zero, scale, value = group_codes(w, g, count, bits, symmetric, torch.bfloat16)
    t = {"weight_packed": pack(codes, bits, 1), "weight_scale": scale.contiguous(), "weight_shape": torch.tensor(w.shape)}
    if not symmetric:
        t["weight_zero_point"] = pack(zero, bits, 0)
    if order:
        t["weight_g_idx"] = g
    return t, value


def qwen3(**more):
    return Qwen3ForCausalLM(Qwen3Config(**{**dict(vocab_size=160, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=128, tie_word_embeddings=False, initializer_range=0.2), **more}))


def llama(**more):
    return LlamaForCausalLM(LlamaConfig(**{**dict(vocab_size=160, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False, initializer_range=0.2), **more}))


def linear(name):
    return name.endswith("_proj.weight")


def weights_of(group, **weights):
    return {"targets": group, "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "group_size": None, "block_structure": None, "dynamic": False, "actorder": None, "observer": "minmax", "observer_kwargs": {}, **weights}, "input_activations": None, "output_activations": None}


def fp8_moe():
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(vocab_size=160, hidden_size=160, intermediate_size=96, moe_intermediate_size=144, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=128, tie_word_embeddings=False, initializer_range=0.1))
    keep = ["lm_head", "model.layers.0.mlp.gate", "model.layers.1.mlp.gate", "model.layers.1.self_attn.o_proj"]

    def one(name, w):
        if not linear(name) or name == "model.layers.1.self_attn.o_proj.weight":
            return None
        codes, scale, value = block_fp8(w, 128, 128)
        return {name: codes, name + "_scale_inv": scale}, value

    return model, one, {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128], "modules_to_not_convert": keep}


def fp8_blocks():
    def one(name, w):
        if not linear(name):
            return None
        codes, scale, value = block_fp8(w, 48, 32)
        return {name: codes, name + "_scale_inv": scale}, value

    return llama(), one, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [48, 32]}


def int8():
    def one(name, w):
        if not linear(name) or "o_proj" in name or name == "model.layers.0.mlp.up_proj.weight":
            return None
        codes, scale, _, value = channel_int8(w, True)
        return {name: codes, name + "_scale": scale}, value

    group = weights_of(["Linear"])
    group["input_activations"] = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True, "group_size": None, "block_structure": None, "actorder": None, "observer": None, "observer_kwargs": {}}
    return qwen3(), one, {"quant_method": "compressed-tensors", "format": "int-quantized", "quantization_status": "compressed", "ignore": ["lm_head", "re:.*o_proj$", "model.layers.0.mlp.up_proj"], "config_groups": {"group_0": group}, "kv_cache_scheme": None, "global_compression_ratio": 1.5, "version": "0.9"}


def mixed():
    """Three groups: asymmetric int8 for queries by name, float8 in rows by expression, int8 of the whole weight by class."""

    def one(name, w):
        if not linear(name):
            return None
        module = name.removesuffix(".weight")
        if module.endswith("layers.0.self_attn.q_proj"):
            codes, scale, zero, value = channel_int8(w, False)
            return {name: codes, name + "_scale": scale, name + "_zero_point": zero}, value
        if "mlp" in module:
            codes, scale, value = channel_fp8(w)
            return {name: codes, name + "_scale": scale}, value
        scale = (w.abs().max() / 127).reshape(1)
        codes = (w / scale).round().to(torch.int8)
        return {name: codes, name + "_scale": scale}, codes.double() * scale.double()

    groups = {"group_0": weights_of(["Linear"], strategy="tensor"), "group_1": weights_of(["re:.*mlp.*"], type="float"), "group_2": weights_of(["model.layers.0.self_attn.q_proj"], symmetric=False)}
    return llama(), one, {"quant_method": "compressed-tensors", "format": "naive-quantized", "ignore": ["lm_head"], "config_groups": groups}


def packed4():
    def one(name, w):
        if not linear(name):
            return None
        module = name.removesuffix("weight")
        if "down_proj" in name:
            t, value = packed(w, 8, None, False, True)
        elif "self_attn" in name:
            t, value = packed(w, 4, 16, True, False)
        else:
            t, value = packed(w, 4, 32, False, True)
        return {module + k: v for k, v in t.items()}, value

    groups = {"group_0": weights_of(["re:.*self_attn.*"], num_bits=4, strategy="group", group_size=16, actorder="group", symmetric=False), "group_1": weights_of(["Linear"], num_bits=4, strategy="group", group_size=32), "group_2": weights_of(["re:.*down_proj"])}
    return qwen3(), one, {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"], "config_groups": groups}


def gptq4():
    def one(name, w):
        module = name.removesuffix("weight")
        if not linear(name) or name.startswith("model.layers.0.mlp.down_proj"):
            return None
        bits, size = (8, 16) if "v_proj" in name else (4, 32)
        t, value = gptq(w, bits, size, True, False, False)
        t["bias"] = torch.zeros(w.shape[0], dtype=torch.float16)
        return {module + k: v for k, v in t.items()}, value

    dynamic = {"-:.*layers\\.0\\.mlp\\.down_proj": {}, "+:.*v_proj": {"bits": 8, "group_size": 16}, ".*q_proj|.*v_proj": {"group_size": 32}}
    return qwen3(), one, {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False, "lm_head": False, "checkpoint_format": "gptq", "dynamic": dynamic, "meta": {"quantizer": ["gptqmodel:1.0"]}}


def gptq3():
    def one(name, w):
        module = name.removesuffix("weight")
        if not linear(name):
            return None
        t, value = gptq(w, 3, -1, False, True, True)
        return {module + k: v for k, v in t.items()}, value

    return llama(), one, {"quant_method": "gptq", "bits": 3, "group_size": -1, "desc_act": False, "sym": True, "checkpoint_format": "gptq_v2"}


def awq4():
    def one(name, w):
        module = name.removesuffix("weight")
        if not linear(name) or "o_proj" in name:
            return None
        t, value = awq(w, 32)
        return {module + k: v for k, v in t.items()}, value

    return llama(), one, {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm", "modules_to_not_convert": ["lm_head", "o_proj"]}


def at_some(name, value):
    flat = value.flatten()
    at = torch.randperm(flat.numel())[:256].sort().values
    return {name + "/rms": value.square().mean().sqrt().float().reshape(1), name + "/at": at, name + "/values": flat[at].float()}


def write(folder, make):
    model, one, config = make()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.bfloat16().float())
    model.save_pretrained(folder)
    from safetensors.torch import load_file

    plain = load_file(os.path.join(folder, "model.safetensors"))
    stored, state, golden = {}, {}, {}
    for name, w in plain.items():
        found = one(name, w.float())
        if found is None:
            stored[name], state[name] = w.bfloat16(), w.double()
            continue
        tensors, value = found
        stored.update(tensors)
        state[name] = value
        golden.update(at_some(name, value))
    save_file(stored, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    text = json.load(open(os.path.join(folder, "config.json")))
    text["dtype"], text["quantization_config"] = "bfloat16", config
    json.dump(text, open(os.path.join(folder, "config.json"), "w"), indent=1)
    # The reference: a plain folder in float64, by transformers.
    plain_folder = folder + ".plain"
    model.save_pretrained(plain_folder)
    save_file({k: v.contiguous() for k, v in state.items()}, os.path.join(plain_folder, "model.safetensors"), {"format": "pt"})
    reference = type(model).from_pretrained(plain_folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager")
    ids = torch.randint(0, 160, (2, 24))
    with torch.no_grad():
        logits = reference(ids).logits
    golden["logits"] = logits.float()
    save_file(golden, os.path.join(folder, "expected.safetensors.golden"))
    json.dump({"ids": ids.tolist()}, open(os.path.join(folder, "expected.json"), "w"))
    print(os.path.basename(folder), "logits", float(logits.std()), "transformers", transformers.__version__)
    if config["quant_method"] == "fp8":  # transformers has a dequantiser of its own for this method
        try:
            from transformers import FineGrainedFP8Config

            own = type(model).from_pretrained(folder, dtype=torch.float32, device_map="cpu", quantization_config=FineGrainedFP8Config(dequantize=True, weight_block_size=tuple(config["weight_block_size"]), modules_to_not_convert=config.get("modules_to_not_convert")), experts_implementation="eager").double()
            with torch.no_grad():
                print("  its own dequantiser differs by", float((own(ids).logits - logits).abs().max()))
        except Exception as e:
            print("  its own dequantiser:", repr(e)[:300])
    import shutil

    shutil.rmtree(plain_folder)
    for extra in ("generation_config.json",):
        path = os.path.join(folder, extra)
        if os.path.exists(path):
            os.remove(path)


def mxfp4(folder):
    """The weights of experts alone, with transformers' own function for them."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    os.makedirs(folder)
    stored, golden = {}, {}
    for name, outputs, blocks in (("model.layers.0.mlp.experts.gate_up_proj", 48, 3), ("model.layers.0.mlp.experts.down_proj", 32, 2)):
        codes = torch.randint(0, 256, (3, outputs, blocks, 16), dtype=torch.uint8)
        exponents = torch.randint(110, 135, (3, outputs, blocks), dtype=torch.uint8)
        stored[name + "_blocks"], stored[name + "_scales"] = codes, exponents
        golden.update(at_some(name, convert_moe_packed_tensors(codes, exponents).cpu().double().contiguous()))
    save_file(stored, os.path.join(folder, "model.safetensors"))
    save_file(golden, os.path.join(folder, "expected.safetensors.golden"))
    json.dump({"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}, open(os.path.join(folder, "config.json"), "w"), indent=1)


if __name__ == "__main__":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    top = sys.argv[1]
    mxfp4(os.path.join(top, "mxfp4"))
    for make in (fp8_moe, fp8_blocks, int8, mixed, packed4, gptq4, gptq3, awq4):
        write(os.path.join(top, make.__name__), make)
