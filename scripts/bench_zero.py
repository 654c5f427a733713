#!/usr/bin/env python3
"""Measures what the first answers of a search are worth.

Draws --specs operators from --seed: products and convolutions of all element types and formats, row
reductions, attention and element-wise chains, with odd sizes. Each is tuned from nothing with --trials
candidates; the fastest that was measured is its mark. Then, as shares of the mark's speed (1: as fast):

  0 trials   the kernel that --offline chooses with the shipped model, from an empty database
  N trials   the fastest of the first N candidates of the search, for each N of --points

The choice of --offline and the mark are replayed in turns. Prints a line per operator on standard error,
and one JSON document: {"trials", "threads", "target", "results": [{"spec", "family", "shares": {N:
share}}], "geomean": {N: share}, "p5": {N: share}}.
"""
import argparse
import json
import math
import os
import pathlib
import random
import sqlite3
import statistics
import sys
import tempfile

from bench_search import geomean, run  # the folder of a script is on its path

WEIGHTS = [
    "dtype=bf16,out=f32,w.dtype=u4,w.group=64,w.scale=f16,w.zero=u4",
    "dtype=bf16,out=f32,w.dtype=i4,w.group=32,w.scale=f16",
    "dtype=f32,w.dtype=i4,w.group=64",
    "dtype=bf16,out=f32,w.dtype=i2,w.group=64,w.scale=f16",
    "dtype=bf16,out=f32,w.dtype=nf4,w.group=64,w.scale=f16",
    "dtype=i8,out=f32,w.dtype=i4,w.group=32,w.scale=f16",
    "dtype=bf16,out=f32,w.dtype=f8e4m3,w.scale=none",
]
TYPES = ["", ",dtype=bf16,out=f32", ",dtype=i8", ",dtype=f16"]
EPILOGUES = ["", ",epilogue=[bias]", ",epilogue=[bias,relu]", ",epilogue=[bias,gelu]"]


def size(rng: random.Random, low: int, high: int, step: int = 1) -> int:
    """A size, evenly drawn on a logarithmic scale; half of them are no multiple of 8."""
    value = round(math.exp(rng.uniform(math.log(low), math.log(high))))
    if rng.random() < 0.5:
        step = max(step, 8)
    return max(step, value // step * step)


def product(rng: random.Random) -> str:
    extra = rng.choice(TYPES)
    epilogue = rng.choice(EPILOGUES) if "i8" not in extra else ""
    return (f"matmul:m={size(rng, 1, 512)},n={size(rng, 32, 1536)},k={size(rng, 32, 1536)}"
            f"{extra}{epilogue}")


def few_bits(rng: random.Random) -> str:
    return (f"matmul:m={size(rng, 1, 64)},n={size(rng, 128, 2048, 8)},k={size(rng, 128, 2048, 64)},"
            f"{rng.choice(WEIGHTS)}")


def convolution(rng: random.Random) -> str:
    kernel, side = rng.choice([1, 3, 3, 5]), size(rng, 7, 56)
    channels = f"ci={size(rng, 8, 192)},co={size(rng, 8, 192)}"
    kind = rng.random()
    if kind < 0.2:
        return (f"depthwise_conv2d:n=1,h={side},w={side},c={size(rng, 8, 256)},kernel=3,pad=1,"
                f"stride={rng.choice([1, 2])}")
    if kind < 0.3:
        return f"conv2d_transpose:n=1,h={side // 2 + 4},w={side // 2 + 4},{channels},kernel=4,stride=2,pad=1"
    return (f"conv2d:n=1,h={side},w={side},{channels},kernel={kernel},pad={kernel // 2},"
            f"stride={rng.choice([1, 1, 2])}{rng.choice(TYPES[:3])}")


def rows(rng: random.Random) -> str:
    m, n = size(rng, 16, 2048), size(rng, 32, 2048)
    return rng.choice([
        f"softmax:m={m},n={n}",
        f'expr:expr="S[i] += A[i,j]; C[i] = S[i] * {1 / n:.6f}",dims.i={m},dims.j={n}',
        f'expr:expr="M[i] max= A[i,j]; C[i,j] = A[i,j] - M[i]",dims.i={m},dims.j={n}',
        f"elementwise:shape={m}x{n},fn=gelu",
    ])


def attention(rng: random.Random) -> str:
    return (f"attention:batch=1,heads={rng.choice([2, 4, 6])},m={size(rng, 1, 128)},"
            f"n={size(rng, 32, 384)},d={rng.choice([32, 64])}")


FAMILIES = {"product": (product, 4), "few bits": (few_bits, 3), "convolution": (convolution, 3),
            "rows": (rows, 1), "attention": (attention, 1)}


def draw(number: int, seed: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    names = [name for name, (_, weight) in FAMILIES.items() for _ in range(weight)]
    return [(name, FAMILIES[name][0](rng)) for name in (rng.choice(names) for _ in range(number))]


def best_of_first(db: str, points: list[int]) -> dict[int, float]:
    """The least median of the first so many trials; the untuned default is no trial of the search."""
    with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as connection:
        medians = [seconds for seconds, in connection.execute(
            "SELECT CASE verdict WHEN 'valid' THEN median_seconds END FROM records "
            "WHERE is_default = 0 ORDER BY trial")]
    found = [s if s and s > 0 else math.inf for s in medians]
    return {n: min(found[:n], default=math.inf) for n in points + [len(found)]}


def shares_of(a: argparse.Namespace, spec: str) -> dict[int, float]:
    common = ["--threads", str(a.threads), "--target", a.target, "--json", "--quiet"]
    with tempfile.TemporaryDirectory() as folder:
        tuned, offline = os.path.join(folder, "tuned.db"), os.path.join(folder, "offline.db")
        run([a.tune_cli, "tune", spec, "--db", tuned, "--trials", str(a.trials), *common])
        run([a.tune_cli, "tune", spec, "--db", offline, "--offline", *common])
        seconds: dict[str, list[float]] = {tuned: [], offline: []}
        for _ in range(a.rounds):
            for db, times in seconds.items():
                document, _ = run([a.tune_cli, "replay", spec, "--db", db, "--require", *common])
                times.append(document["results"][0]["seconds"])
        first = best_of_first(tuned, a.points)
        mark = min(first.values())
        medians = {db: statistics.median(times) for db, times in seconds.items()}
        return {0: medians[tuned] / medians[offline]} | {n: mark / first[n] for n in a.points}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("given", nargs="*", metavar="SPEC", help="inline specs, instead of drawn ones")
    parser.add_argument("--specs", type=int, default=300, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws")
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--points", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target", default="native")
    parser.add_argument("--rounds", type=int, default=3, help="replays of each choice")
    parser.add_argument("--tune-cli", default=str(root / "build/release/tune-cli"))
    a = parser.parse_args()
    results = []
    for family, spec in [("given", s) for s in a.given] or draw(a.specs, a.seed):
        shares = shares_of(a, spec)
        results.append({"spec": spec, "family": family, "shares": shares})
        print(f"{family:12} {spec[:76]:76} " + "  ".join(f"{n}: {s:.2f}" for n, s in shares.items()),
              file=sys.stderr, flush=True)
    columns = {n: sorted(r["shares"][n] for r in results) for n in [0, *a.points]}
    print(json.dumps({"trials": a.trials, "threads": a.threads, "target": a.target, "results": results,
                      "geomean": {n: geomean([max(s, 1e-3) for s in c]) for n, c in columns.items()},
                      "p5": {n: c[len(c) // 20] for n, c in columns.items()}}, indent=1))


if __name__ == "__main__":
    main()
