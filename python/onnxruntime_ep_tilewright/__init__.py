"""Tilewright's execution provider for ONNX Runtime: model files that `tune-cli compile` wrote, run in the place of the
nodes that they were compiled from.

    import onnxruntime, onnxruntime_ep_tilewright

    options = onnxruntime.SessionOptions()
    onnxruntime_ep_tilewright.add_to(options, models="models")
    session = onnxruntime.InferenceSession("model.onnx", options)

`python -m onnxruntime_ep_tilewright model.onnx models --dim batch=1` fills the folder.
With database="kernels.db" in place of `models` a session takes kernels from a database that `tune-cli tune` filled.
https://onnxruntime.ai/docs/execution-providers/plugin-ep-libraries explains such libraries.
"""
from __future__ import annotations

import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any, Sequence

from ._parts import keep_winners

__all__ = ["add_to", "compile_model", "get_ep_name", "get_ep_names", "get_library_path", "register"]

_NAME = "TilewrightExecutionProvider"
# Matches "  y (com.microsoft.Op): there is no kernel for this operator" and "tune-cli: 'y': operand W has to be a constant".
_WITHOUT_KERNEL = re.compile(r"(?:  (?=.* \([\w.]+\): )|tune-cli: ')(.+?)(?: \([\w.]+\)|'): ")
# Matches "  y: matmul:m=8,…", a node that --hits names.
_WITHOUT_HIT = re.compile(r"  (.+?): [a-z]\w*:")
_MISSES = 7  # the exit code of tune-cli where the database lacks what was asked for
_LIBRARY = pathlib.Path(__file__).parent / "lib" / "libonnxruntime_ep_tilewright.so"


def get_library_path() -> str:
    """The library that onnxruntime.register_execution_provider_library() takes."""
    if not _LIBRARY.is_file():
        raise FileNotFoundError(f"{_LIBRARY} is missing: the package is not installed whole")
    return str(_LIBRARY)


def get_ep_name() -> str:
    """The provider's name in onnxruntime.get_ep_devices()."""
    return _NAME


def get_ep_names() -> list[str]:
    """The names of all providers of the library."""
    return [_NAME]


def register() -> Any:
    """Registers the library where it is not yet, and returns the device to add to a session's options."""
    import onnxruntime

    for device in onnxruntime.get_ep_devices():
        if device.ep_name == _NAME:
            return device
    onnxruntime.register_execution_provider_library(_NAME, get_library_path())
    return next(device for device in onnxruntime.get_ep_devices() if device.ep_name == _NAME)


def add_to(options: Any, **provider_options: Any) -> Any:
    """Adds the provider to onnxruntime.SessionOptions, with its own options by name: models="FOLDER".

    `threads` is the session's `intra_op_num_threads` unless it is given. Returns `options`."""
    given = {name: "0" if value is False else "1" if value is True else str(value)
             for name, value in provider_options.items()}
    given.setdefault("threads", str(options.intra_op_num_threads))
    options.add_provider_for_devices([register()], given)
    return options


def _tune_cli() -> str:
    program = shutil.which("tune-cli")
    if program is None:
        raise FileNotFoundError("tune-cli is not found: pip install tilewright")
    return program


def compile_model(model: Any, models: str | pathlib.Path, arguments: Sequence[str] = (), *, tune_cli: str | None = None,
                  alone: bool = False, graph_optimization_level: Any = None) -> list[pathlib.Path]:
    """Compiles what the provider could claim of a model (a path, or bytes) into the folder `models`.

    `arguments` are options of `tune-cli compile`, such as ["--dim", "batch=1", "--time", "60"]. Names of nodes
    that have no kernel go into the file `exclude` of the folder, which the provider reads: these stay with
    other providers, and what is left is compiled. With the option `--hits` the same happens to nodes for which
    the database of `--db` has no kernel, and nothing is tuned. With `alone` each node is compiled by itself, for
    models that are faster in part; nodes without a kernel are passed over. A session has to use the same
    `graph_optimization_level`, since it looks for the graph as the runtime has optimized it. Where new files stand for
    parts of a graph of fixed sizes, the whole model is timed with them and without, and those that make it no faster
    are deleted. Returns the files; what is there already is not compiled again."""
    folder = pathlib.Path(models)
    folder.mkdir(parents=True, exist_ok=True)
    program = tune_cli or _tune_cli()
    parts = []
    while True:
        with tempfile.TemporaryDirectory(prefix="tilewright-") as dump:
            _dump(model, folder, dump, alone, graph_optimization_level)
            regions = sorted(pathlib.Path(dump).glob("*.onnx"))
            without = set()
            for region in regions:
                file = folder / (region.stem + ".tw")
                lacking = _compile([program, "compile", str(region), "-o", str(file), *arguments])
                without |= lacking
                if not lacking and region.with_suffix(".part").is_file():
                    parts.append(file)
        if alone or not without:
            break
        without -= _excluded(folder)
        if not without:  # the next round would find the same regions
            raise RuntimeError(f"regions of {model if not isinstance(model, bytes) else 'the model'} have nodes without "
                               f"a kernel that {folder / 'exclude'} names already; expected an empty folder")
        with open(folder / "exclude", "a", encoding="utf-8") as list_of_names:
            list_of_names.writelines(name + "\n" for name in sorted(without))
    if parts:
        keep_winners(model, folder, parts, _threads(arguments), graph_optimization_level)
    elif not any(folder.glob("*.tw")):
        name = "the model" if isinstance(model, bytes) else model
        print(f"{folder}: no file, since no node of {name} has a kernel for these threads; the provider's option "
              "dump=DIR writes what could be compiled, and 'tune-cli extract DIR/DIGEST.onnx' its specs for tune. Then remove "
              f"{folder / 'exclude'}, which names the nodes that stay away",
              file=sys.stderr)
    return sorted(folder.glob("*.tw"))


def _threads(arguments: Sequence[str]) -> int:
    """The number of `--threads`; 0, which is all, without it."""
    text = " ".join(map(str, arguments))
    found = re.search(r"--threads[ =](\d+)", text)
    return int(found[1]) if found else 0


def _excluded(folder: pathlib.Path) -> set[str]:
    """The names that the provider leaves to others."""
    file = folder / "exclude"
    return set(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else set()


def _dump(model: Any, folder: pathlib.Path, dump: str, alone: bool, level: Any) -> None:
    """Writes the regions, or nodes, that have no model file in the folder."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if level is not None:
        options.graph_optimization_level = level
    add_to(options, dump=dump, models=folder, alone=alone, trial=False)
    onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options)


def _compile(command: Sequence[str]) -> set[str]:
    """Runs tune-cli; the nodes that have no kernel, or nothing when it is done."""
    said = []
    hits = "--hits" in command
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                said.append(line)
                if not hits:
                    print(line, end="", file=sys.stderr, flush=True)
        except KeyboardInterrupt:  # the program keeps its finished trials
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    if process.returncode == 0:
        return set()
    missed = process.returncode == _MISSES
    if hits and not missed:
        print("".join(said), end="", file=sys.stderr, flush=True)
    if any("have no dimension of that name" in line for line in said):
        print("A part of a graph has open sizes under names of its own; give the model fixed sizes first: "
              "python -m onnxruntime.tools.make_dynamic_shape_fixed --help", file=sys.stderr)
    pattern = _WITHOUT_HIT if missed else _WITHOUT_KERNEL
    names = {found[1] for line in said for found in [pattern.match(line)] if found}
    if not names:
        raise subprocess.CalledProcessError(process.returncode, command, stderr="".join(said))
    return names
