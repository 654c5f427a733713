#!/usr/bin/env python3
"""Runs clang-tidy over sources, newest first, remembering those that were clean.

A stamp holds the hash of the source, of every header of the tree and of the checks; a source with a
stamp is not read again. A time budget ends the run early without an error, and says so.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))


def tree_hash() -> bytes:
    """What a verdict depends on besides the source itself."""
    digest = hashlib.sha256()
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True)
    digest.update(version.stdout)
    digest.update((ROOT / ".clang-tidy").read_bytes())
    headers = subprocess.run(
        ["git", "ls-files", "*.h"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in sorted(headers.stdout.split()):
        path = ROOT / name
        if path.exists():
            digest.update(path.read_bytes())
    return digest.digest()


def newest_first(names: list[str]) -> list[str]:
    """Orders the names by their last commit; a file that is not committed yet counts as newest."""
    log = subprocess.run(
        ["git", "log", "--format=", "--name-only", "-n", "200"],
        cwd=ROOT, capture_output=True, text=True, check=False)
    rank: dict[str, int] = {}
    for name in log.stdout.split():
        rank.setdefault(name, len(rank))
    changed = subprocess.run(
        ["git", "diff", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True,
        check=False)
    for name in changed.stdout.split():
        rank[name] = -1
    return sorted(names, key=lambda name: (rank.get(name, len(rank)), name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=float, default=0, help="seconds; 0: no end")
    parser.add_argument("sources", nargs="*")
    options = parser.parse_args()

    compiled = {
        os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        for entry in json.loads((options.build / "compile_commands.json").read_text())
    }
    sources = newest_first([name for name in options.sources if name in compiled])
    stamps = CACHE / "tilewright" / "tidy"
    stamps.mkdir(parents=True, exist_ok=True)
    base = tree_hash()
    end = time.monotonic() + options.budget if options.budget > 0 else float("inf")

    def stamp_of(name: str) -> pathlib.Path:
        digest = hashlib.sha256(base + name.encode() + (ROOT / name).read_bytes())
        return stamps / digest.hexdigest()

    def check(name: str) -> tuple[str, str]:
        stamp = stamp_of(name)
        if stamp.exists():
            return name, "known"
        if time.monotonic() > end:
            return name, "left"
        done = subprocess.run(
            ["clang-tidy", "--quiet", "-p", str(options.build),
             # clang reads gcc's flags but not its precompiled headers.
             "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-ignored-optimization-argument",
             name],
            cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stdout, file=sys.stderr, flush=True)
            if not done.stdout.strip():
                print(done.stderr, file=sys.stderr, flush=True)
            return name, "faulty"
        stamp.touch()
        return name, "clean"

    counts: dict[str, int] = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for _, verdict in pool.map(check, sources):
            counts[verdict] = counts.get(verdict, 0) + 1
    clean = counts.get("clean", 0) + counts.get("known", 0)
    print(f"tidy: {clean} files clean ({counts.get('known', 0)} known from before), "
          f"{counts.get('faulty', 0)} with findings, {counts.get('left', 0)} left when the budget ended")
    return 1 if counts.get("faulty") else 0


if __name__ == "__main__":
    sys.exit(main())
