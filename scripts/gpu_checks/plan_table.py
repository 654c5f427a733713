#!/usr/bin/env python3
"""Prints what a plan for a GPU holds (scripts/gpu-check --prepare): a table in markdown per file of
workloads. A row has the predicted time of the best kernel, its share of the data sheet's roofline, and
the kinds of all stored kernels by their machine code. --nvidia adds what NVIDIA's own model expects of
dense products (scripts/compare_gpu_models.py --install). Ends with 1 where a workload has kernels of
fewer than two kinds, unless it is the plainest (threads), or one that spills registers.
"""
import argparse
import json
import os
import pathlib
import sqlite3
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import compare_gpu_models  # noqa: E402
import peer_venv  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = sorted((ROOT / "bench" / "workloads").glob("gpu_*.json"))

# The kinds of cuda_kind (kernel/cuda_source.h), which reads the text. Here the instructions tell that
# the compiler made them, the least usual first.
KINDS = (("clusters", ("UCGABAR",)),
         ("wgmma", ("HGMMA", "QGMMA", "IGMMA", "BGMMA")),
         ("mma", ("HMMA", "IMMA", "QMMA", "BMMA")))
PLAINEST = "threads"
SPILLS = ("LDL", "STL")

# NVIDIA's names for types of operands, accumulators and results.
PRECISIONS = {("f16", "f16"): "HSH", ("bf16", "bf16"): "TST", ("f8e4m3", "bf16"): "QQTST",
              ("i8", "i32"): "BII"}


def counts_of(description: str) -> dict[str, int]:
    """Instructions in the code of all of a record's kernels."""
    counts: dict[str, int] = {}
    for facts in json.loads(description)["facts"]:
        for name, count in facts["instructions"].items():
            counts[name] = counts.get(name, 0) + count
    return counts


def has(counts: dict[str, int], names: tuple[str, ...]) -> bool:
    """Whether there are such instructions, with or without a suffix."""
    return any(count and name.split(".")[0] in names for name, count in counts.items())


def kind_of(counts: dict[str, int]) -> str:
    return next((kind for kind, names in KINDS if has(counts, names)), PLAINEST)


def stored(plan: pathlib.Path) -> dict[str, list[tuple[float, dict[str, int]]]]:
    """By a workload's hash: predicted seconds and instructions of its kernels, the best first."""
    found: dict[str, list] = {}
    with sqlite3.connect(f"file:{plan}?mode=ro", uri=True) as db:
        for workload, seconds, description in db.execute(
                "SELECT r.workload_hash, r.median_seconds, a.description FROM records r JOIN artifacts a "
                "ON a.hash = r.artifact_hash WHERE r.offline = 1 AND r.verdict = 'valid' "
                "ORDER BY r.median_seconds"):
            found.setdefault(workload, []).append((seconds, counts_of(description)))
    return found


def answers(program: pathlib.Path, command: str, *arguments: str) -> list[dict]:
    ran = subprocess.run([program, command, "--json", *arguments], capture_output=True, text=True,
                         check=False)
    if ran.returncode:
        sys.exit(f"plan_table: tune-cli {command}: {ran.stderr.strip()[-400:]}")
    return json.loads(ran.stdout)["results"]


def title(spec: dict) -> str:
    weight = spec.get("w", {})
    form = ", ".join(str(weight[key]) for key in ("dtype", "sparse") if key in weight)
    vector = f", {weight['vector']} columns" if "vector" in weight else ""
    return f"{spec['m']} x {spec['n']} x {spec['k']} | {spec['dtype']} | {form}{vector}"


def table(arguments: argparse.Namespace, file: pathlib.Path, kernels, peer) -> int:
    """Prints it and returns how many workloads have too few kinds, or kernels that spill."""
    specs = json.loads(file.read_text())["workloads"]
    target = ("--target", arguments.target)
    hashes = [row["workload"] for row in answers(arguments.tool, "tune", *target, "--dry-run", str(file))]
    nvidia = peer is not None and file.stem == "gpu_matmul"
    head = "NVIDIA's model | " if nvidia else ""
    print(f"\n| m x n x k | types | weight | predicted | {head}share of the roofline | kinds |")
    print("| --- " * (7 if nvidia else 6) + "|")
    bad = 0
    for spec, workload in zip(specs, hashes):
        found = kernels.get(workload, [])
        kinds = dict.fromkeys(kind_of(counts) for _, counts in found)
        spills = any(counts.get(name) for _, counts in found for name in SPILLS)
        bad += spills or (len(kinds) < 2 and PLAINEST not in kinds)
        explained = answers(arguments.tool, "explain", *target, "--db", str(arguments.plan),
                            json.dumps(spec))[0]
        share = explained["roofline"]["seconds"] / found[0][0] if found else 0
        seconds = f"{1e6 * found[0][0]:.1f} us" if found else "none"
        other = peer(spec) if nvidia else ""
        print(f"| {title(spec)} | {seconds} | {other}{100 * share:.0f}% | {', '.join(kinds)}"
              f"{', spills' if spills else ''} |")
    return bad


def nvidia_model(gpu: str):
    peers: dict[str, compare_gpu_models.Peer] = {}

    def cell(spec: dict) -> str:
        precision = PRECISIONS.get((spec["dtype"], spec["out"]))
        if not precision:
            return " | "
        if precision not in peers:
            peers[precision] = compare_gpu_models.Peer(*compare_gpu_models.GPUS[gpu][1:], precision)
        best = peers[precision].best((spec["m"], spec["n"], spec["k"]))
        return f"{1e6 * best['runtime']:.1f} us | "
    return cell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=pathlib.Path)
    parser.add_argument("--target", default="cuda:sm_90a", help="the plan's (%(default)s)")
    parser.add_argument("--workloads", type=pathlib.Path, nargs="+", default=WORKLOADS)
    parser.add_argument("--nvidia", choices=compare_gpu_models.GPUS, metavar="GPU",
                        help="NVIDIA's model of this GPU beside ours")
    parser.add_argument("--tool", type=pathlib.Path, default=ROOT / "build" / "release" / "tune-cli")
    arguments = parser.parse_args()
    if not os.access(arguments.tool, os.X_OK):
        parser.error(f"there is no program '{arguments.tool}'; build it, or name it with --tool")
    if not arguments.plan.exists():
        parser.error(f"there is no plan '{arguments.plan}'; scripts/gpu-check --prepare makes one")
    if arguments.nvidia:
        peer_venv.enter("nvidia-matmul-heuristics", "nvMatmulHeuristics", [compare_gpu_models.PACKAGE],
                        install=False)
    peer = nvidia_model(arguments.nvidia) if arguments.nvidia else None
    kernels = stored(arguments.plan)
    bad = sum(table(arguments, file, kernels, peer) for file in arguments.workloads)
    if bad:
        print(f"plan_table: {bad} workloads have kernels of fewer than two kinds, or that spill",
              file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
