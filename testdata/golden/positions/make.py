"""Golden logits of batches that begin at a position: tiny models of testdata/golden/families in float64, with the float32 rotary
frequencies and angles of transformers.

    PYTHONPATH=.. python make.py ../families OUT

OUT/logits.safetensors.golden has for each NAME and position FROM the logits NAME/FROM [4, vocabulary] after 1, 8, 16 and 24 tokens of
NAME/ids, of which the first is at that position.
"""
import json, os, sys, tempfile, shutil
import torch
from safetensors.torch import save_file
import float64

families, out = sys.argv[1:]
kinds = {name: {} for name in "llama llama_linear llama_dynamic llama_llama3 qwen3_yarn phi3_longrope gpt_oss deepseek_v2_yarn deepseek_v3_yarn gemma3 glm4".split()}
kinds["gemma3_linear"] = {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}
result = {}
for name, change in kinds.items():
    folder = tempfile.mkdtemp()
    shutil.copytree(f"{families}/{name.removesuffix('_linear') if change else name}", folder, dirs_exist_ok=True)
    config = json.load(open(folder + "/config.json"))
    config.update(change)
    json.dump(config, open(folder + "/config.json", "w"))
    model = float64.model(folder)
    ids = torch.tensor(json.load(open(folder + "/expected.json"))["ids"][0][:24])
    result[name + "/ids"] = ids.int()
    for begin in (0, 1000, 40000):
        with torch.no_grad():
            logits = model(ids[None], position_ids=torch.arange(begin, begin + 24)[None], use_cache=False).logits[0]
        assert logits.dtype == torch.float64
        result[f"{name}/{begin}"] = logits[[0, 7, 15, 23]].float()
    print(name, [float((result[f"{name}/0"] - result[f"{name}/{b}"]).abs().max()) for b in (1000, 40000)])
save_file(result, out + "/logits.safetensors.golden")
