#!/usr/bin/env python3
"""Times PyTorch's operators for the work of BenchmarkOperators, and compares the times.

    torch_operators.py time [--threads N] [--seconds S] [PATTERN]   one JSON object per line
    torch_operators.py compare OURS THEIRS                          the worst ratio first

Operators write to tensors that are there already where PyTorch can, as ours do.
"""

import argparse
import json
import re
import sys
import time

SIDE = 1024
MILLION = SIDE * SIDE
CASES = {}


def add(name, setup):
    """A case's setup makes its tensors and returns the call to time."""
    assert name not in CASES, name
    CASES[name] = setup


def measure(call, seconds):
    call()
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        begin = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - begin)
        if now > end:
            return best * 1e3


def take_times(threads, seconds, pattern):
    import torch
    import torch_network_cases
    import torch_operator_cases

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    for family in torch_operator_cases.FAMILIES + torch_network_cases.FAMILIES:
        family(add)
    failed = 0
    with torch.no_grad():
        for name, setup in CASES.items():
            if not re.search(pattern, name):
                continue
            try:
                line = {"name": name, "ms": measure(setup(), seconds)}
            except Exception as e:  # the other cases count all the same
                line, failed = {"name": name, "error": f"{type(e).__name__}: {e}"[:300]}, failed + 1
            print(json.dumps(line), flush=True)
    print(f"{len(CASES)} cases, {failed} failed", file=sys.stderr)


def read(path):
    with open(path) as lines:
        return {d["name"]: d for d in map(json.loads, lines)}


def compare(ours_path, theirs_path):
    ours, theirs = read(ours_path), read(theirs_path)
    both = [n for n in ours if "ms" in ours[n] and "ms" in theirs.get(n, {})]
    both.sort(key=lambda n: ours[n]["ms"] / theirs[n]["ms"], reverse=True)
    print(f"{'operator':42} {'ours ms':>9} {'theirs ms':>9} {'ratio':>7}")
    for n in both:
        a, b = ours[n]["ms"], theirs[n]["ms"]
        print(f"{n:42} {a:9.3f} {b:9.3f} {a / b:7.2f}")
    ratios = [ours[n]["ms"] / theirs[n]["ms"] for n in both]
    if ratios:
        over = sum(r > 10 for r in ratios)
        print(f"{len(both)} compared: median {ratios[len(ratios) // 2]:.2f}, {over} over 10")
    for n in ours:
        if n not in theirs:
            print(f"{n}: not timed in PyTorch")
    for n, d in theirs.items():
        if "error" in d:
            print(f"{n}: PyTorch: {d['error']}")
        elif n not in ours:
            print(f"{n}: not timed in the emulator")


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    timing = commands.add_parser("time")
    timing.add_argument("--threads", type=int, default=2)
    timing.add_argument("--seconds", type=float, default=0.03)
    timing.add_argument("pattern", nargs="?", default="")
    comparison = commands.add_parser("compare")
    comparison.add_argument("ours")
    comparison.add_argument("theirs")
    a = parser.parse_args()
    if a.command == "time":
        take_times(a.threads, a.seconds, a.pattern)
    else:
        compare(a.ours, a.theirs)


if __name__ == "__main__":
    main()
