"""A region of a graph in one file of the folder: exported, compiled, opened and run."""
from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import pathlib
import platform
import re
import sys
import tempfile
import warnings
from typing import Any, Iterator, Sequence

import torch

from .._core import Model, Pool
from .._errors import DeviceError, Error
from .._program import find_program
from .._tune import compile as compile_model
from ._capture import Capture, Left, Unavailable, graph_key, weights_key
from ._operator import dtype_of
from ._report import Row
from ._stored import is_layer, outside, translation

NO_NUMPY = frozenset(dtype for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
                      if (dtype := getattr(torch, name, None)) is not None)
_LONGEST = 300  # characters of a reason
_pools: dict[int, Pool] = {}


def pool_of(threads: int) -> Pool | None:
    """The process's threads for runs; None runs on the thread that calls."""
    if threads > 1 and threads not in _pools:
        _pools[threads] = Pool(threads)
    return _pools.get(threads)


def default_folder() -> pathlib.Path:
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return pathlib.Path(cache if cache.startswith("/") else pathlib.Path.home() / ".cache",
                        "tilewright", "torch")


def one_line(error: BaseException) -> str:
    text = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def program_words(error: Error) -> str:
    """The words of tune-cli on a failure, without its progress and warnings before."""
    text = str(error)
    return one_line(Error(text[max(0, text.rfind("tune-cli: ")):]))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch's exporters tell much that is not about the user's model."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def export_program(taken: Capture, inputs: Sequence[torch.Tensor]) -> torch.export.ExportedProgram:
    """The program of a capture, or Left where it does more than to calculate its outputs."""
    dims = {name: torch.export.Dim(name, min=sizes.least, max=sizes.largest)
            for name, sizes in taken.ranges.items()}
    shapes = tuple({axis: dims[name] for axis, name in axes.items()} for axes in taken.dims)
    try:
        with _quiet(), torch.no_grad():
            # Exporting marks its inputs, and dynamo guards on such marks.
            program = torch.export.export(taken.module, tuple(given.detach().clone() for given in inputs),
                                          dynamic_shapes=shapes, strict=False).run_decompositions({})
    except Exception as error:  # of many types
        raise Left(f"torch.export: {one_line(error)}") from error
    signature = program.graph_signature
    if signature.user_inputs_to_mutate or signature.buffers_to_mutate:
        names = (*signature.user_inputs_to_mutate.values(), *signature.buffers_to_mutate.values())
        raise Left(f"it changes {', '.join(names)} in place; expected a function of its inputs")
    for node in program.graph.nodes:
        if _draws(node):
            raise Left(f"{node.target} draws random numbers; expected model.eval()")
    return program


def _draws(node: torch.fx.Node) -> bool:
    """Whether the results of a node are random: attention has dropout of its own, mostly of 0."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    given = dict(zip((argument.name for argument in node.target._schema.arguments), node.args))
    given.update(node.kwargs)
    if "attention" in str(node.target):
        return given.get("dropout_p", 0) != 0
    return given.get("train", True) is not False


class Region:
    """A capture with its file `FOLDER/GRAPH-WEIGHTS-tTHREADS.tw`, named by what the file was made of."""

    def __init__(self, taken: Capture, row: Row, folder: pathlib.Path, threads: int, fallback: str) -> None:
        self.taken, self.threads, self._fallback = taken, threads, fallback
        name = f"{graph_key(taken)[:16]}-{weights_key(taken)[:16]}-t{threads}"
        self.file, self.notes = folder / f"{name}.tw", folder / f"{name}.json"
        row.file = str(self.file)
        self._model: Model | None = None

    # Verdicts of earlier processes about this file on this machine.

    def _machine(self, fallback: str) -> str:
        facts: dict[str, str] = {}
        with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                facts.setdefault(name.strip(), value.strip())
        # Hypervisors give many processors one name.
        numbers = ".".join(facts.get(name, "") for name in ("cpu family", "model", "stepping"))
        features = hashlib.sha256(facts.get("flags", "").encode()).hexdigest()[:8]
        return (f"{facts.get('model name', platform.machine())} {numbers}, features {features}, "
                f"{os.cpu_count()} processors, {self.threads} threads, PyTorch {torch.__version__}, "
                f"beside {fallback}")

    def _state(self) -> list[int]:
        """Size and time of change of the file; zeros where parts have files of their own."""
        if not self.file.exists():
            return [0, 0]
        state = self.file.stat()
        return [state.st_size, state.st_mtime_ns]

    def verdict(self) -> dict[str, Any]:
        """The stored verdict on this file, machine and PyTorch; {} where there is none."""
        try:
            all_stored = json.loads(self.notes.read_text())
            stored = all_stored.get(self._machine(self._fallback))
            if stored is None and self._fallback == "eager":  # a race beside Inductor has eager, too
                stored = all_stored[self._machine("inductor")]
                if stored["verdict"] != "taken":
                    return {}
            return stored if stored["file"] == self._state() else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def store_verdict(self, **told: Any) -> None:
        """Keeps it beside the file; a folder that cannot be written keeps nothing."""
        try:
            stored = json.loads(self.notes.read_text()) if self.notes.exists() else {}
            stored[self._machine(self._fallback)] = {"file": self._state(), **told}
            write_text(self.notes, json.dumps(stored, indent=1))
        except (OSError, ValueError):
            pass

    # The file.

    @property
    def is_open(self) -> bool:
        return self._model is not None

    def open(self) -> bool:
        """Whether the file is there; Left where it cannot be used."""
        if not self.file.exists():
            return False
        lines: list[str] = []
        try:
            model = Model(str(self.file), threads=self.threads, log=lines.append)
        except Error as error:
            raise Left(f"{self.file}: {one_line(error)}") from error
        self._places = [int(port.name[1:]) for port in model.inputs]
        self._limits = [(place, axis, least, most)
                        for place, port in zip(self._places, model.inputs)
                        for axis, (least, most) in enumerate(zip(port.least, port.shape)) if least != most]
        self._outputs = [(port.shape, dtype_of(port.dtype)) for port in model.outputs]
        self._dynamic = any(port.shape != port.least for port in model.outputs)
        self._pool = pool_of(self.threads)
        self._model = model
        return True

    def compile(self, inputs: Sequence[torch.Tensor], time: str | None) -> None:
        """Writes the file: kernels of the database, and first answers or a search of `time` for others."""
        try:
            find_program()
        except DeviceError as error:
            raise Unavailable(f"no file {self.file}, and {one_line(error)}") from error
        try:
            import onnx  # noqa: F401
            import onnxscript  # noqa: F401
        except ImportError as error:
            raise Unavailable(f"no file {self.file}, and {one_line(error)}; pip install onnxscript") from error
        program = export_program(self.taken, inputs)
        layers = [node for node in program.graph.nodes if is_layer(node)]
        for node in layers:
            if reason := outside(node):
                raise Left(reason)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.file.parent) as folder:
                model = pathlib.Path(folder, "region.onnx")
                dims = self._write_onnx(program, model, translation() if layers else {})
                compile_model(model, self.file, dims=dims, db=self.file.parent / "kernels.db",
                              trials=0 if time is None else None, time=time, threads=self.threads,
                              progress="bar" if sys.stderr.isatty() else None)
        except OSError as error:
            raise Left(f"{self.file.parent}: {one_line(error)}") from error
        except Error as error:
            raise Left(program_words(error).replace(str(model), "the region")) from error

    def _write_onnx(self, program: torch.export.ExportedProgram, path: pathlib.Path,
                    translation: dict[Any, Any]) -> dict[str, str]:
        """The program as ONNX, and the ranges of the dimensions that it names. `translation` has functions
        for operators that torch.onnx does not know."""
        count = len(self.taken.inputs)
        try:
            with _quiet(), contextlib.redirect_stdout(None):
                made = torch.onnx.export(
                    program, dynamo=True, verbose=False, external_data=False,
                    input_names=[f"x{i}" for i in range(count)], custom_translation_table=translation)
                made.save(path, external_data=_bytes(self.taken.weights) > 1 << 30)
        except Exception as error:  # of many types
            missing = re.findall(r"No ONNX function found for <OpOverload\(op='([^']+)'", str(error))
            raise Left(f"torch.onnx has no function for {', '.join(dict.fromkeys(missing))}" if missing
                       else f"torch.onnx: {one_line(error)}") from error
        dims = {}
        for value, axes in zip(made.model.graph.inputs, self.taken.dims):
            for axis, name in axes.items():
                sizes = self.taken.ranges[name]
                dims[str(value.shape[axis])] = f"{sizes.least}..{sizes.largest}"
        return dims

    def add_specs(self) -> None:
        """Adds the workloads of the file to FOLDER/specs.txt, which tilewright.tune() takes."""
        specs = [node.spec for node in self._model.nodes if not node.spec.startswith("plain ")]
        add_specs(self.file.parent, [spec for spec in specs if spec])

    # Runs.

    def fits(self, inputs: Sequence[torch.Tensor]) -> str:
        """"" where the file takes inputs of these sizes, else why not."""
        for place, axis, least, most in self._limits:
            if not least <= inputs[place].shape[axis] <= most:
                return (f"a size outside of {least} to {most}, which the file takes, on axis {axis} of input "
                        f"{place}; the option 'largest' makes a file for more")
        return ""

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        taken = [inputs[place].detach().contiguous() for place in self._places]
        shapes = self._outputs
        if self._dynamic:
            shapes = [(shape, dtype) for shape, (_, dtype) in zip(self._model.output_shapes(taken), shapes)]
        outputs = [torch.empty(shape, dtype=dtype) for shape, dtype in shapes]
        self._model.run([_array(tensor) for tensor in taken], [_array(tensor) for tensor in outputs],
                        pool=self._pool)
        return outputs


def _array(tensor: torch.Tensor) -> Any:
    """NumPy's array of the same memory, which the module takes in a third of the time, where it has one."""
    return tensor if tensor.dtype in NO_NUMPY else tensor.numpy()


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def add_specs(folder: pathlib.Path, specs: Sequence[str]) -> None:
    """Adds workloads to FOLDER/specs.txt; a folder that cannot be written stays as it is."""
    path = folder / "specs.txt"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        before = path.read_text().splitlines() if path.exists() else []
        write_text(path, "".join(f"{spec}\n" for spec in dict.fromkeys([*before, *specs])))


def write_text(path: pathlib.Path, text: str) -> None:
    """Replaces the file as a whole."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)
