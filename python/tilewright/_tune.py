"""Tuning from Python: by tune-cli, in a process of its own.

The search needs XGBoost, a C compiler and worker processes, and a candidate may crash or hang; none of
that belongs into the caller's process, where serving needs one small library.
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from typing import Any, Callable, Dict, Iterable, List, Mapping

from ._html import seconds, table
from ._program import failure, find_program, spec_arguments
from ._progress import Progress, progress_of

_INTERRUPTED = 130
# Lines of the program's standard error that a failure shows.
_LINES_TOLD = 30


class Results(List[Dict[str, Any]]):
    """What tune() returns: a dict for each spec, and a table of them in a notebook."""

    def _repr_html_(self) -> str:
        rows = []
        for result in self:
            best = result.get("best") or {}
            default, fastest = result.get("default_seconds"), best.get("seconds")
            ratio = f"{default / fastest:.3g}x" if default and fastest else ""
            ratio = "disturbed" if result.get("disturbed") else ratio
            roofline = best.get("roofline_fraction")
            rows.append([result["spec"], result["trials"], result["valid"],
                         seconds(fastest or best.get("predicted_seconds")),
                         f"{best['gflops']:.4g}" if best.get("gflops") else "",
                         f"{100 * roofline:.0f}%" if roofline else "", ratio])
        return table(["spec", "trials", "valid", "best", "GFLOP/s", "of roofline", "untuned default"],
                     rows)


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


def tune(specs: str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]], *,
         db: str | os.PathLike[str] = "tilewright.db", target: str | None = None,
         trials: int | None = None, time: str | None = None, seed: int | None = None,
         threads: int | None = None, resume: bool = False, one_order: bool = False,
         arguments: Iterable[str] = (), progress: Progress = "auto") -> Results:
    """Searches for the fastest kernel of each spec and stores it in `db`. Needs a C compiler.

    `specs`: text, a dict (whose types may be NumPy's or PyTorch's), or an iterable of them. `target`:
    "native" (the default), "avx512", "avx2" or "cuda:sm_XX". `trials`: candidates a spec. `time`: a budget
    for all of them, "10m". `threads`: that the kernels will run on. `resume`: go on where the last run
    ended. `one_order`: results do not depend on the size of the batch. `arguments`: more of tune-cli's, as
    it takes them.
    `progress`: "bar" draws a progress bar, tqdm's where that is installed; "lines" prints what the program
    tells to standard error; "auto" is a bar in a terminal or a notebook, else lines. A function takes each
    line; None: nobody does.

    Returns a list with a dict for each spec: "spec", "trials", "valid", "best" with "seconds" and "config",
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
    command += [*arguments, "--", *spec_arguments(specs)]

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
    return Results(json.loads(output)["results"])
