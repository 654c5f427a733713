#!/usr/bin/env python3
"""Checks that specs, commands and options in documents are those of a built tune-cli."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

from check_tree import lines_of, tracked

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXCLUDED = ("CHANGELOG.md", "docs/spec.md")  # history; written from tune-cli itself
COMMAND = re.compile(r"\btune-cli ((?:db )?[a-z]+)\b([^\n`#|]*)")
ELISION = "…"


class Program:
    def __init__(self, path: pathlib.Path):
        self.path = path.resolve()
        self.helps: dict[str, str | None] = {}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(self.path), *arguments], capture_output=True, text=True,
                              check=False, env=os.environ | {"TILEWRIGHT_CACHE": "off"})

    def operators(self) -> list[str]:
        done = self.run("ops", "--json")
        if done.returncode != 0:
            sys.exit(f"check_examples: tune-cli ops failed: {done.stderr.strip()}")
        return [op["op"] for op in json.loads(done.stdout)["ops"]]

    def help(self, command: str) -> str | None:
        """The command's help; None where there is no such command."""
        if command not in self.helps:
            done = self.run(*command.split(), "--help")
            self.helps[command] = done.stdout if done.returncode == 0 else None
        return self.helps[command]

    def refusal(self, spec: str) -> str:
        """Empty for a spec that makes a workload."""
        done = self.run("show", spec, "--default", "--expr")
        return done.stderr.partition("\n")[0] if done.returncode else ""


def specs_in(line: str, operators: list[str]) -> list[str]:
    """Whole inline specs of a line: `matmul:m=1,n=2,k=3`, in quotes or not."""
    # A quote that opens within a spec follows an equals sign; any other belongs to the text around.
    pattern = rf"(?<![\w.:/(-])((?:{'|'.join(operators)}):(?:=\"[^\"]*\"|[^\s`'\")])+)"
    # Within the text of a program a spec's quotes have backslashes before them.
    found = [match.rstrip(".;,:") for match in re.findall(pattern, line.replace('\\"', '"'))]
    return [spec for spec in found if "=" in spec and ELISION not in spec]


def faults_of(program: Program, name: str, lines: list[str], operators: list[str]) -> list[str]:
    faults = []
    for number, line in enumerate(lines, 1):
        place = f"{name}:{number}: "
        for command, rest in COMMAND.findall(line):
            text = program.help(command)
            if text is None:
                faults.append(f"{place}tune-cli has no command '{command}'")
                continue
            for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", rest):
                if not re.search(rf"{option}(?![a-z-])", text):
                    faults.append(f"{place}tune-cli {command} has no option '{option}'")
        for spec in specs_in(line, operators):
            refusal = program.refusal(spec)
            if refusal:
                faults.append(f"{place}{refusal}: '{spec}'")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--tune-cli", type=pathlib.Path,
                        default=ROOT / "build" / "release" / "tune-cli")
    options = parser.parse_args()
    program = Program(options.tune_cli)
    operators = program.operators()
    names = [name for name in tracked(options.root)
             if name.endswith(".md") and name not in EXCLUDED]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lists = pool.map(
            lambda name: faults_of(program, name, lines_of(options.root / name), operators), names)
        faults = [fault for found in lists for fault in found]
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{len(names)} documents: no fault")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
