#!/usr/bin/env python3
"""Compares search policies by the best kernel of equal trials, or two searches of one policy.

Each workload is tuned by each policy from nothing, with the same seed and number of trials; then
the winners are replayed in turns and their medians compared. With several seeds all of this is
done for each, and a workload's ratio is the geometric mean over them: one seed's luck says little.
With one policy its first two seeds are compared, to see whether two searches agree; --busy loops run
beside the second one.
A policy NAME=COMMAND is a program that leads the search (tune --proposer).
Prints a table on standard error and one JSON document: {"trials", "seeds", "threads", "results":
[{"spec", "runs": [{"seed", "policies": {NAME: {"seconds", "trials", "elapsed_s",
"trials_per_second", "rss_mb"}}, "ratio"}], "ratio"}], "wins", "geomean"}; a ratio over 1: the first
policy's kernel is faster than the second's. With one policy: {"trials", "seeds", "busy", "threads",
"results": [{"spec", "same", "ratio", "behind": [share, share]}], "same", "within_1_percent", "median",
"p95"}. "same": both found the same config; "ratio": the slower kernel's time by the faster one's; "behind":
what the last race of each search claims (null: nothing); "same" and "within_1_percent" of the document are
shares of the workloads.
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

# One workload of each kind, in f32.
KINDS = [
    "conv1d:n=1,l=64,ci=256,co=256,kernel=5,pad=2",
    "conv2d:n=1,h=7,w=7,ci=512,co=512,kernel=3,pad=1",
    "matmul:m=512,n=512,k=512",
    "conv2d:n=1,h=14,w=14,ci=256,co=256,kernel=3,pad=1,groups=4",
    "conv2d:n=1,h=14,w=14,ci=256,co=256,kernel=3,pad=1,dilation=2",
    "depthwise_conv2d:n=1,h=112,w=112,c=64,kernel=3,stride=2,pad=1",
    "conv2d_transpose:n=1,h=8,w=8,ci=256,co=128,kernel=4,stride=2,pad=1",
    "capsule_conv2d:n=1,h=16,w=16,ci=32,co=32,kernel=3,stride=2,pad=1",
    "conv2d:n=1,h=28,w=28,ci=64,co=128,kernel=3,stride=2,pad=1,epilogue=[bias,relu]",
    'expr:expr="C[b,h,i,j] += Q[b,i,h,d] * K[b,j,h,d]",dims.b=1,dims.h=12,dims.i=128,'
    "dims.j=128,dims.d=64",
]
# One of each way to store operands: here a config also says how codes are packed and unpacked,
# which instruction multiplies, and where scales meet the sums.
FORMATS = [
    "matmul:m=192,n=1024,k=768,dtype=i8",
    "matmul:m=96,n=1536,k=1024,dtype=bf16,out=f32",
    "conv2d:n=1,h=14,w=14,ci=192,co=256,kernel=3,pad=1,dtype=i8",
    "conv2d:n=1,h=20,w=20,ci=128,co=128,kernel=3,pad=1,dtype=bf16,out=f32,layout=nchw",
    "matmul:m=48,n=2048,k=1536,dtype=bf16,out=f32,w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4",
    "matmul:m=1,n=3072,k=2048,dtype=bf16,out=f32,w.dtype=i4,w.group=32,w.scale=f16",
    "matmul:m=32,n=1536,k=1536,dtype=i8,out=f32,w.dtype=i4,w.group=64,w.scale=f16",
    "matmul:m=8,n=2048,k=2048,dtype=bf16,out=f32,w.dtype=f4e2m1,w.group=32,w.scale=e8m0",
    "matmul:m=64,n=1536,k=1536,w.sparse=2:4,w.vector=16",
    "matmul:m=24,n=2048,k=1024,dtype=bf16,a.dtype=i8,w.dtype=i4,w.group=128,w.scale=f16",
]
SETS = {"kinds": KINDS, "formats": FORMATS}


def run(command: list[str]) -> tuple[dict, float]:
    """The command's JSON document, and the peak memory of the process in MB."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # Read before waiting: wait4 gives this one process's own peak.
    text = process.stdout.read()
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{errors}")
    return json.loads(text), usage.ru_maxrss / 1024


def tuned(a: argparse.Namespace, spec: str, seed: int, policy: str, db: str) -> tuple[dict, float]:
    _, _, command = policy.partition("=")
    how = ["--proposer", f"SEED={seed} {command}"] if command else ["--search", policy]
    document, rss = run([a.tune_cli, "tune", spec, "--db", db, *how, "--trials",
                         str(a.trials), "--seed", str(seed), "--threads", str(a.threads),
                         "--no-warm-start", "--json", "--quiet"])
    return document["results"][0], rss


def tune(a: argparse.Namespace, spec: str, seed: int, policy: str, db: str) -> dict:
    result, rss = tuned(a, spec, seed, policy, db)
    elapsed = result["elapsed_s"]
    return {"trials": result["trials"], "elapsed_s": elapsed,
            "trials_per_second": result["trials"] / elapsed, "rss_mb": rss}


def replay_in_turns(a: argparse.Namespace, spec: str, dbs: dict[str, str]) -> dict[str, float]:
    seconds: dict[str, list[float]] = {policy: [] for policy in dbs}
    for _ in range(a.rounds):
        for policy, db in dbs.items():
            document, _ = run([a.tune_cli, "replay", spec, "--db", db, "--threads",
                               str(a.threads), "--require", "--json", "--quiet"])
            seconds[policy].append(document["results"][0]["seconds"])
    return {policy: statistics.median(list_) for policy, list_ in seconds.items()}


def geomean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def compare(a: argparse.Namespace, spec: str, seed: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        dbs = {policy: os.path.join(folder, f"{i}.db") for i, policy in enumerate(a.policies)}
        policies = {policy: tune(a, spec, seed, policy, db) for policy, db in dbs.items()}
        for policy, seconds in replay_in_turns(a, spec, dbs).items():
            policies[policy]["seconds"] = seconds
    first, second = (policies[policy]["seconds"] for policy in a.policies[:2])
    result = {"seed": seed, "policies": policies, "ratio": second / first}
    words = "  ".join(f"{policy.partition('=')[0]} {p['seconds'] * 1e6:.1f} us ({p['trials_per_second']:.1f}/s)"
                      for policy, p in policies.items())
    print(f"{spec[:60]:60}  seed {seed}  {words}  {result['ratio']:.3f}", file=sys.stderr,
          flush=True)
    return result


def over_seeds(a: argparse.Namespace, spec: str) -> dict:
    runs = [compare(a, spec, seed) for seed in a.seeds]
    return {"spec": spec, "runs": runs, "ratio": geomean([r["ratio"] for r in runs])}


@contextlib.contextmanager
def busy_loops(number: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def agree(a: argparse.Namespace, spec: str) -> dict:
    """Tunes a workload with two seeds."""
    with tempfile.TemporaryDirectory() as folder:
        dbs = {str(seed): os.path.join(folder, f"{seed}.db") for seed in a.seeds[:2]}
        found = []
        for place, (seed, db) in enumerate(dbs.items()):
            with busy_loops(place * a.busy):
                found.append(tuned(a, spec, int(seed), a.policies[0], db)[0])
        seconds = replay_in_turns(a, spec, dbs).values()
    same = found[0]["best"]["config"] == found[1]["best"]["config"]
    ratio = 1.0 if same else max(seconds) / min(seconds)
    print(f"{spec[:90]:90} {'same' if same else 'other'} {ratio:.3f}", file=sys.stderr, flush=True)
    return {"spec": spec, "same": same, "ratio": ratio, "behind": [f["behind"] for f in found]}


def agreement(a: argparse.Namespace, specs: list[str]) -> dict:
    results = [agree(a, spec) for spec in specs]
    ratios = sorted(r["ratio"] for r in results)
    return {"trials": a.trials, "seeds": a.seeds[:2], "busy": a.busy, "threads": a.threads, "results": results,
            "same": sum(r["same"] for r in results) / len(results),
            "within_1_percent": sum(r <= 1.01 for r in ratios) / len(ratios),
            "median": statistics.median(ratios), "p95": ratios[len(ratios) * 95 // 100]}


def comparison(a: argparse.Namespace, specs: list[str]) -> dict:
    results = [over_seeds(a, spec) for spec in specs]
    ratios = [r["ratio"] for r in results]
    return {"trials": a.trials, "seeds": a.seeds, "threads": a.threads, "results": results,
            "wins": sum(r > 1 for r in ratios), "geomean": geomean(ratios)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("specs", nargs="*", help="inline specs, instead of a set")
    parser.add_argument("--set", choices=SETS, default="kinds",
                        help="ten f32 operators of all kinds, or ten formats of operands")
    parser.add_argument("--tune-cli", default=str(root / "build/release/tune-cli"))
    parser.add_argument("--policies", nargs="+", default=["evolutionary", "random"])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7, help="replays of each winner")
    parser.add_argument("--busy", type=int, default=0, help="busy loops beside the second of two seeds")
    a = parser.parse_args()
    if len(a.policies) < 2 and len(set(a.seeds[:2])) < 2:
        parser.error("compared are two policies or more, or two different --seeds of one policy")
    if a.busy and len(a.policies) > 1:
        parser.error("--busy disturbs one of two searches of a single policy")
    compared = comparison if len(a.policies) > 1 else agreement
    print(json.dumps(compared(a, a.specs or SETS[a.set]), indent=1))


if __name__ == "__main__":
    main()
