"""Virtual environments for the peers that are Python packages, beside those of scripts/deps --peers.

Imported by the scripts that run such peers.
"""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable


def prefix() -> pathlib.Path:
    cache = os.environ.get("XDG_CACHE_HOME", str(pathlib.Path.home() / ".cache"))
    default = pathlib.Path(cache) / "tilewright" / "peers"
    return pathlib.Path(os.environ.get("TILEWRIGHT_PEERS_PREFIX", default))


def enter(name: str, module: str, packages: list[str] | Callable[[pathlib.Path], None],
          install: bool, by: str = "--install") -> None:
    """Goes on in the environment `name`, where `module` can be imported; exits 4 without it.

    With `install` the environment is made where it is missing: of `packages`, or by a function of its folder.
    `by` is what installs it, for the message.
    """
    try:
        __import__(module)
        return
    except ImportError:
        pass
    python = prefix() / name / "bin" / "python"
    if pathlib.Path(sys.prefix) == prefix() / name:
        print(f"{sys.argv[0]}: {module} cannot be imported in {sys.prefix}; {by} installs it", file=sys.stderr)
        sys.exit(4)
    if not python.exists() and install and callable(packages):
        packages(python.parent.parent)
    elif not python.exists() and install:
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-input",
                        "--disable-pip-version-check", *packages], check=True,
                       stdin=subprocess.DEVNULL)
    if not python.exists():
        print(f"{sys.argv[0]}: no {module}; {by} puts it into {python.parent.parent}",
              file=sys.stderr)
        sys.exit(4)
    os.execv(python, [str(python), *sys.argv])


def read_specs(arguments: list[str]) -> list[dict]:
    """Specs from files of them or from JSON objects on the command line."""
    specs: list[dict] = []
    for argument in arguments:
        text = argument if argument.lstrip().startswith("{") else pathlib.Path(argument).read_text()
        found = json.loads(text)
        if isinstance(found, dict):
            found = found.get("workloads", [found])
        specs.extend(found)
    return specs


def pair(value: object) -> tuple[int, int]:
    """A number, "RxS" or a list as one value an axis of two."""
    if isinstance(value, str):
        value = [int(part) for part in value.split("x")]
    if isinstance(value, list):
        return (value[0], value[-1])
    return (int(value), int(value))
