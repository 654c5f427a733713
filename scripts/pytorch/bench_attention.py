#!/usr/bin/env python3
"""Times variants of attention beside PyTorch's scaled_dot_product_attention and FlexAttention, in f32 on the CPU.

SDPA gets a mask for what it has no argument for: windows, biases, distances and sinks (one more key). A
soft cap, which no mask can express, is written out in eager operators. FlexAttention is compiled, with a block
mask where keys are masked. A cache of few bits is widened by eager operators. Outputs are compared with
each other. All run in one process, by turns. Tilewright's kernels are those of DB; --tune makes the missing.
The Python module is that of PYTHONPATH; scripts/pytorch/install.py installs PyTorch.
"""
import argparse
import importlib.util
import json
import math
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import peer_venv  # noqa: E402

PREFILL = "heads=8,m=1024,n=1024,d=64"
CASES = {
    "plain": PREFILL,
    "causal": f"{PREFILL},causal=true",
    "window": f"{PREFILL},causal=true,window=128",
    "window both ways": f"{PREFILL},window=128",
    "soft cap": f"{PREFILL},causal=true,softcap=30",
    "sinks": f"{PREFILL},causal=true,sinks=true",
    "ALiBi": f"{PREFILL},causal=true,alibi=true",
    "bias": f"{PREFILL},bias=heads+m+n",
    "triangle": "batch=64,heads=4,m=64,n=64,d=32,bias=heads+m+n",
    "window, cap, sinks": f"{PREFILL},causal=true,window=128,softcap=30,sinks=true",
    "decode": "heads=32,kv_heads=8,m=1,n=4096,d=128",
    "decode, i8 cache": "heads=32,kv_heads=8,m=1,n=4096,d=128,kv.dtype=i8,kv.group=32,kv.scale=f32",
    "decode, window": "heads=32,kv_heads=8,m=1,n=4096,d=128,causal=true,window=512",
}


def read(text: str) -> dict:
    return {key: int(value) if value.isdigit() else value
            for key, value in (part.split("=") for part in text.split(","))}


class Case:
    """The operands of a spec, and what PyTorch makes of them."""

    def __init__(self, text: str, torch):
        self.torch, self.spec = torch, f"attention:{text}"
        s = self.s = read(text)
        self.batch, self.heads = s.get("batch", 1), s["heads"]
        self.kv, self.m, self.n, self.d = s.get("kv_heads", self.heads), s["m"], s["n"], s["d"]
        random = torch.randn
        q = random(self.batch, self.heads, self.m, self.d)
        k, v = (random(self.batch, self.kv, self.n, self.d) for _ in "kv")
        self.operands = {"Q": q, "K": k, "V": v}
        if "kv.dtype" in s:
            groups = (self.batch, self.kv, self.n, self.d // s["kv.group"])
            for name in "KV":
                self.operands[name] = torch.randint(-127, 128, k.shape, dtype=torch.int8)
                self.operands[f"{name}.scale"] = torch.rand(groups) / 64
        if "bias" in s:
            self.operands["bias"] = random(self.heads, self.m, self.n)
        if "alibi" in s:
            self.operands["slopes"] = 2.0 ** -torch.arange(1, self.heads + 1, dtype=torch.float32)
        if "sinks" in s:
            self.operands["sinks"] = random(self.heads)

    def cache(self):
        """Keys and values in f32."""
        def widened(name: str):
            codes = self.operands[name]
            if f"{name}.scale" not in self.operands:
                return codes
            grouped = codes.float().unflatten(-1, (-1, self.s["kv.group"]))
            return (grouped * self.operands[f"{name}.scale"].unsqueeze(-1)).flatten(-2)
        return widened("K"), widened("V")

    def seen(self, i, j):
        """Whether query i sees key j; None where all are seen."""
        behind, seen = i + self.n - self.m - j, None
        if "causal" in self.s:
            seen = behind >= 0
        if "window" in self.s:
            near = behind < self.s["window"]
            seen = near if seen is None else seen & near
            if "causal" not in self.s:
                seen = seen & (-behind < self.s["window"])
        return seen

    def distances(self):
        places = self.torch.arange(self.n).float()
        behind = places[self.n - self.m:, None] - places
        return behind if "causal" in self.s else behind.abs()

    def terms(self):
        """What a mask adds to the scores; None for nothing."""
        torch = self.torch
        added = None
        if "bias" in self.s:
            added = self.operands["bias"]
        if "alibi" in self.s:
            added = -self.operands["slopes"][:, None, None] * self.distances()
        seen = self.seen(torch.arange(self.m)[:, None], torch.arange(self.n)[None])
        if seen is not None:
            lowest = torch.zeros(self.m, self.n).masked_fill(~seen, -math.inf)
            added = lowest if added is None else added + lowest
        if "sinks" in self.s:
            own = self.operands["sinks"][:, None, None].expand(-1, self.m, 1)
            base = torch.zeros(self.m, self.n) if added is None else added
            added = torch.cat([base.expand(self.heads, -1, -1), own], -1)
        return added

    def sdpa(self):
        torch, s, q = self.torch, self.s, self.operands["Q"]
        attend = torch.nn.functional.scaled_dot_product_attention
        shared = self.kv != self.heads
        if set(s) <= {"batch", "heads", "kv_heads", "m", "n", "d", "causal"} and self.m in (1, self.n):
            causal = "causal" in s and self.m > 1
            return lambda: attend(q, *self.cache(), is_causal=causal, enable_gqa=shared)
        mask = self.terms()
        if mask is not None:
            mask = mask.expand(self.batch, self.heads, *mask.shape[-2:])

        def with_sink(x):
            return torch.cat([x, x.new_zeros(*x.shape[:2], 1, x.shape[3])], 2) if "sinks" in s else x

        k, v = (with_sink(x) for x in self.cache())  # once, except for codes
        if "softcap" in s:
            cap = s["softcap"]

            def composed():
                scores = cap * torch.tanh(q @ k.transpose(-1, -2) * (self.d ** -0.5 / cap))
                return torch.softmax(scores + mask, -1) @ v
            return composed
        if "kv.dtype" in s:
            return lambda: attend(q, *self.cache(), attn_mask=mask, enable_gqa=shared)
        return lambda: attend(q, k, v, attn_mask=mask, enable_gqa=shared)

    def flex(self):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        torch, s, o = self.torch, self.s, self.operands
        cap, lead, causal = s.get("softcap"), self.n - self.m, "causal" in s
        bias, slopes = o.get("bias"), o.get("slopes")

        def score(value, b, h, i, j):
            if cap:
                value = cap * torch.tanh(value / cap)
            if bias is not None:
                value = value + bias[h, i, j]
            if slopes is not None:
                behind = i + lead - j
                value = value - slopes[h] * (behind if causal else behind.abs())
            return value

        block_mask = None
        if self.seen(0, 0) is not None:
            block_mask = create_block_mask(lambda b, h, i, j: self.seen(i, j), None, None, self.m, self.n,
                                           device="cpu")
        mod = score if cap or bias is not None or slopes is not None else None
        compiled = torch.compile(flex_attention)
        q, shared = o["Q"], self.kv != self.heads
        if "sinks" not in s:
            return lambda: compiled(q, *self.cache(), score_mod=mod, block_mask=block_mask, enable_gqa=shared)
        k, v = self.cache()

        def scaled():
            out, lse = compiled(q, k, v, score_mod=mod, block_mask=block_mask, enable_gqa=shared,
                                return_lse=True)
            return out * torch.sigmoid(lse - o["sinks"][:, None]).unsqueeze(-1)
        return scaled

    def tilewright(self, library, threads: int):
        from tilewright._call import inputs_of
        kernel = library.prepare(self.spec, threads=threads)[self.spec]
        out = self.torch.empty(self.batch, self.heads, self.m, self.d)
        tensors = [self.operands[operand.name] for operand in inputs_of(kernel, None)]
        return lambda: kernel(*tensors, out=out)


def timed(runs: dict, rounds: int) -> dict:
    samples: dict = {way: [] for way in runs}
    for run in runs.values():
        for _ in range(3):
            run()
    for turn in range(rounds):
        for way in list(runs)[:: 1 if turn % 2 else -1]:
            start = time.perf_counter()
            runs[way]()
            samples[way].append(time.perf_counter() - start)
    return samples


def bench(name: str, library, options, torch) -> dict:
    torch._dynamo.reset()
    case = Case(CASES[name], torch)
    told = {"case": name, "spec": case.spec, "seconds": {}, "off": {}, "ratio": {}}
    ways = {"tilewright": lambda: case.tilewright(library, options.threads), "sdpa": case.sdpa,
            "flex": case.flex}
    runs = {}
    for way, make in ways.items():
        try:
            runs[way] = make()
            runs[way]()
        except Exception as error:  # a compiler's refusal is a result, too
            runs.pop(way, None)
            told.setdefault("skipped", {})[way] = str(error).splitlines()[0][:200]
    outputs = {way: run().clone() for way, run in runs.items()}
    want = outputs.get("sdpa")
    if want is not None:
        told["off"] = {way: float((got - want).abs().max() / want.abs().max()) for way, got in outputs.items()}
    samples = timed(runs, options.rounds)
    told["seconds"] = {way: statistics.median(values) for way, values in samples.items()}
    for way in set(samples) - {"tilewright"} if "tilewright" in samples else ():
        told["ratio"][way] = statistics.median(
            theirs / ours for ours, theirs in zip(samples["tilewright"], samples[way]))
    return told


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--db", default="attention.db", help="database of kernels")
    parser.add_argument("--tune", type=int, default=0, help="trials for each kernel that DB lacks")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no case '{unknown[0]}'; expected some of {', '.join(CASES)}")
    peer_venv.enter("pytorch", "torch", [], False, by="scripts/pytorch/install.py")
    if importlib.util.find_spec("tilewright") is None:
        print(f"{sys.argv[0]}: no module tilewright; PYTHONPATH=build/release/python has it", file=sys.stderr)
        return 4
    import tilewright
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    names = options.cases or list(CASES)
    if options.tune:
        for name in names:
            tilewright.tune(f"attention:{CASES[name]}", db=options.db, trials=options.tune,
                            threads=options.threads, arguments=["--resume"], progress="lines")
    results = []
    with torch.inference_mode():
        library = tilewright.Library(options.db)
        for name in names:
            told = bench(name, library, options, torch)
            results.append(told)
            if options.json:
                continue
            times = "  ".join(f"{way} {1e3 * value:.3f} ms" for way, value in told["seconds"].items())
            ratios = "  ".join(f"{value:.2f}x of {way}" for way, value in sorted(told["ratio"].items()))
            print(f"{name}:  {times}  {ratios}  off {max(told['off'].values(), default=0):.1e}", flush=True)
            for way, why in told.get("skipped", {}).items():
                print(f"    {way}: {why}")
    if options.json:
        print(json.dumps({"pytorch": torch.__version__, "results": results}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
