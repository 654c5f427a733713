#!/usr/bin/env python3
"""Writes the reference of all commands into docs/cli.md, from a built tune-cli.

The page's text up to the marker is written by hand and stays."""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cli.md"
COMMON = 3  # an option that so many commands have in the same words is described once
MARKER = "<!-- scripts/cli_page.py writes everything below from the option definitions -->"


def tree_of(tune_cli: pathlib.Path) -> dict:
    """All commands with their options, as `tune-cli help --json` lists them."""
    # Defaults that the environment changes are no part of the page.
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("TILEWRIGHT_")} | {"TILEWRIGHT_CONFIG": "off"}
    done = subprocess.run([str(tune_cli), "help", "--json"], capture_output=True, text=True,
                          check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"cli_page: tune-cli help failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def names(option: dict) -> str:
    """`-o`, `--output FILE`."""
    value = f" {option['value']}" if option["value"] else ""
    listed = [f"`{name}`" for name in option["names"]]
    listed[-1] = f"`{option['names'][-1]}{value}`" if option["names"][-1].startswith("-") \
        else listed[-1]
    return ", ".join(listed)


def note(option: dict) -> str:
    parts = [cell(option["description"])]
    if option["choices"]:
        parts.append("one of " + " ".join(f"`{cell(choice)}`" for choice in option["choices"]))
    if option["default"]:
        parts.append(f"default `{cell(option['default'])}`")
    if option["required"]:
        parts.append("**required**")
    if option["repeatable"]:
        parts.append("may be repeated")
    return "; ".join(parts)


def key(option: dict) -> str:
    return json.dumps(option, sort_keys=True)


def rows(options: list[dict]) -> list[str]:
    return ["| option | meaning |", "| --- | --- |",
            *(f"| {names(option)} | {note(option)} |" for option in options), ""]


def examples(text: str) -> list[str]:
    """The footer: prose, then "Example:" and commands."""
    before, _, commands = re.sub(r"\bExamples:", "Example:", text).partition("Example:")
    lines = [" ".join(before.split()), ""] if before.strip() else []
    if commands.strip():
        lines += ["```", *(line.strip() for line in commands.strip().split("\n")), "```", ""]
    return lines


def section(command: dict, common: set[str]) -> list[str]:
    """A command: its own options in a table, the common ones by name alone."""
    heading = "##" + "#" * len(command["command"].split())
    usage = " ".join(["tune-cli", command["command"], "[options]", *(
        option["names"][0] if option["required"] else f"[{option['names'][0]}]"
        for option in command["arguments"])])
    own = [option for option in command["options"] if key(option) not in common]
    lines = [f"{heading} {command['command']}", "", f"{command['description']}.", "",
             f"`{usage}`", ""]
    if command["arguments"] or own:
        lines += rows([*command["arguments"], *own])
    shared = [f"`{option['names'][-1]}`" for option in command["options"] if key(option) in common]
    if shared:
        lines += [f"[Common options](#common-options): {', '.join(shared)}.", ""]
    lines += examples(command["examples"])
    for below in command["commands"]:
        lines += section(below, common)
    return lines


def leaves(command: dict) -> list[dict]:
    below = [leaf for sub in command["commands"] for leaf in leaves(sub)]
    return below or [command]


def reference(tree: dict) -> str:
    """Options that several commands share stand once, before the commands."""
    every = [option for leaf in leaves(tree) for option in leaf["options"]]
    counts = collections.Counter(key(option) for option in every)
    common = {text for text, count in counts.items() if count >= COMMON}
    shared = {key(option): option for option in every if key(option) in common}
    lines = [MARKER, "", "## Options of the program", "", *rows(tree["options"]),
             "## Common options", "", *rows(list(shared.values())), "## Commands", "",
             "| command | does |", "| --- | --- |"]
    for command in tree["commands"]:
        lines.append(f"| [{command['command']}](#{command['command']}) | "
                     f"{cell(command['description'])} |")
    lines.append("")
    for command in tree["commands"]:
        lines += section(command, common)
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune-cli", type=pathlib.Path,
                        default=ROOT / "build" / "release" / "tune-cli")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE)
    parser.add_argument("--check", action="store_true",
                        help="write nothing; exit 1 where the page is not current")
    options = parser.parse_args()
    found = options.page.read_text(encoding="utf-8")
    head, marker, _ = found.partition(MARKER)
    if not marker:
        sys.exit(f"cli_page: {options.page} lacks the line '{MARKER}'")
    text = head + reference(tree_of(options.tune_cli.resolve()))
    if not options.check:
        options.page.write_text(text, encoding="utf-8")
        return 0
    if found == text:
        return 0
    for number, (old, new) in enumerate(zip(found.splitlines(), text.splitlines()), 1):
        if old != new:
            print(f"{options.page}:{number}: is\n  {old}\nand should be\n  {new}")
            break
    print("The page is not current: scripts/cli_page.py writes it.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
