#!/usr/bin/env python3
"""Writes docs/spec.md, the reference of all operators, from a built tune-cli."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "spec.md"
# Keys that hold further keys of the user's choosing, and one of these.
MAPS = {"dims": ".i", "dtypes": ".A", "shapes": ".A"}

HEAD = """# Operators and their keys

`scripts/spec_page.py` writes this page from `tune-cli ops --json` and from the refusals of wrong values. A test checks that it is current; `scripts/spec_page.py` updates it.

A spec is an operator with its keys: inline text such as `matmul:m=512,n=768,k=768`, or a JSON object such as `{"op": "matmul", "m": 512, "n": 768, "k": 768}`. Lists stand in brackets: `epilogue=[bias,relu]`. A text with commas or spaces stands in double quotes.

- A size may be a range, `m=1..4096`: a kernel then takes any size of it at launch.
- `name` is a label for output and exported files, `count` how often [a model](models.md) uses the workload. Neither belongs to the workload's identity.
- Keys under `w` say how a constant operand is stored: [formats of weights](formats.md).
- A default in brackets is derived from other keys.

| operator | computes |
| --- | --- |
"""


def parts_of(text: str) -> list[str]:
    """The keys of an inline spec, each as `key=value`."""
    parts, depth, quoted, start = [], 0, False, 0
    for i, sign in enumerate(text):
        if sign == '"':
            quoted = not quoted
        elif not quoted and sign in "[]":
            depth += 1 if sign == "[" else -1
        elif not quoted and sign == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def with_value(example: str, key: str, value: str) -> str:
    """The example with that value of a key."""
    op, _, keys = example.partition(":")
    kept = [part for part in parts_of(keys) if part.partition("=")[0] != key]
    return f"{op}:{','.join([*kept, f'{key}={value}'])}"


class Program:
    def __init__(self, path: pathlib.Path):
        self.path = path
        self.known: dict[tuple[str, str, str], bool] = {}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"TILEWRIGHT_CACHE": "off"}
        return subprocess.run([str(self.path), *arguments], capture_output=True, text=True,
                              check=False, env=environment)

    def operators(self) -> list[dict]:
        done = self.run("ops", "--json")
        if done.returncode != 0:
            sys.exit(f"spec_page: tune-cli ops failed: {done.stderr.strip()}")
        return json.loads(done.stdout)["ops"]

    def expected(self, example: str, key: str, value: str) -> str | None:
        """The accepted values that the refusal of a value names; None where it is accepted."""
        done = self.run("show", with_value(example, key, value), "--default", "--expr")
        first = done.stderr.partition("\n")[0]
        match = re.search(rf"spec: {re.escape(key)}: expected (.*), got ", first)
        return match.group(1) if match else None

    def takes(self, op: dict, name: str, value: str, values: str) -> bool:
        """Whether a value is no fault of its key; keys of one name and refusal are alike."""
        place = (name, values, value)
        if place not in self.known:
            self.known[place] = self.expected(op["example"], name, value) is None
        return self.known[place]

    def accepts(self, op: dict, key: dict) -> str:
        name = key["name"] + MAPS.get(key["name"], "")
        values = self.expected(op["example"], name, "@")
        if values is None:
            return "a list of names" if key.get("default", "").startswith("[") else "text"
        whole = re.fullmatch(r"a whole number from (-?\d+) to (\d+)", values)
        if whole:
            span = f"{whole.group(1)} to {whole.group(2)}"
            if self.takes(op, name, "[2..3,4]", values):
                return "a list of sizes or ranges of sizes"
            if self.takes(op, name, "2..3", values):
                return "a size or a range of sizes"
            if self.takes(op, name, "1x1", values):
                return f"a whole number, {span}, or one per axis such as `3x5`"
            if self.takes(op, name, "[1]", values):
                return f"a list of whole numbers, {span}"
            return f"a whole number, {span}"
        if values.startswith("one of "):
            choices = " ".join(f"`{choice}`" for choice in values[len("one of "):].split(", "))
            return f"a list of {choices}" if key.get("default", "").startswith("[") else choices
        return values


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def default_of(key: dict) -> str:
    if key["required"]:
        return "**required**"
    return f"`{key['default']}`" if "default" in key else "(derived)"


def section(program: Program, op: dict) -> str:
    lines = [f"## {op['op']}", "", f"Computes: {op['summary']}.", "",
             f"Operands: `{op['operands']}`", "", "```", f"tune-cli tune '{op['example']}'", "```",
             "", "| key | values | default | meaning |", "| --- | --- | --- | --- |"]
    for key in op["keys"]:
        name = key["name"] + (".*" if key["name"] in MAPS else "")
        lines.append(f"| `{name}` | {cell(program.accepts(op, key))} | {default_of(key)} | "
                     f"{cell(key['doc'])} |")
    return "\n".join(lines) + "\n"


def page(program: Program) -> str:
    operators = program.operators()
    rows = "".join(f"| [{op['op']}](#{op['op']}) | {cell(op['summary'])} |\n" for op in operators)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        sections = list(pool.map(lambda op: section(program, op), operators))
    return HEAD + rows + "\n" + "\n".join(sections)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune-cli", type=pathlib.Path,
                        default=ROOT / "build" / "release" / "tune-cli")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE)
    parser.add_argument("--check", action="store_true",
                        help="write nothing; exit 1 where the page is not current")
    options = parser.parse_args()
    text = page(Program(options.tune_cli))
    if not options.check:
        options.page.write_text(text, encoding="utf-8")
        return 0
    found = options.page.read_text(encoding="utf-8") if options.page.exists() else ""
    if found == text:
        return 0
    for number, (old, new) in enumerate(zip(found.splitlines(), text.splitlines()), 1):
        if old != new:
            print(f"{options.page}:{number}: is\n  {old}\nand should be\n  {new}")
            break
    print("The page is not current: scripts/spec_page.py writes it.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
