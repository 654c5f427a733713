"""Tilewright's execution provider for ONNX Runtime: model files that `tune-cli compile` wrote, run in the place of the
nodes that they were compiled from.

    import onnxruntime, onnxruntime_ep_tilewright

    options = onnxruntime.SessionOptions()
    onnxruntime_ep_tilewright.add_to(options, models="models")
    session = onnxruntime.InferenceSession("model.onnx", options)

`python -m onnxruntime_ep_tilewright model.onnx models --dim batch=1` fills the folder.
https://onnxruntime.ai/docs/execution-providers/plugin-ep-libraries explains such libraries.
"""
from __future__ import annotations

import pathlib
import shutil
import subprocess
import tempfile
from typing import Any, Sequence

__all__ = ["add_to", "compile_model", "get_ep_name", "get_ep_names", "get_library_path", "register"]

_NAME = "TilewrightExecutionProvider"
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
                  exclude: str = "", graph_optimization_level: Any = None) -> list[pathlib.Path]:
    """Compiles what the provider could claim of a model (a path, or bytes) into the folder `models`.

    `arguments` are options of `tune-cli compile`, such as ["--dim", "batch=1", "--time", "60"]. A session has to
    use the same `exclude` and `graph_optimization_level`, since it looks for the graph as the runtime has
    optimized it. Returns the files; what is there already is not compiled again."""
    import onnxruntime

    folder = pathlib.Path(models)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with tempfile.TemporaryDirectory(prefix="tilewright-") as dump:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if graph_optimization_level is not None:
            options.graph_optimization_level = graph_optimization_level
        add_to(options, dump=dump, exclude=exclude)
        onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options)
        for region in sorted(pathlib.Path(dump).glob("*.onnx")):
            file = folder / (region.stem + ".tw")
            if not file.exists():
                subprocess.run([tune_cli or _tune_cli(), "compile", str(region), "-o", str(file), *arguments], check=True)
            files.append(file)
    return files
