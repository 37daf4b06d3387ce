"""Compares one row times a weight of 14336 by 4096 elements with ggml's CPU back end, by turns.

usage: taskset -c 0 python3 turns.py THREADS TURNS GGML

TURNS is the built command of the folder turns, and GGML the program of row.c. int4 has a scale for 32 elements, and is
compared with q4_0. Each row has milliseconds of the best turn of the emulator / of ggml, and how many times
faster the emulator is.
"""
import json, os, subprocess, sys, time

threads = sys.argv[1]
pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
emulator = subprocess.Popen([sys.argv[2]], env={**os.environ, "GOMAXPROCS": threads}, **pipe)
ggml = subprocess.Popen([sys.argv[3], threads], **pipe)


def ask(program, line):
    time.sleep(0.05)  # after a product ggml's threads wait in a loop for a while
    program.stdin.write(line + "\n")
    program.stdin.flush()
    return float(program.stdout.readline())


for kind in ("float32", "float16", "int4"):
    case = json.dumps({"Kind": "matmul", "Type": kind, "M": 1, "N": 4096, "K": 14336, "Transposed": True, "Seconds": 0.2})
    turns = [(ask(emulator, case), ask(ggml, kind)) for _ in range(6)]
    ours, theirs = (min(t[i] for t in turns[1:]) for i in (0, 1))
    print(f"{threads} | {kind} | {1e3 * ours:.2f} / {1e3 * theirs:.2f} | {theirs / ours:.2f}", flush=True)
