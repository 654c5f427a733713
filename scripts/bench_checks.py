#!/usr/bin/env python3
"""What the checks of candidates cost: their share of the time of a trial, workload by workload.

Tunes workloads of bench/workloads from nothing and reads `spent_s` of `tune --json`: compilers, right
values and operands that candidates share, checks, timing. With --baseline, another build's `tune-cli`
takes turns with this one on equal trials and seeds, and the ratio of trials a second is given. Each
run has a cache of its own, which holds the measured peaks of the machine and no kernel.

The default files have 214 workloads; --sample 12 takes about twelve, evenly spread over each file.

Prints a table on standard error and one JSON document: {"trials", "seed", "results": [{"spec", "threads",
"elapsed_s", "trials_per_second", "default_s", "spent_s": {"building", "reference", "checks", "timing"},
"share", "share_with_reference", "baseline": {"trials_per_second", "ratio"}}], "median_share",
"most_share", "geomean_ratio"}. A share is of elapsed_s; a ratio over 1: this build is faster.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ["operators", "cpu_matmul_f32", "cpu_matmul_bf16", "cpu_matmul_i8", "cpu_lowbit",
         "cpu_sparse"]


def specs_of(names: list[str], sample: int) -> list[str]:
    """Inline specs. A sample has as many of each file as the file's share, at least one."""
    lists = [json.loads((ROOT / "bench" / "workloads" / f"{name}.json").read_text())["workloads"]
             for name in names]
    total = sum(len(found) for found in lists)
    chosen = []
    for found in lists:
        count = len(found)
        if sample:
            count = min(count, max(1, round(sample * count / total)))
        chosen += [found[(2 * i + 1) * len(found) // (2 * count)] for i in range(count)]
    return [json.dumps(spec) for spec in chosen]


class Tuner:
    """A build of tune-cli with the machine's peaks measured."""

    def __init__(self, program: str, folder: pathlib.Path):
        self.program = program
        self.folder = folder
        self.machine = folder / "machine"
        self.runs = 0
        self.tune("matmul:m=8,n=8,k=8", 1, 1, 1, self.machine)
        self.tune("matmul:m=8,n=8,k=8", 1, 2, 1, self.machine)

    def tune(self, spec: str, trials: int, threads: int, seed: int,
             cache: pathlib.Path | None = None) -> dict:
        self.runs += 1
        if cache is None:
            cache = self.folder / f"cache{self.runs}"
            shutil.copytree(self.machine, cache)
        command = [self.program, "tune", spec, "--db", str(self.folder / f"{self.runs}.db"),
                   "--trials", str(trials), "--seed", str(seed), "--threads", str(threads),
                   "--no-warm-start", "--json", "--quiet"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=environment(cache), check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
        if cache != self.machine:
            shutil.rmtree(cache)
        result = json.loads(done.stdout)["results"][0]
        result["trials_per_second"] = result["trials"] / result["elapsed_s"]
        return result


def environment(cache: pathlib.Path) -> dict[str, str]:
    return {**os.environ, "TILEWRIGHT_CACHE": str(cache)}


def row_of(spec: str, threads: int, result: dict, baseline: dict | None) -> dict:
    spent, elapsed = result["spent_s"], result["elapsed_s"]
    row = {"spec": spec, "threads": threads, "elapsed_s": elapsed,
           "trials_per_second": result["trials_per_second"],
           "default_s": result["default_seconds"], "spent_s": spent,
           "share": spent["checks"] / elapsed,
           "share_with_reference": (spent["checks"] + spent["reference"]) / elapsed,
           "baseline": None}
    if baseline:
        rate = baseline["trials_per_second"]
        row["baseline"] = {"trials_per_second": rate,
                           "ratio": result["trials_per_second"] / rate}
    return row


def print_row(row: dict) -> None:
    spent = row["spent_s"]
    times = " ".join(f"{spent[k]:8.2f}" for k in ("building", "reference", "checks", "timing"))
    ratio = f"{row['baseline']['ratio']:6.2f}" if row["baseline"] else ""
    print(f"{row['elapsed_s']:8.2f} {times} {100 * row['share']:6.1f}% "
          f"{100 * row['share_with_reference']:6.1f}% {row['trials_per_second']:7.2f} {ratio} "
          f"{row['threads']} {row['spec']}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune-cli", default=str(ROOT / "build" / "release" / "tune-cli"))
    parser.add_argument("--baseline", help="tune-cli of another build, in turns")
    parser.add_argument("--files", nargs="+", default=FILES, help="files in bench/workloads")
    parser.add_argument("--specs", nargs="+", help="instead of files")
    parser.add_argument("--sample", type=int, default=0, help="so many of all; 0: all")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--seed", type=int, default=7)
    a = parser.parse_args()
    specs = a.specs or specs_of(a.files, a.sample)
    rows = []
    print(f"{'seconds':>8} {'building':>8} {'shared':>8} {'checks':>8} {'timing':>8} {'share':>7} "
          f"{'+shared':>7} {'trial/s':>7} {'ratio' if a.baseline else ''}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder)
        (base / "new").mkdir()
        (base / "old").mkdir()
        tuner = Tuner(a.tune_cli, base / "new")
        other = Tuner(a.baseline, base / "old") if a.baseline else None
        for spec in specs:
            for threads in a.threads:
                result = tuner.tune(spec, a.trials, threads, a.seed)
                baseline = other.tune(spec, a.trials, threads, a.seed) if other else None
                rows.append(row_of(spec, threads, result, baseline))
                print_row(rows[-1])
    document = {"trials": a.trials, "seed": a.seed, "results": rows,
                "median_share": statistics.median(row["share"] for row in rows),
                "most_share": max(row["share"] for row in rows), "geomean_ratio": None}
    if a.baseline:
        logs = [math.log(row["baseline"]["ratio"]) for row in rows]
        document["geomean_ratio"] = math.exp(statistics.mean(logs))
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
