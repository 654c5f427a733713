#!/usr/bin/env python3
"""Times kernels for a range of sizes: the dispatch table, the best single kernel, the default.

Each spec is tuned once; a copy of the database then learns a table of one kernel from the same
candidates. At sizes of the range at which nothing was measured while tuning, both tables are benched
in turns, the untuned default beside them. Prints a table on standard error and one JSON document:
{"trials", "threads", "results": [{"spec", "ranges", "points": [{"size", "seconds", "single_seconds",
"default_seconds"}], "against_single", "against_default", "slower_than_default"}]}; a figure over 1:
the table is faster, in the geometric mean over the sizes.
"""
import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

SPECS = [
    "matmul:m=1..512,n=768,k=768",
    "matmul:m=1..256,n=1024,k=1024,dtype=bf16,out=f32,w.dtype=i4,w.group=128,w.scale=f16",
    "softmax:m=1..1024,n=512",
]


def run(command: list[str]) -> dict:
    """The first result of the command's JSON document."""
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{process.stderr}")
    return json.loads(process.stdout)["results"][0]


def fresh_sizes(first: int, last: int, measured: set[int], count: int) -> list[int]:
    """Sizes spread evenly by their logarithms, each moved up past what was measured."""
    sizes: set[int] = set()
    for i in range(count):
        size = round(first * (last / first) ** ((i + 0.5) / count))
        while size in measured or size in sizes:
            size += 1
        if size <= last:
            sizes.add(size)
    return sorted(sizes)


def geomean(ratios: list[float]) -> float | None:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def summary(points: list[dict]) -> dict:
    single = [p["single_seconds"] / p["seconds"] for p in points]
    default = [p["default_seconds"] / p["seconds"] for p in points if p["default_seconds"]]
    return {"against_single": geomean(single), "against_default": geomean(default),
            "slower_than_default": sum(ratio < 1 for ratio in default)}


class Bench:
    def __init__(self, arguments: argparse.Namespace):
        self.a = arguments

    def tune_cli(self, command: str, spec: str, db: pathlib.Path, *options: str) -> dict:
        return run([self.a.tune_cli, command, spec, "--db", str(db), "--threads",
                    str(self.a.threads), "--json", "--quiet", *options])

    def point(self, spec: str, dim: str, size: int, table: pathlib.Path,
              single: pathlib.Path) -> dict:
        options = ["--dim", f"{dim}={size}", "--rounds", str(self.a.rounds)]
        of_table = self.tune_cli("bench", spec, table, *options)
        of_single = self.tune_cli("bench", spec, single, *options)
        found = {"size": size, "seconds": of_table["seconds"],
                 "single_seconds": of_single["seconds"],
                 "default_seconds": of_table["default_seconds"]}
        default = found["default_seconds"]
        print(f"  {dim}={size:<6} {found['seconds'] * 1e6:10.1f} us   single "
              f"{found['single_seconds'] * 1e6:10.1f} us   default "
              + (f"{default * 1e6:10.1f} us" if default else "         -"),
              file=sys.stderr, flush=True)
        return found

    def spec(self, spec: str) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            table, single = (pathlib.Path(folder) / name for name in ("table.db", "single.db"))
            trials = ["--trials", str(self.a.trials), "--seed", str(self.a.seed)]
            learnt = self.tune_cli("tune", spec, table, *trials)["dispatch"]
            if not learnt or "ranges" not in learnt:
                sys.exit(f"{spec}: no dispatch table was learnt: {learnt}")
            if "dim" not in learnt:
                sys.exit(f"{spec}: expected one range, got those of {' and '.join(learnt['dims'])}")
            shutil.copy(table, single)
            self.tune_cli("tune", spec, single, *trials, "--resume", "--kernels", "1")
            ranges = learnt["ranges"]
            words = ", ".join(f"{r['first']}..{r['last']} {r['record'][:8]}" for r in ranges)
            print(f"{spec}: {words}", file=sys.stderr, flush=True)
            sizes = fresh_sizes(ranges[0]["first"], ranges[-1]["last"],
                                {p["size"] for p in learnt["points"]}, self.a.sizes)
            points = [self.point(spec, learnt["dim"], size, table, single) for size in sizes]
        result = {"spec": spec, "ranges": ranges, "points": points, **summary(points)}
        told = (f"{result['against_single']:.2f} times as fast as the best single kernel, slower "
                f"than the default at {result['slower_than_default']} of {len(points)} sizes"
                if points else "tuning has measured every size")
        print(f"  {told}", file=sys.stderr, flush=True)
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("specs", nargs="*", default=SPECS, help="inline specs with one range")
    parser.add_argument("--tune-cli", default=str(root / "build/release/tune-cli"))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", type=int, default=8, help="sizes of each range")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side at a size")
    a = parser.parse_args()
    bench = Bench(a)
    results = [bench.spec(spec) for spec in a.specs]
    print(json.dumps({"trials": a.trials, "threads": a.threads, "results": results}, indent=1))


if __name__ == "__main__":
    main()
