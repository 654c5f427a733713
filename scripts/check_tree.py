#!/usr/bin/env python3
"""Checks of the source tree that no compiler makes. See --help for the list."""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

# The folders that each folder may include besides itself and include/tilewright, lowest first. Each is
# a library of its own in CMakeLists.txt.
LAYERS: dict[str, set[str]] = {
    "base": set(),
    "ir": {"base"},
    "kernel": {"base", "ir"},
    "schedule": {"base", "ir"},
    "codegen": {"base", "ir", "kernel", "schedule"},
    "runtime": {"base", "ir", "kernel"},
    "sandbox": {"runtime"},
    "emulator": {"base", "ir", "kernel", "runtime"},
    "models": {"base", "ir", "runtime"},
    "graph": {"base", "ir", "runtime", "models"},
    "database": {"base"},
    "serving": {"base", "ir", "kernel", "runtime", "models", "graph", "database"},
    "tuner": {"base", "ir", "kernel", "schedule", "codegen", "runtime", "emulator", "database"},
    "cli": {"base", "ir", "kernel", "schedule", "codegen", "runtime", "sandbox", "emulator", "models",
            "graph", "database", "serving", "tuner"},
    "bench": {"base", "ir", "kernel", "codegen", "runtime", "database", "tuner"},
    "examples": {"base", "ir", "runtime", "models", "database"},
    "python": set(),
    "provider": {"serving"},
    "ggml_backend": set(),
}
FOLDERS = [*LAYERS, "include/tilewright", "tests"]
# The files at the top: whoever adds one says so here.
TOP = {".clang-format", ".clang-tidy", ".dockerignore", ".gitignore", ".pre-commit-config.yaml",
       "CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "Dockerfile", "LICENSE",
       "README.md", "SECURITY.md", "pyproject.toml"}
MAX_LINES = 500
MAX_FILES = 40
SOURCES = (".cc", ".h", ".c", ".cu", ".cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
# Absolute paths of somebody's machine, and marks that were meant to go before a commit.
FORBIDDEN = [
    (re.compile(r"(?<![\w.}$/)-])/(?:work|home|root|Users)/\w"), "a path of one machine"),
    (re.compile(r"\b(?:FIX" r"ME|XX" r"X|HA" r"CK)\b"), "a mark of unfinished work"),
    (re.compile(r"^(?:<{7}|>{7}) "), "a merge conflict"),
]


def tracked(root: pathlib.Path) -> list[str]:
    """The files that git knows or would add; where git cannot tell, those outside hidden and build
    folders."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        names = set(listed.stdout.splitlines())
        return sorted(name for name in names if (root / name).is_file())
    names = []
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith((".", "build"))]
        names += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return sorted(names)


def lines_of(path: pathlib.Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []


def is_source(name: str) -> bool:
    return name.endswith(SOURCES) and name.startswith(tuple(f"{folder}/" for folder in FOLDERS))


def includes(root: pathlib.Path, names: list[str]) -> list[tuple[str, int, str]]:
    """File, line and target of each quoted include."""
    found = []
    for name in filter(is_source, names):
        for number, line in enumerate(lines_of(root / name), 1):
            match = INCLUDE.match(line)
            if match:
                found.append((name, number, match.group(1)))
    return found


def check_layers(root: pathlib.Path, names: list[str]) -> list[str]:
    """Includes are written from the root and go only to the folders that LAYERS grants."""
    faults = []
    for name, number, target in includes(root, names):
        folder, top, place = name.split("/")[0], target.split("/")[0], f"{name}:{number}: "
        if folder not in LAYERS or top in (folder, "tilewright"):
            continue
        if "/" not in target or target.startswith("."):
            faults.append(f'{place}"{target}" must be written from the root of the tree')
        elif top not in LAYERS:
            faults.append(f'{place}{folder}/ may not include "{target}" from outside the layers')
        elif top not in LAYERS[folder]:
            allowed = ", ".join(sorted(LAYERS[folder])) or "nothing else"
            faults.append(f'{place}{folder}/ may not include "{target}"; it may: {allowed}')
    return faults


def check_circles(root: pathlib.Path, names: list[str]) -> list[str]:
    """The folders that stand in one folder include each other in one direction only."""
    rooms: dict[str, dict[str, dict[str, str]]] = {}  # within, from, to: the first include
    for name, number, target in includes(root, names):
        here, there = name.split("/")[:-1], target.split("/")[:-1]
        shared = len(os.path.commonprefix([here, there]))
        if shared < min(len(here), len(there)):
            within = rooms.setdefault("/".join(here[:shared]), {})
            within.setdefault(here[shared], {}).setdefault(
                there[shared], f'{name}:{number}: "{target}"')
    faults = []
    for within, arrows in sorted(rooms.items()):
        for circle in circles(arrows):
            steps = "; ".join(arrows[a][b] for a, b in zip(circle, circle[1:]))
            faults.append(f"{within or 'the tree'}: {' -> '.join(circle)} is a circle: {steps}")
    return faults


def circles(arrows: dict[str, dict[str, str]]) -> list[list[str]]:
    """A shortest circle through each node that is on one and on none that was found before."""
    found: list[list[str]] = []
    for start in sorted(arrows):
        paths = [[start]]
        seen: set[str] = set()
        while paths and not any(start in circle for circle in found):
            path = paths.pop(0)
            for to in sorted(arrows.get(path[-1], {})):
                if to == start:
                    found.append([*path, to])
                    break
                if to not in seen:
                    seen.add(to)
                    paths.append([*path, to])
    return found


def check_rooms(root: pathlib.Path, names: list[str]) -> list[str]:
    """No folder holds more than MAX_FILES files of its own, of any kind."""
    held = collections.Counter(os.path.dirname(name) for name in names)
    return [f"{folder}: {count} files; the most allowed are {MAX_FILES}"
            for folder, count in sorted(held.items()) if count > MAX_FILES]


def check_length(root: pathlib.Path, names: list[str]) -> list[str]:
    """No source file is longer than MAX_LINES."""
    faults = []
    for name in names:
        if is_source(name) or (name.startswith("scripts/") and not name.endswith(".json")):
            count = len(lines_of(root / name))
            if count > MAX_LINES:
                faults.append(f"{name}: {count} lines; the longest allowed is {MAX_LINES}")
    return faults


def check_words(root: pathlib.Path, names: list[str]) -> list[str]:
    """No text holds a word that FORBIDDEN names."""
    faults = []
    for name in names:
        for number, line in enumerate(lines_of(root / name), 1):
            for pattern, what in FORBIDDEN:
                match = pattern.search(line)
                if match:
                    faults.append(f"{name}:{number}: {what}: '{match.group(0)}'")
    return faults


def check_headers(root: pathlib.Path, names: list[str]) -> list[str]:
    """Headers guard themselves and keep heavy libraries out."""
    heavy = re.compile(
        r"^\s*#\s*include\s*<(?:nlohmann/json\.hpp|spdlog/.*|fmt/.*|CLI/.*|sqlite3\.h|sodium\.h|xgboost/.*)>")
    faults = []
    for name in names:
        if not (is_source(name) and name.endswith(".h")):
            continue
        lines = lines_of(root / name)
        if not any(line.startswith(("#pragma once", "#ifndef ")) for line in lines):
            faults.append(f"{name}: neither #pragma once nor an include guard")
        if name.split("/")[0] not in LAYERS:
            continue
        for number, line in enumerate(lines, 1):
            if heavy.match(line):
                faults.append(f"{name}:{number}: a heavy header in a header: {line.strip()}")
    return faults


def check_top(root: pathlib.Path, names: list[str]) -> list[str]:
    """The root holds folders and the files that TOP names: no notes that were left lying about."""
    return [f"{name}: no file of that name belongs at the top" for name in names
            if "/" not in name and name not in TOP]


CHECKS = {
    "layers": check_layers,
    "circles": check_circles,
    "rooms": check_rooms,
    "length": check_length,
    "words": check_words,
    "headers": check_headers,
    "top": check_top,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name}: {check.__doc__}" for name, check in CHECKS.items()))
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="default: all")
    options = parser.parse_args()
    unknown = [name for name in options.checks if name not in CHECKS]
    if unknown:
        parser.error(f"no check is called '{unknown[0]}'; there are: {', '.join(CHECKS)}")

    names = tracked(options.root)
    faults = [fault for name in options.checks or CHECKS
              for fault in CHECKS[name](options.root, names)]
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{len(names)} files: no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
