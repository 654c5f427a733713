"""Tuning from Python: by tune-cli, in a process of its own.

The search needs XGBoost, a C compiler and worker processes, and a candidate may crash or hang; none of
that belongs into the caller's process, where serving needs one small library.
"""
from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Mapping

from ._html import seconds, table
from ._program import run_program, spec_arguments
from ._progress import Progress


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
    command = ["tune", "--json", "--db", os.fspath(db)]
    for option, value in (("--target", target), ("--trials", trials), ("--time", time),
                          ("--seed", seed), ("--threads", threads)):
        if value is not None:
            command += [option, str(value)]
    command += ["--resume"] * resume + ["--one-order"] * one_order
    command += [*arguments, "--", *spec_arguments(specs)]

    return Results(run_program(command, progress)["results"])


def compile(model: str | os.PathLike[str], out: str | os.PathLike[str], *,
            dims: Mapping[str, int | str] | None = None, db: str | os.PathLike[str] = "tilewright.db",
            target: str | None = None, trials: int | None = None, time: str | None = None,
            threads: int | None = None, precision: str | None = None, tolerance: float | None = None,
            arguments: Iterable[str] = (), progress: Progress = "auto") -> Dict[str, Any]:
    """Writes the ONNX file `model`, or GGUF file of a decoder, as one file with its kernels, `out`,
    which Model runs.

    `dims` are sizes of dimensions that the model names, or ranges of them, as "1..8". Workloads that
    `db` lacks are tuned: `trials` candidates each (16; 0 takes what is there), or as many as `time`
    allows for the model, "10m".
    `precision` is that of the factors of products: "f32", "bf16", "i8", or weights of few bits in groups,
    "u4:128". Outputs are compared with the model's in f32 on random inputs, and may be off by `tolerance`
    of their largest magnitude. `target`, `threads`, `arguments` and `progress` as tune() takes them.

    Returns what `tune-cli compile --json` prints: "nodes", "kernels", "bytes", "error" and others. Raises
    a subclass of Error with the program's words where it fails. Ctrl-C keeps all finished trials.
    """
    command = ["compile", "--json", "--db", os.fspath(db), "--out", os.fspath(out)]
    for option, value in (("--target", target), ("--trials", trials), ("--time", time),
                          ("--threads", threads), ("--precision", precision),
                          ("--tolerance", tolerance)):
        if value is not None:
            command += [option, str(value)]
    for name, size in (dims or {}).items():
        command += ["--dim", f"{name}={size}"]
    return run_program([*command, *arguments, "--", os.fspath(model)], progress)
