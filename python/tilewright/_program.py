"""tune-cli, as this package runs it: in a process of its own."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from typing import Any, Callable, Mapping

from ._dtypes import spec_text
from ._errors import ArgumentError, DatabaseError, DeviceError, Error, InternalError, TuneError
from ._progress import Progress, progress_of

_INTERRUPTED = 130
# Lines of the program's standard error that a failure shows.
_LINES_TOLD = 30

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


def _forward(stream: Any, lines: list[str], show: Callable[[str], object] | None) -> None:
    """Hands on each line and keeps the last ones."""
    for line in stream:
        lines.append(line)
        del lines[:-_LINES_TOLD]
        if show is not None:
            show(line.rstrip("\n"))


def _finish(process: subprocess.Popen[str]) -> str:
    """The program's output. Ctrl-C goes on to it: the first one lets it keep finished trials and
    end, the second one ends it at once."""
    interrupts = 0
    while True:
        try:
            output, _ = process.communicate()
            break
        except KeyboardInterrupt:
            interrupts += 1
            process.send_signal(signal.SIGINT if interrupts <= 2 else signal.SIGKILL)
        except BaseException:
            process.kill()
            process.wait()
            raise
    if interrupts:
        raise KeyboardInterrupt("tuning was interrupted; finished trials are in the database")
    return output


def run_program(arguments: list[str], progress: Progress, as_json: bool = True) -> Any:
    """Runs tune-cli with these arguments, "--json" among them, and returns the document that it prints, or
    with as_json=False what it prints. `progress` as tune() takes it. The program ends when this process
    does."""
    # A signal may end this process without a word.
    command = [find_program(), arguments[0], "--parent", str(os.getpid()), *arguments[1:]]
    show = progress_of(progress)
    # A terminal sends Ctrl-C to its whole group of processes; in a session of its own the program gets
    # it from here alone, once each time.
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace",
                          start_new_session=True) as process:
        lines: list[str] = []
        # Not communicate()'s: that one keeps it all back until the end.
        errors, process.stderr = process.stderr, None
        reader = threading.Thread(target=_forward, args=(errors, lines, show), daemon=True)
        reader.start()
        try:
            output = _finish(process)
        finally:
            reader.join()
            errors.close()
            if show is not None:
                show.close()
    if process.returncode == _INTERRUPTED:
        raise KeyboardInterrupt("tuning was interrupted; finished trials are in the database")
    if process.returncode != 0:
        raise failure(process.returncode, "".join(lines))
    return json.loads(output) if as_json else output
