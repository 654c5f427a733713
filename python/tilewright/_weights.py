"""Files of weights, and what Kernel.pack makes of their layers."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence

from . import _core
from ._errors import ArgumentError, FileError
from ._html import table
from ._types import StoredLayer, StoredTensor

if TYPE_CHECKING:
    import numpy

    from ._core import Kernel


class StoredWeight:
    """A tensor or a quantized layer of a file, not yet read. `Kernel.pack` takes it in the place of an
    array, and reads it in the form that the kernel wants."""

    def __init__(self, file: WeightFile, name: str, gptq_format: str):
        self.file, self.name = file, name
        self._gptq_format = gptq_format

    def arrays(self, operand: str = "B") -> dict[str, numpy.ndarray]:
        """Everything as it lies in the file: a tensor, or the codes [k, n] of a quantized layer with
        `operand`.scale and `operand`.zero or `operand`.offset. Rows of a layer in act-order come in the
        order of their groups."""
        return self._ordered(operand)[0]

    def _ordered(self, operand: str = "B") -> tuple[dict[str, numpy.ndarray], list[int]]:
        """The result of arrays(), and the order of A's columns, or an empty list."""
        import numpy

        read, order = self.file._opened.read(self.name, None, operand, self._gptq_format)
        return {name: numpy.asarray(array) for name, array in read.items()}, order

    def _read_for(self, kernel: Kernel, operand: str) -> tuple[dict[str, Any], Any]:
        """The arrays that fill the operand, and the order of A's columns, or None."""
        import numpy

        read, order = self.file._opened.read(self.name, kernel, operand, self._gptq_format)
        arrays = {name: numpy.asarray(array) for name, array in read.items()}
        return arrays, numpy.array(order) if order else None

    def __repr__(self) -> str:
        return f"<tilewright.StoredWeight {self.file.path}:{self.name}>"


class WeightFile(Mapping[str, StoredWeight]):
    """A safetensors or GGUF file, or the index of several safetensors files. It is mapped: a tensor costs
    what that tensor costs. `file["layers.0.q_proj"]` is a tensor or a quantized layer by its name."""

    def __init__(self, path: str | os.PathLike[str], *, gptq_format: str | None = None):
        """Opens the file. `gptq_format`: how zero points of GPTQ are stored, "gptq" (less one) or
        "gptq_v2" (as they are); by default the configuration beside the file says so. Raises FileError
        where it is missing or damaged."""
        if gptq_format not in (None, "gptq", "gptq_v2"):
            raise ArgumentError(f"gptq_format is {gptq_format!r}; expected 'gptq' or 'gptq_v2'")
        self.path = os.fspath(path)
        self._gptq_format = gptq_format or ""
        self._opened = _core.open_weights(os.fsencode(path))
        self.tensors: tuple[StoredTensor, ...] = tuple(
            StoredTensor(*fields) for fields in self._opened.tensors)
        self.layers: tuple[StoredLayer, ...] = tuple(
            StoredLayer(*fields) for fields in self._opened.layers)
        self._names = dict.fromkeys([layer.name for layer in self.layers]
                                    + [tensor.name for tensor in self.tensors])

    def __getitem__(self, name: str) -> StoredWeight:
        if name not in self._names:
            near = ", ".join([known for known in self._names if name.rpartition(".")[2] in known][:3])
            raise FileError(f"{self.path}: there is no tensor or quantized layer '{name}'"
                            + (f"; there are {near}" if near else ""))
        return StoredWeight(self, name, self._gptq_format)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return (f"<tilewright.WeightFile {self.path}: {len(self.tensors)} tensors, {len(self.layers)} "
                f"quantized layers>")

    def _repr_html_(self) -> str:
        layers = table(["layer", "format", "bits", "k", "n", "group", "keys of a spec"],
                       [[e.name, e.format, e.bits, e.k, e.n, e.group, e.keys or e.problem]
                        for e in self.layers], str(self))
        tensors = table(["tensor", "type", "shape", "bytes"],
                        [[t.name, t.type, list(t.shape), t.bytes] for t in self.tensors])
        return layers + tensors if self.layers else table([], [], str(self)) + tensors


def open_weights(path: str | os.PathLike[str], *, gptq_format: str | None = None) -> WeightFile:
    """Opens a safetensors or GGUF file, or the index of several safetensors files, as a WeightFile:

        file = tilewright.open_weights("model.safetensors")
        weights = kernel.pack({"B": file["layers.0.q_proj"]})

    A kernel whose spec has the keys of the layer (`file.layers`) takes it as it is stored; any other one
    takes its values.
    """
    return WeightFile(path, gptq_format=gptq_format)


def expand(kernel: Kernel, weights: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """What Kernel.pack was given, with an array for each operand, and the order of A's columns, or
    None."""
    arrays: dict[str, Any] = {}
    order = None
    for operand, given in weights.items():
        if not hasattr(given, "_read_for"):
            made: dict[str, Any] = {operand: given}
        else:
            made, own = given._read_for(kernel, operand)
            order = order if own is None else own
        for name, array in made.items():
            if name in arrays or (name != operand and name in weights):
                raise ArgumentError(f"operand '{name}' comes with that of '{operand}'; leave it out")
            arrays[name] = array
    return arrays, order
