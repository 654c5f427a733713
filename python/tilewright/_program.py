"""tune-cli, as this package runs it: in a process of its own."""
from __future__ import annotations

import os
import shutil
from typing import Any, Mapping

from ._dtypes import spec_text
from ._errors import ArgumentError, DatabaseError, DeviceError, Error, InternalError, TuneError

# tune-cli's exit codes, as its contract has them.
_ERRORS: dict[int, type[Error]] = {
    1: InternalError, 2: ArgumentError, 3: TuneError, 4: DeviceError, 5: DatabaseError, 6: TuneError,
}


def failure(code: int, text: str) -> Error:
    """The exception for an exit code, with the program's words."""
    return _ERRORS.get(code, InternalError)(text.strip() or f"tune-cli ended with {code}")


def find_program() -> str:
    """tune-cli: what TILEWRIGHT_TUNE_CLI names, else the one of the package `tilewright`, else the one
    on PATH. Raises DeviceError where there is none."""
    named = os.environ.get("TILEWRIGHT_TUNE_CLI")
    if named:
        found = shutil.which(named)
        if found is None:
            raise DeviceError(f"TILEWRIGHT_TUNE_CLI is '{named}'; expected a program")
        return found
    try:
        from tilewright_tuner import program
        return str(program())
    except ImportError:  # tilewright-runtime alone is installed
        pass
    found = shutil.which("tune-cli")
    if found is None:
        raise DeviceError("no tune-cli: the Python package 'tilewright' brings it (pip install "
                          "tilewright), else PATH or TILEWRIGHT_TUNE_CLI name it")
    return found


def spec_arguments(specs: Any) -> list[str]:
    """Specs as the program takes them: text, a dict, or an iterable of them."""
    if isinstance(specs, (str, Mapping)):
        specs = [specs]
    texts = [spec_text(spec) for spec in specs]
    if not texts:
        raise ArgumentError("no specs; give at least one")
    return texts
