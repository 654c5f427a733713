"""The kernels of a quantized layer: found in FOLDER/kernels.db, packed once, launched for each input."""
from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any, Sequence

import torch

from .._core import Library
from .._errors import DatabaseError, Error
from ._form import Form
from ._region import NO_NUMPY, add_specs, one_line, pool_of
from ._report import Row, add_row

if TYPE_CHECKING:
    from .._core import Kernel, Weights

# Rows of the input for which a kernel is looked for: one, as a decoder's step has, and several. Inputs of more
# rows are multiplied piece by piece.
ROWS = ("1", "2..64")
_TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
_found: dict[tuple[str, str, int], "Kernel | None"] = {}
_rows: dict[tuple[str, str, int], Row] = {}


def forget() -> None:
    """Databases are read again."""
    _found.clear()


def range_of(rows: str) -> tuple[int, int]:
    least, _, most = rows.partition("..")
    return int(least), int(most or least)


def spec_of(form: Form, scales: torch.Tensor | None, dtype: torch.dtype, rows: str, n: int, k: int,
            bias: bool) -> str:
    kind = _TYPES[dtype]
    return (f"matmul:m={rows},n={n},k={k}" + ("" if kind == "f32" else f",dtype={kind},out={kind}")
            + (",epilogue=[bias]" if bias else "") + f",{form.keys(scales)}")


def find_kernel(spec: str, label: str, folder: str, threads: int) -> Kernel | None:
    """The kernel of the folder's database, or None, with a line and the command that would tune it."""
    key = (folder, spec, threads)
    if key in _found:
        return _found[key]
    kernel, command, database = None, "", pathlib.Path(folder, "kernels.db")
    try:
        if not database.exists():
            raise DatabaseError(f"there is no {database}")
        prepared = Library(database, log=lambda line: None).prepare(spec, threads=threads)
        missing = [line for line in prepared.report if line.outcome == "miss"]
        if not missing:
            kernel = prepared[spec]
        reason = missing[0].reason if missing else ""
    except Error as error:
        reason = one_line(error)
    if kernel is None:
        command = (f"tilewright.torch.tune_layers(model), or: tune-cli tune {folder}/specs.txt --db {database} "
                   f"--threads {threads}")
        reason = f"the weight is dequantized and PyTorch multiplies: {reason}"
    if key not in _rows:
        _rows[key] = add_row("layers", label, {"linear": 1})
        add_specs(pathlib.Path(folder), [spec])
    _rows[key].tell("left" if kernel is None else "taken", reason, command)
    _found[key] = kernel
    return kernel


class LayerKernels:
    """A layer's kernels with its weight packed for each, for inputs of one type on one number of threads."""

    def __init__(self, x: torch.Tensor, form: Form, stored: Sequence[torch.Tensor | None], n: int, folder: str,
                 rows: tuple[str, ...]) -> None:
        codes, scales, zeros, order, bias = stored
        self.form, self.n, self.dtype, self.threads = form, n, x.dtype, torch.get_num_threads()
        # The tensors are kept, so that no other one gets their memory.
        self.kept, self.states = tuple(stored), _states(stored)
        self.ranges: list[tuple[int, int, Kernel, Weights, int, int]] = []
        if x.dtype not in _TYPES or codes.device.type != "cpu":
            return
        if bias is not None:
            bias = bias.to(x.dtype)
        if not form.dtype:  # a pattern of zeros alone: elements are of the input's type
            codes = codes.to(x.dtype)
        if form.zero == "f16" and zeros is not None:
            zeros = zeros.view(torch.float16)
        arrays = {"B": codes, "B.scale": scales, "B.zero": zeros, "bias": bias}
        arrays = {name: _carried(array) for name, array in arrays.items() if array is not None}
        k = codes.shape[0]
        for text in rows:
            spec = spec_of(form, scales, x.dtype, text, n, k, bias is not None)
            kernel = find_kernel(spec, f"{n}x{k} {form.label()} {_TYPES[x.dtype]}, rows {text}", folder,
                                 self.threads)
            if kernel is None:
                continue
            held = {o.name for o in kernel.operands if o.role == "weight"}
            weights = kernel.pack({name: arrays[name] for name in arrays if name in held},
                                  pool=pool_of(self.threads))
            names = [o.name for o in kernel.operands]
            self.ranges.append((*range_of(text), kernel, weights, names.index("A"), names.index("C")))

    def fits(self, x: torch.Tensor, stored: Sequence[torch.Tensor | None]) -> bool:
        """Whether it is for inputs like `x` and these weights, unchanged."""
        return (x.dtype == self.dtype and _states(stored) == self.states
                and self.threads == torch.get_num_threads())

    def run(self, x: torch.Tensor, stored: Sequence[torch.Tensor | None]) -> torch.Tensor:
        width = x.shape[-1]
        rows = x.numel() // max(1, width)
        given = x.detach() if x.requires_grad else x
        if stored[3] is not None:
            given = given.index_select(-1, stored[3])
        given = given.reshape(rows, width).contiguous()
        for which in self.ranges:
            if which[0] <= rows <= which[1]:
                return self._launch(which, given).view(*x.shape[:-1], self.n)
        pieces = self._pieces(rows)
        if pieces is None:
            from ._linear import plain
            return plain(x, self.form, *stored)  # type: ignore[arg-type]
        firsts = [first for first, _ in pieces] + [rows]
        out = torch.cat([self._launch(which, given[first:last]) for (first, which), last
                         in zip(pieces, firsts[1:])])
        return out.view(*x.shape[:-1], self.n)

    def _pieces(self, rows: int) -> list[tuple[int, Any]] | None:
        """First rows and who multiplies from there on; None where no kernel takes some of them."""
        pieces, first = [], 0
        while first < rows:
            left = rows - first
            within = [which for which in self.ranges if which[0] <= left]
            if not within:
                return None
            which = max(within, key=lambda which: min(which[1], left))
            pieces.append((first, which))
            first += which[1]
        return pieces or None

    def _launch(self, which: Any, given: torch.Tensor) -> torch.Tensor:
        _, _, kernel, weights, a, c = which
        out = torch.empty((given.shape[0], self.n), dtype=self.dtype)
        if given.data_ptr() % 64 != 0:
            given = given.clone()
        tensors: list[Any] = [None] * len(kernel.operands)
        tensors[a], tensors[c] = _array(given), _array(out)
        kernel.launch(tensors, weights=weights, pool=pool_of(self.threads))
        return out


def _states(stored: Sequence[torch.Tensor | None]) -> list[Any]:
    """Marks that change where a tensor is replaced or written to; those of inference mode have no version."""
    return [None if tensor is None else
            (tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in stored]


def _carried(tensor: torch.Tensor) -> Any:
    """An array that kernels take, of the same memory where that is aligned."""
    tensor = tensor.detach().contiguous()
    if tensor.data_ptr() % 64 != 0:
        tensor = tensor.clone()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else _array(tensor)


def _array(tensor: torch.Tensor) -> Any:
    return tensor if tensor.dtype in NO_NUMPY else tensor.numpy()
