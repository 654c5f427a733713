#!/usr/bin/env python3
"""Checks of the source tree that no compiler makes. See --help for the list."""
import argparse
import os
import pathlib
import re
import subprocess
import sys

# Folders and headers that each folder may include besides itself and include/tilewright.
LAYERS: dict[str, set[str]] = {
    "ir": set(),
    "schedule": {"ir"},
    "codegen": {"ir", "schedule"},
    "runtime": {"ir", "codegen/cpu_features.h", "codegen/cuda_description.h", "codegen/cuda_prelude.h",
                "codegen/cuda_source.h", "codegen/cuda_sparse_mma.h",
                "codegen/cuda_sparse_wgmma.h", "codegen/cuda_wgmma.h", "codegen/kernel_abi.h",
                "codegen/kernel_source.h", "codegen/mma_rows.h", "codegen/sparse_mma_rows.h",
                "codegen/sparse_wgmma_rows.h", "codegen/target.h", "codegen/tensor_map.h",
                "codegen/tensor_sums.h",
                "codegen/wgmma_rows.h"},
    "database": {"ir"},
    "serving": {"ir", "runtime", "database", "codegen/cpu_features.h", "codegen/cuda_description.h",
                "codegen/cuda_source.h", "codegen/kernel_abi.h", "codegen/kernel_extent.h",
                "codegen/kernel_source.h", "codegen/target.h", "codegen/tensor_map.h"},
    "tuner": {"ir", "schedule", "codegen", "runtime", "database"},
    "cli": {"ir", "schedule", "codegen", "runtime", "database", "tuner", "bench/peers/peer.h"},
    "python": set(),
}
FOLDERS = [*LAYERS, "include/tilewright", "bench", "examples", "tests"]
# The files at the top: whoever adds one says so here.
TOP = {".clang-format", ".clang-tidy", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md",
       "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "LICENSE", "README.md",
       "SECURITY.md"}
MAX_LINES = 500
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


def check_layers(root: pathlib.Path, names: list[str]) -> list[str]:
    """Includes are written from the root and go only to the folders that LAYERS grants."""
    faults = []
    for name in filter(is_source, names):
        folder = name.split("/")[0]
        for number, line in enumerate(lines_of(root / name), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            place = f"{name}:{number}: "
            top = target.split("/")[0]
            if "/" not in target or target.startswith("."):
                if folder in LAYERS:
                    faults.append(f'{place}"{target}" must be written from the root of the tree')
            elif folder in LAYERS and top in LAYERS and top != folder:
                granted = LAYERS[folder]
                if top not in granted and target not in granted:
                    allowed = ", ".join(sorted(granted)) or "nothing else"
                    faults.append(f'{place}{folder}/ may not include "{target}"; it may: {allowed}')
            elif (folder in LAYERS and top not in LAYERS and top != "tilewright"
                  and target not in LAYERS[folder]):
                faults.append(f'{place}{folder}/ may not include "{target}" from outside the layers')
    return faults


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
