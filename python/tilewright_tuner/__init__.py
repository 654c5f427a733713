"""tune-cli with the libraries that it loads, as the Python package `tilewright` brings it.

`tilewright.tune` starts it, and so does the command `tune-cli` of the environment."""
import os
import pathlib
import sys


def program() -> pathlib.Path:
    """The executable."""
    return pathlib.Path(__file__).resolve().parent / "bin" / "tune-cli"


def main() -> None:
    """Becomes the program, with this process's arguments."""
    os.execv(program(), ["tune-cli", *sys.argv[1:]])
