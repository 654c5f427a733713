#!/usr/bin/env python3
"""Compares judges of untried CPU kernels on stored trials: the output of build/…/cpu_predictions.

A judge chooses one of a workload's trials; its share is the speed of that kernel beside the fastest one.
Judges: the first answers, the analytical model, and the same corrected by the shipped model ("both") with
the first answers, as the search does.
Prints a line per workload and, per judge, the geometric mean and the 5th percentile of its shares and the
mean rank correlation (Spearman) with the measured times.
"""
import argparse
import json
import math
import sys


def ranks(values: list[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda i: values[i])
    result = [0.0] * len(values)
    for rank, i in enumerate(order):
        result[i] = float(rank)
    return result


def correlation(a: list[float], b: list[float]) -> float:
    x, y = ranks(a), ranks(b)
    n, mean = len(x), (len(x) - 1) / 2
    spread = sum((v - mean) ** 2 for v in x)
    return sum((p - mean) * (q - mean) for p, q in zip(x, y)) / spread if n > 1 else 1.0


def geomean(values: list[float]) -> float:
    return math.exp(sum(math.log(max(v, 1e-3)) for v in values) / max(1, len(values)))


def both(row: dict) -> float:
    """As judged_scores() in tuner/search/ranker.cc, and kPromise in tuner/search/search.cc."""
    return row["predicted"] * math.exp(0.5 * row["score"]) / (1.1 if row["first"] else 1)


JUDGES = {
    "first": None,
    "analytic": lambda r: r["predicted"],
    "both": both,
}


def judge(rows: list[dict]) -> dict[str, tuple[float, float]]:
    """Per judge: its share and its rank correlation."""
    best = min(r["seconds"] for r in rows)
    times = [r["seconds"] for r in rows]
    result = {}
    for name, key in JUDGES.items():
        if key is None:
            chosen = min((r for r in rows if r["first"]), key=lambda r: r["trial"], default=None)
            if chosen:
                result[name] = (best / chosen["seconds"], math.nan)
            continue
        runs = [r for r in rows if r["predicted"] > 0]
        if runs:
            result[name] = (best / min(runs, key=key)["seconds"], correlation([key(r) for r in rows], times))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=argparse.FileType("r"), default=sys.stdin)
    parser.add_argument("--part", choices=["all", "even", "odd"], default="all", help="which workloads")
    a = parser.parse_args()
    workloads: dict[str, list[dict]] = {}
    for line in a.file:
        row = json.loads(line)
        workloads.setdefault(row["spec"], []).append(row)
    shares: dict[str, list[tuple[float, float]]] = {name: [] for name in JUDGES}
    for number, (spec, rows) in enumerate(workloads.items()):
        if a.part != "all" and number % 2 != (a.part == "odd"):
            continue
        judged = judge(rows)
        for name, pair in judged.items():
            shares[name].append(pair)
        text = "  ".join(f"{n} {s:.2f} ({c:+.2f})" for n, (s, c) in judged.items())
        ratio = geomean([r["predicted"] / r["seconds"] for r in rows if r["predicted"] > 0])
        print(f"{spec[:70]:70} {len(rows):3} {text}  predicted/measured {ratio:.2f}")
    for name, pairs in shares.items():
        values = sorted(s for s, _ in pairs)
        if not values:
            continue
        rank = sum(c for _, c in pairs) / len(pairs)
        least = values[len(values) // 20]
        print(f"{name:10} geomean {geomean(values):.3f}  p5 {least:.2f}  rank {rank:+.2f}")


if __name__ == "__main__":
    main()
