"""Compares the emulator with PyTorch on the same cores, in alternation: products, attention and a training step.

usage: taskset -c 0,1 python3 compare.py THREADS COMMAND [TRAINSTEP]

COMMAND is the built command of this folder, and TRAINSTEP that of examples/trainstep, built with -tags emu.
Each row has GFLOP/s, or tokens per second, of the best turn of the emulator / of PyTorch, and the middle of the
ratios of neighbouring turns.
"""
import json, os, statistics, struct, subprocess, sys, tempfile, time
import torch, torch.nn.functional as F

threads, command = int(sys.argv[1]), sys.argv[2]
rounds, turn = int(os.environ.get("ROUNDS", "7")), 0.05
torch.set_num_threads(threads)
torch.manual_seed(0)
types = {"float32": torch.float32, "bfloat16": torch.bfloat16}
emulator = subprocess.Popen([command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "GOMAXPROCS": str(threads)})


def ours(case):
    emulator.stdin.write(json.dumps({**case, "Seconds": turn}) + "\n")
    emulator.stdin.flush()
    return float(emulator.stdout.readline())


def theirs(f):
    best, end = 1e9, time.perf_counter() + turn
    while best == 1e9 or time.perf_counter() < end:
        begin = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - begin)
    return best


def compare(name, flops, case, f):
    # The threads of either side wait actively for a while after their turn.
    pairs = []
    ours(case), f()
    for _ in range(rounds):
        time.sleep(0.01)
        a = ours(case)
        time.sleep(0.01)
        pairs.append((a, theirs(f)))
    a, b = (flops / min(p[i] for p in pairs) / 1e9 for i in (0, 1))
    print(f"{threads} | {name} | {a:.0f} / {b:.0f} = {a / b:.2f} | {statistics.median(p[1] / p[0] for p in pairs):.2f}", flush=True)


def products():
    sizes = ((1024, 1024, 1024, 0), (1024, 1024, 1024, 1), (512, 3072, 768, 1), (1024, 768, 2048, 1), (128, 128, 128, 0), (64, 64, 16384, 0), (1, 4096, 1024, 1))
    for kind in types:
        for m, n, k, t in sizes if "few" not in os.environ.get("ONLY", "") else ():
            a = torch.randn(m, k).to(types[kind])
            b = torch.randn(n, k).to(types[kind]).t() if t else torch.randn(k, n).to(types[kind])
            case = {"Kind": "matmul", "Type": kind, "M": m, "N": n, "K": k, "Transposed": bool(t)}
            compare(f"{m}x{n}x{k}{'T' * t} {kind}", 2 * m * n * k, case, lambda: a @ b)
    # Those of the training step below, forward, of the gradient of x and of that of the weight.
    rows = 1024
    for kind in types:
        for n, k in ((768, 768), (256, 768), (2048, 768), (768, 2048), (8192, 768)):
            x, w, g = (torch.randn(*shape).to(types[kind]) for shape in ((rows, k), (n, k), (rows, n)))
            for name, m, n_, k_, flags, f in (
                ("forward", rows, n, k, {"Transposed": True}, lambda: x @ w.t()),
                ("of x", rows, k, n, {}, lambda: g @ w),
                ("of the weight", n, k, rows, {"LeftTransposed": True}, lambda: g.t() @ x),
            ):
                compare(f"{m}x{n_}x{k_} {name} {kind}", 2 * m * n_ * k_, {"Kind": "matmul", "Type": kind, "M": m, "N": n_, "K": k_, **flags}, f)
    a, b = torch.randint(-128, 128, (1024, 1024), dtype=torch.int8), torch.randint(-128, 128, (1024, 1024), dtype=torch.int8).t()
    case = {"Kind": "matmul", "Type": "int8", "M": 1024, "N": 1024, "K": 1024, "Transposed": True}
    compare("1024x1024x1024T int8", 2 * 1024**3, case, lambda: torch._int_mm(a, b))


def attention():
    heads, rows = 8, 1024
    for kind in types:
        for causal in (False, True):
            for dim in (64, 128):
                q, k, v = (torch.randn(1, heads, rows, dim).to(types[kind]).requires_grad_() for _ in range(3))
                cells = heads * rows * rows / (2 if causal else 1)
                case = {"Type": kind, "Heads": heads, "Rows": rows, "Dim": dim, "Causal": causal}
                name = f"{'causal' if causal else 'full'} {dim} {kind}"

                def forward():
                    with torch.no_grad():
                        F.scaled_dot_product_attention(q, k, v, is_causal=causal)

                compare("forward " + name, 2 * 2 * cells * dim, {**case, "Kind": "forward"}, forward)
                o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                g = torch.randn_like(o)
                compare("backward " + name, 5 * 2 * cells * dim, {**case, "Kind": "backward"}, lambda: torch.autograd.grad(o, (q, k, v), g, retain_graph=True))


def steps(trainstep):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    vocab = 8192
    config = Qwen3Config(vocab_size=vocab, hidden_size=768, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=12, num_key_value_heads=4, head_dim=64, tie_word_embeddings=True, use_cache=False)
    with tempfile.TemporaryDirectory() as folder:
        tokens = torch.randint(0, vocab, (1 << 16,)).tolist() + [vocab - 1]
        with open(folder + "/tokens.bin", "wb") as f:
            f.write(struct.pack(f"<{len(tokens)}H", *tokens))
        for kind in types:
            model = Qwen3ForCausalLM(config)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
            ids = torch.randint(0, vocab, (4, 256))

            def step():
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16"):
                    loss = model(input_ids=ids, labels=ids).loss
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()

            step()
            for again in range(int(os.environ.get("STEPS", "3"))):
                log = f"{folder}/{kind}{again}.json"
                dtype = {"float32": "fp32", "bfloat16": "bf16"}[kind]
                flags = "-steps 6 -batch 4 -seq 256 -layers 8 -hidden 768 -intermediate 2048 -heads 12 -kv-heads 4 -head-dim 64".split()
                subprocess.run([trainstep, "-data", folder + "/tokens.bin", "-dtype", dtype, "-log", log] + flags, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "GOMAXPROCS": str(threads)})
                took = min(json.loads(line)["seconds"] for line in open(log).readlines()[2:])
                best = min(theirs(step) for _ in range(4))
                print(f"{threads} | step {kind} | {1024 / took:.0f} / {1024 / best:.0f} = {best / took:.2f}", flush=True)


only = os.environ.get("ONLY", "products attention steps").split()
if "products" in only:
    products()
if "attention" in only:
    attention()
if "steps" in only and len(sys.argv) > 3:
    steps(sys.argv[3])
