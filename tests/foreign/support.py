"""Shared by the tests on files that others wrote: they run in the environment that holds these files."""
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77  # what ctest takes for a skipped test


def enter() -> None:
    """Goes on in the environment of scripts/foreign_files, or skips where it is not there."""
    script = ROOT / "scripts" / "foreign_files"
    there = subprocess.run([script, "--check"], capture_output=True, text=True, check=False)
    if there.returncode != 0:
        skip("no files of other programs: scripts/deps --foreign installs them")
    prefix = subprocess.run([script, "--prefix"], capture_output=True, text=True, check=True).stdout.strip()
    if pathlib.Path(sys.prefix) != pathlib.Path(prefix, "venv"):
        python = pathlib.Path(prefix, "venv", "bin", "python")
        os.execv(python, [str(python), *sys.argv])


def skip(reason: str) -> None:
    """Tells ctest that nothing of the program can run."""
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def main() -> None:
    """unittest.main() that tells ctest when everything was skipped."""
    result = unittest.main(module="__main__", exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and len(result.skipped) >= result.testsRun else 0)
