#!/usr/bin/env python3
"""Runs clang-tidy over sources, remembering those that were clean.

A stamp holds the hash of a source, of every header of the tree that it includes, and of the checks;
a source with a stamp is not read again. What was changed against the default branch comes first:
the sources themselves, then those that include a changed header, then the newest. A time budget
ends the run early without an error, and the last line says what share was left.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


class IncludeGraph:
    """The files of the tree that a source includes. They are written from the root or from
    include/, or made by the build; conditions around an include do not count."""

    def __init__(self, root: pathlib.Path, build: pathlib.Path):
        self.root = root
        self.folders = [root, root / "include", build / "generated"]
        self.direct: dict[pathlib.Path, list[pathlib.Path]] = {}

    def includes_of(self, path: pathlib.Path) -> list[pathlib.Path]:
        if path not in self.direct:
            names = INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace"))
            self.direct[path] = [found for name in names if (found := self.find(path, name))]
        return self.direct[path]

    def find(self, includer: pathlib.Path, name: str) -> pathlib.Path | None:
        for folder in [includer.parent, *self.folders]:
            if (folder / name).is_file():
                return (folder / name).resolve()
        return None

    def reached(self, source: str) -> set[pathlib.Path]:
        """The source and all that it includes, directly or not."""
        seen: set[pathlib.Path] = set()
        todo = [(self.root / source).resolve()]
        while todo:
            path = todo.pop()
            if path not in seen:
                seen.add(path)
                todo += self.includes_of(path)
        return seen


def verdicts_base(root: pathlib.Path) -> bytes:
    """A digest of everything that each verdict depends on besides the sources."""
    digest = hashlib.sha256()
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True)
    digest.update(version.stdout)
    digest.update((root / ".clang-tidy").read_bytes())
    return digest.digest()


def git(root: pathlib.Path, *arguments: str) -> list[str]:
    """The words that git answers; none where it does not know."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True,
                          check=False)
    return done.stdout.split() if done.returncode == 0 else []


def changed_files(root: pathlib.Path) -> set[str]:
    """Files that differ from where this branch left the default one, committed or not. On the
    default branch itself, the files of its last commit."""
    head = git(root, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    for branch in [*head, "origin/main", "origin/master", "main", "master"]:
        base = git(root, "merge-base", "HEAD", branch)
        if base:
            if base == git(root, "rev-parse", "HEAD"):
                base = git(root, "rev-parse", "--verify", "--quiet", "HEAD^") or base
            return set(git(root, "diff", "--name-only", base[0]))
    return set(git(root, "diff", "--name-only", "HEAD"))


def in_order(root: pathlib.Path, names: list[str], changed: set[str],
             graph: IncludeGraph) -> list[str]:
    touched = {(root / name).resolve() for name in changed}
    age: dict[str, int] = {}
    for name in git(root, "log", "--format=", "--name-only", "-n", "200"):
        age.setdefault(name, len(age))

    def rank(name: str) -> tuple[int, int, str]:
        near = 0 if name in changed else 1 if graph.reached(name) & touched else 2
        return near, age.get(name, len(age)), name

    return sorted(names, key=rank)


class Tidy:
    def __init__(self, root: pathlib.Path, build: pathlib.Path, budget: float):
        self.root, self.build = root, build
        self.graph = IncludeGraph(root, build)
        self.base = verdicts_base(root)
        self.stamps = CACHE / "tilewright" / "tidy"
        self.stamps.mkdir(parents=True, exist_ok=True)
        self.end = time.monotonic() + budget if budget > 0 else float("inf")

    def stamp_of(self, name: str) -> pathlib.Path:
        digest = hashlib.sha256(self.base + name.encode())
        # By content, so that another clone of the same tree knows them as well.
        for content in sorted(hashlib.sha256(path.read_bytes()).digest()
                              for path in self.graph.reached(name)):
            digest.update(content)
        return self.stamps / digest.hexdigest()

    def check(self, name: str) -> str:
        stamp = self.stamp_of(name)
        if stamp.exists():
            return "known"
        if time.monotonic() > self.end:
            return "left"
        done = subprocess.run(
            ["clang-tidy", "--quiet", "-p", str(self.build),
             # clang reads gcc's flags but not its precompiled headers.
             "--extra-arg=-Wno-unknown-warning-option",
             "--extra-arg=-Wno-ignored-optimization-argument",
             "--extra-arg=-Wno-unused-command-line-argument", name],
            cwd=self.root, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stdout if done.stdout.strip() else done.stderr, file=sys.stderr, flush=True)
            return "faulty"
        stamp.touch()
        return "clean"


def summary(verdicts: list[str]) -> str:
    known, faulty, left = map(verdicts.count, ("known", "faulty", "left"))
    text = (f"tidy: {known + verdicts.count('clean')} of {len(verdicts)} files clean "
            f"({known} known from before), {faulty} with findings")
    if left:
        text += f", {left} ({left / len(verdicts):.0%}) left when the budget ended"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=float, default=0, help="seconds; 0: no end")
    parser.add_argument("sources", nargs="*")
    options = parser.parse_args()

    root, build = options.root.resolve(), options.build.resolve()
    compiled = {
        os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
        for entry in json.loads((build / "compile_commands.json").read_text())
    }
    if any("/Unity/unity_" in name for name in compiled):
        print(f"run_tidy.py: {build} compiles sources in groups; configure one that does not: "
              "cmake --preset dev", file=sys.stderr)
        return 4
    named = [name for name in options.sources if name in compiled]
    tidy = Tidy(root, build, options.budget)
    sources = in_order(root, named, changed_files(root), tidy.graph)
    with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
        verdicts = list(pool.map(tidy.check, sources))
    print(summary(verdicts))
    return 1 if "faulty" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
