"""Programs of workloads, made value by value."""
from __future__ import annotations

import json
import os
import pathlib
import re
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, Sequence

from ._arrays import carrier
from ._dtypes import BITS, dtype_name, spec_text
from ._errors import ArgumentError, SpecError
from ._program import run_program
from ._progress import Progress
from ._quantize import Quantized
from ._tune import compile as compile_program

if TYPE_CHECKING:
    import numpy

_OPERAND = re.compile(r"[A-Za-z0-9_.]+")
# Numbers that stand for the sizes of dimensions with ranges (graph/graph.h).
_STAND_INS = (2137, 1913, 2389, 2621)
# Types as safetensors files have them; those of fewer than 8 bits lie in bytes.
_STORED = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "f8e4m3": "F8_E4M3",
           "f8e5m2": "F8_E5M2", "e8m0": "F8_E8M0", "i64": "I64", "i32": "I32", "i16": "I16", "i8": "I8",
           "u64": "U64", "u32": "U32", "u16": "U16", "u8": "U8"}


class Value:
    """A value of a Graph, to be an operand of its nodes. `shape` and `dtype` are None for the output of a
    spec, which the program itself works out."""

    def __init__(self, graph: Graph, name: str, shape: tuple[int, ...] | None, dtype: str | None) -> None:
        self._graph = graph
        self.name = name
        self.shape = shape
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"<tilewright.Value '{self.name}'{'' if self.shape is None else f' {_type_text(self)}'}>"


def _quoted(text: str) -> str:
    return json.dumps(text)


def _type_text(value: Value) -> str:
    return f"{value.dtype}[{', '.join(str(size) for size in value.shape or ())}]"


def _shape(what: str, shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(size, int) and size >= 1 for size in sizes):
        raise ArgumentError(f"{what} has the shape {list(sizes)}; expected whole numbers of 1 or more")
    return sizes


class Graph:
    """A program in the making: inputs, constants, specs that compute, views, and states.

        g = tilewright.Graph("layer")
        x = g.input("x", (8, 64))
        h = g.op("matmul:m=8,n=128,k=64,epilogue=[bias,relu]", A=x, B=w, bias=b)   # NumPy's w and b
        g.output(g.op("matmul:m=8,n=64,k=128", A=h, B=tilewright.quantize(u, "u4", group=64)), "y")
        g.compile("layer.tw", db="kernels.db")

    `text()` is the program; save() writes it with its constants, for `tune-cli compile layer.tg`.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self._values: dict[str, Value] = {}
        self._head: list[str] = []  # dimensions
        self._inputs: list[tuple[str, Value]] = []  # the word, "input" or "state"
        self._constants: list[tuple[Value, numpy.ndarray]] = []
        self._nodes: list[tuple[Value, Callable[[], str], str]] = []  # output, what makes it, label
        self._outputs: list[Value] = []

    def dim(self, name: str, least: int, most: int) -> int:
        """A dimension whose size each run gives. Returns the number that stands for it in shapes and
        specs; they may have multiples of it."""
        if len(self._head) == len(_STAND_INS):
            raise ArgumentError(f"dimension '{name}' is one too many; expected at most {len(_STAND_INS)}")
        if not 1 <= least < most:
            raise ArgumentError(f"dimension '{name}' is {least}..{most}; expected 1 or more and a larger "
                                f"number")
        number = _STAND_INS[len(self._head)]
        self._head.append(f"dim {_quoted(name)}: {least}..{most} as {number}")
        return number

    def input(self, name: str, shape: int | Sequence[int], dtype: Any = "f32") -> Value:
        """An array that each run takes."""
        value = self._add(name, _shape(f"input '{name}'", shape), dtype_name(dtype))
        self._inputs.append(("input", value))
        return value

    def state(self, name: str, shape: int | Sequence[int], dtype: Any = "f32") -> Value:
        """An array that stays from run to run, zeros at first; write() puts rows into it."""
        value = self._add(name, _shape(f"state '{name}'", shape), dtype_name(dtype))
        self._inputs.append(("state", value))
        return value

    def constant(self, array: Any, name: str | None = None, dtype: Any = None) -> Value:
        """An array of NumPy's, or what becomes one. `dtype` names types that NumPy lacks, whose bits
        unsigned integers carry as empty() says. Lists of floats are f32."""
        name = self._fresh("c") if name is None else name
        made, kind = _constant_array(name, array, dtype)
        shape = list(made.shape)
        if BITS[kind] < 8:
            if not shape:
                raise ArgumentError(f"constant '{name}' is one number of {kind}; expected an axis")
            shape[-1] = shape[-1] * 8 // BITS[kind]
        value = self._add(name, tuple(shape), kind)
        self._constants.append((value, made))
        return value

    def op(self, spec: str | Mapping[str, Any], /, *, name: str | None = None, label: str | None = None,
           operands: Mapping[str, Any] | None = None, **more: Any) -> Value:
        """The output of a spec, text or a dict, whose operands are values of this graph or arrays, which
        become constants: op("matmul:…", A=x, B=w). A `Quantized` weight brings its scales and zero points
        along. `operands` takes names with a dot. `name` is the value's; `label` stands in profiles."""
        try:
            text = spec_text(spec)
        except SpecError as error:
            raise SpecError(f"node '{name or label or spec}': {error}") from None
        name = self._fresh("v") if name is None else name
        bound: dict[str, Value] = {}
        for operand, given in {**(operands or {}), **more}.items():
            parts = given.operands(operand) if isinstance(given, Quantized) else {operand: given}
            for part, array in parts.items():
                dtype = _part_type(given, operand, part) if isinstance(given, Quantized) else None
                bound[part] = self._operand(name, part, array, dtype)
        if not bound:
            raise ArgumentError(f"node '{name}': {text} has no operands; expected values or arrays by name")

        def render() -> str:
            pairs = ", ".join(f"{operand}={_quoted(value.name)}" for operand, value in bound.items())
            return f"{_quoted(text)} ({pairs})"

        return self._node(name, None, None, render, label or "")

    def view(self, value: Value, shape: int | Sequence[int], *, first: int = 0, name: str | None = None,
             dtype: Any = None) -> Value:
        """Elements of a value that stand side by side, from the element `first` on, in another shape.
        `dtype` is the type of a spec's output that is not f32."""
        name = self._fresh("v") if name is None else name
        own = self._own(name, value)
        start = f" from {first}" if first else ""
        kind = own.dtype if dtype is None else dtype_name(dtype)
        return self._node(name, _shape(f"view '{name}'", shape), kind,
                          lambda: f"view {_quoted(own.name)}{start}")

    def join(self, values: Sequence[Value], shape: int | Sequence[int], *, name: str | None = None,
             dtype: Any = None) -> Value:
        """The elements of several values that nodes make, one after another; each stands in one join at most,
        and begins there at a multiple of 64 bytes. `dtype` as view() takes it."""
        name = self._fresh("v") if name is None else name
        parts = [self._own(name, value) for value in values]
        if len(parts) < 2:
            raise ArgumentError(f"node '{name}' joins {len(parts)} values; expected two or more")
        kind = parts[0].dtype if dtype is None else dtype_name(dtype)
        return self._node(name, _shape(f"view '{name}'", shape), kind,
                          lambda: "view " + ", ".join(_quoted(part.name) for part in parts))

    def write(self, rows: Value, state: Value, at: Value, *, name: str | None = None) -> Value:
        """The state with these rows in the place of its own, the first one where the input `at`, one i32,
        says. Nothing reads the former one behind it."""
        name = self._fresh("v") if name is None else name
        own = [self._own(name, value) for value in (rows, state, at)]

        def render() -> str:
            return "write {} to {} at {}".format(*(_quoted(value.name) for value in own))

        return self._node(name, own[1].shape, own[1].dtype, render)

    def output(self, value: Value, name: str | None = None) -> Value:
        """Names a value as an output of the program."""
        own = self._own(name or "output", value)
        if own in self._outputs:
            raise ArgumentError(f"'{own.name}' is an output already")
        if name is not None and name != own.name:
            if name in self._values:
                raise ArgumentError(f"'{name}' is the name of another value; expected a new one")
            del self._values[own.name]
            own.name = name
            self._values[name] = own
        self._outputs.append(own)
        return own

    def text(self, file: str = "constants.safetensors") -> str:
        """The program, with its constants in the file of this name."""
        lines = [f"graph {_quoted(self.name)}", *self._head]
        lines += [f"{word} {_quoted(value.name)}: {_type_text(value)}" for word, value in self._inputs]
        lines += [f"const {_quoted(value.name)}: {_type_text(value)} = from {_quoted(file)}"
                  for value, _ in self._constants]
        for value, render, label in self._nodes:
            kind = "" if value.shape is None else f": {_type_text(value)}"
            lines.append(f"{_quoted(value.name)}{kind} = {render()}"
                         + (f" for {_quoted(label)}" if label else ""))
        lines += [f"output {_quoted(value.name)}" for value in self._outputs]
        return "\n".join(lines) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program, and its constants in a safetensors file beside it. `path` ends in .tg."""
        program = pathlib.Path(path)
        if program.suffix != ".tg":
            raise ArgumentError(f"the program's file is '{program}'; expected a name that ends in .tg")
        beside = program.with_suffix(".safetensors")
        if self._constants:
            _write_safetensors(beside, self._constants)
        program.write_text(self.text(beside.name), encoding="utf-8")

    def check(self) -> str:
        """The program as `tune-cli compile --text --no-fusion` reads it, with all types. Raises
        ArgumentError that names the node and what would be accepted. Needs tune-cli, tunes nothing."""
        with tempfile.TemporaryDirectory() as folder:
            return run_program(["compile", "--text", "--no-fusion", "--", self._saved(folder)], None,
                               as_json=False)

    def compile(self, out: str | os.PathLike[str], *, dims: Mapping[str, int | str] | None = None,
                db: str | os.PathLike[str] = "tilewright.db", target: str | None = None,
                trials: int | None = None, time: str | None = None, threads: int | None = None,
                precision: str | None = None, tolerance: float | None = None,
                arguments: Iterable[str] = (), progress: Progress = "auto") -> Dict[str, Any]:
        """Writes the program with its kernels as `out`, which Model runs; all options as compile() takes
        them. `dims` narrow the ranges of dim()."""
        with tempfile.TemporaryDirectory() as folder:
            told = compile_program(self._saved(folder), out, dims=dims, db=db, target=target,
                                   trials=trials, time=time, threads=threads, precision=precision,
                                   tolerance=tolerance, arguments=arguments, progress=progress)
        return {**told, "model": self.name}

    def _saved(self, folder: str) -> str:
        if not self._outputs:
            raise ArgumentError(f"graph '{self.name}' has no output; expected output(value)")
        path = str(pathlib.Path(folder, "program.tg"))
        self.save(path)
        return path

    def _fresh(self, letter: str) -> str:
        number = len(self._values)
        while f"{letter}{number}" in self._values:
            number += 1
        return f"{letter}{number}"

    def _add(self, name: str, shape: tuple[int, ...] | None, dtype: str | None) -> Value:
        if name in self._values:
            raise ArgumentError(f"'{name}' is the name of another value; expected a new one")
        self._values[name] = Value(self, name, shape, dtype)
        return self._values[name]

    def _own(self, node: str, value: Any) -> Value:
        if not isinstance(value, Value) or value._graph is not self:
            got = "a value of another graph" if isinstance(value, Value) else type(value).__name__
            raise ArgumentError(f"node '{node}': got {got}; expected a value of this graph")
        return value

    def _operand(self, node: str, operand: str, given: Any, dtype: str | None) -> Value:
        if not _OPERAND.fullmatch(operand):
            raise ArgumentError(f"node '{node}': operand '{operand}'; expected letters, digits, _ and .")
        if isinstance(given, Value):
            return self._own(node, given)
        try:
            return self.constant(given, f"{node}.{operand}", dtype)
        except ArgumentError as error:
            raise ArgumentError(f"node '{node}', operand {operand}: {error}") from None

    def _node(self, name: str, shape: tuple[int, ...] | None, dtype: str | None,
              render: Callable[[], str], label: str = "") -> Value:
        # The output of a spec has a type that a view of it does not know here; nearly all are f32.
        value = self._add(name, shape, None if shape is None else dtype or "f32")
        self._nodes.append((value, render, label))
        return value


def _part_type(weight: Quantized, operand: str, part: str) -> str:
    kinds = {"": weight.dtype, ".scale": weight.scale, ".zero": weight.zero}
    return kinds[part[len(operand):]]


def _constant_array(name: str, given: Any, dtype: Any) -> tuple[numpy.ndarray, str]:
    """The array in rows, and its type."""
    import numpy

    if hasattr(given, "detach"):
        given = given.detach().cpu()
        if str(given.dtype) == "torch.bfloat16":
            import torch
            given, dtype = given.view(torch.int16).numpy().view(numpy.uint16), dtype or "bf16"
        else:
            given = given.numpy()
    is_array = hasattr(given, "dtype")
    array = numpy.asarray(given)
    if not is_array and array.dtype == numpy.float64:
        array = array.astype(numpy.float32)
    if array.dtype == numpy.bool_:
        array = array.astype(numpy.uint8)
    try:
        kind = dtype_name(array.dtype if dtype is None else dtype)
    except SpecError as error:
        raise ArgumentError(f"constant '{name}': {error}") from None
    carried = "uint8" if BITS[kind] < 8 else carrier(kind)
    if kind == "bool" or array.dtype.itemsize != numpy.dtype(carried).itemsize:
        raise ArgumentError(f"constant '{name}' of {kind} comes in {array.dtype}; expected {carried}")
    if array.size == 0:
        raise ArgumentError(f"constant '{name}' has the shape {list(array.shape)}; expected sizes of 1 or "
                            f"more")
    return numpy.ascontiguousarray(array).reshape(array.shape), kind


def _write_safetensors(path: pathlib.Path, constants: list[tuple[Value, numpy.ndarray]]) -> None:
    header, at = {}, 0
    for value, array in constants:
        shape = list(value.shape or ()) if value.dtype in _STORED else [array.nbytes]
        header[value.name] = {"dtype": _STORED.get(value.dtype or "", "U8"), "shape": shape,
                              "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in constants:
            file.write(array.tobytes())
