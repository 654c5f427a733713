"""Tuning from Python: by tune-cli, in a process of its own.

The search needs XGBoost, a C compiler and worker processes, and a candidate may crash or hang; none of
that belongs into the caller's process, where serving needs one small library.
"""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any, Callable, Iterable, Mapping

from ._errors import ArgumentError, DatabaseError, DeviceError, Error, InternalError, TuneError

# tune-cli's exit codes, as its contract has them.
_ERRORS: dict[int, type[Error]] = {
    1: InternalError, 2: ArgumentError, 3: TuneError, 4: DeviceError, 5: DatabaseError, 6: TuneError,
}
_INTERRUPTED = 130
# Lines of the program's standard error that a failure shows.
_LINES_TOLD = 30


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


def _spec_arguments(specs: Any) -> list[str]:
    if isinstance(specs, (str, Mapping)):
        specs = [specs]
    texts = [spec if isinstance(spec, str) else json.dumps(spec) for spec in specs]
    if not texts:
        raise ArgumentError("no specs; give at least one")
    return texts


def _forward(stream: Any, lines: list[str], progress: Callable[[str], object] | None) -> None:
    """Hands on each line and keeps the last ones."""
    for line in stream:
        lines.append(line)
        del lines[:-_LINES_TOLD]
        if progress is not None:
            progress(line.rstrip("\n"))


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


def tune(specs: str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]], *,
         db: str | os.PathLike[str] = "tilewright.db", target: str | None = None,
         trials: int | None = None, time: str | None = None, seed: int | None = None,
         threads: int | None = None, resume: bool = False, one_order: bool = False,
         arguments: Iterable[str] = (),
         progress: Callable[[str], object] | None = lambda line: print(line, file=sys.stderr),
         ) -> list[dict[str, Any]]:
    """Searches for the fastest kernel of each spec and stores it in `db`. Needs a C compiler.

    `specs`: text, a dict, or an iterable of them. `target`: "native" (the default), "avx512", "avx2"
    or "cuda:sm_XX". `trials`: candidates a spec. `time`: a budget for all of them, "10m". `threads`:
    that the kernels will run on. `resume`: go on where the last run ended. `one_order`: results do
    not depend on the size of the batch. `arguments`: more of tune-cli's, as it takes them.
    `progress` takes each line that it tells; None: nobody.

    Returns a dict for each spec: "spec", "trials", "valid", "best" with "seconds" and "config",
    "default_seconds" and what else `tune-cli tune --json` prints. Raises a subclass of Error with the
    program's words where it fails. Ctrl-C ends it tidily, with all finished trials kept, and raises
    KeyboardInterrupt. When this process is ended, the program ends, too.
    """
    command = [find_program(), "tune", "--json", "--db", os.fspath(db)]
    for option, value in (("--target", target), ("--trials", trials), ("--time", time),
                          ("--seed", seed), ("--threads", threads)):
        if value is not None:
            command += [option, str(value)]
    command += ["--parent", str(os.getpid())]  # a signal may end this process without a word
    command += ["--resume"] * resume + ["--one-order"] * one_order
    command += [*arguments, "--", *_spec_arguments(specs)]

    # A terminal sends Ctrl-C to its whole group of processes; in a session of its own the program gets
    # it from here alone, once each time.
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace",
                          start_new_session=True) as process:
        lines: list[str] = []
        # Not communicate()'s: that one keeps it all back until the end.
        errors, process.stderr = process.stderr, None
        reader = threading.Thread(target=_forward, args=(errors, lines, progress), daemon=True)
        reader.start()
        try:
            output = _finish(process)
        finally:
            reader.join()
            errors.close()
    if process.returncode == _INTERRUPTED:
        raise KeyboardInterrupt("tuning was interrupted; finished trials are in the database")
    if process.returncode != 0:
        text = "".join(lines).strip() or f"tune-cli ended with {process.returncode}"
        raise _ERRORS.get(process.returncode, InternalError)(text)
    return json.loads(output)["results"]
