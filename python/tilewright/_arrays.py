"""Arrays that kernels take, and others brought into their form."""
from __future__ import annotations

import math
import sys
import warnings
from typing import TYPE_CHECKING, Any, Sequence

from ._dtypes import BITS, dtype_name
from ._errors import SpecError

if TYPE_CHECKING:
    import numpy

ALIGNMENT = 64

# Carriers of elements that NumPy has no type for: unsigned integers of the same width.
_CARRIERS = {"bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8", "e8m0": "uint8"}
_KINDS = {"f": "float", "i": "int", "u": "uint"}


class CopyWarning(UserWarning):
    """An array was copied for a launch, since it has gaps or is not aligned. Each operand of a kernel is
    named once. warnings.simplefilter("ignore", tilewright.CopyWarning) turns the notes off."""


_noted: set[tuple[str, str]] = set()


def carrier(name: str) -> str:
    """The type of NumPy that carries elements of the type `name`, of 8 bits or more."""
    if name in _CARRIERS:
        return _CARRIERS[name]
    return name if name == "bool" else f"{_KINDS[name[0]]}{name[1:]}"


def empty(shape: int | Sequence[int], dtype: Any = "f32") -> numpy.ndarray:
    """A NumPy array with undefined values whose first element is aligned to 64 bytes, so that a launch on
    a CPU takes it without a copy.

    `dtype` is a name as specs and `Operand.dtype` have it, or a type of NumPy, PyTorch or ml_dtypes. Types
    that NumPy lacks are carried by unsigned integers: "bf16" by uint16, floats of 8 bits by uint8, and
    elements of less than 8 bits by uint8 that hold several, the lowest bits first; `shape` counts
    elements.
    """
    import numpy

    extents = [int(shape)] if not isinstance(shape, Sequence) else [int(extent) for extent in shape]
    try:
        name = dtype_name(dtype)
        bits = BITS[name]
        if bits < 8:
            if not extents or extents[-1] * bits % 8 != 0:
                raise ValueError(f"a row of {extents[-1] if extents else 1} {name} fills no whole "
                                 f"bytes; expected a multiple of {8 // bits}")
            extents[-1] = extents[-1] * bits // 8
        element = numpy.dtype("uint8" if bits < 8 else carrier(name))
    except SpecError:
        element = numpy.dtype(dtype)  # of NumPy's own, such as a structure
    size = math.prod(extents) * element.itemsize
    memory = numpy.empty(size + ALIGNMENT, numpy.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start:start + size].view(element).reshape(extents)


def pack_bits(codes: numpy.ndarray, bits: int) -> numpy.ndarray:
    """Codes of less than 8 bits, a number each, as bytes that hold several, the lowest bits first."""
    import numpy

    each = 8 // bits
    rows = codes.reshape(*codes.shape[:-1], -1, each).astype(numpy.uint8)
    packed = empty(rows.shape[:-1], "u8")
    packed[...] = rows[..., 0] & ((1 << bits) - 1)
    for place in range(1, each):
        packed |= (rows[..., place] & ((1 << bits) - 1)) << (place * bits)
    return packed


def _is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def carried(array: Any) -> Any:
    """An array whose type only NumPy's extensions have (ml_dtypes), as unsigned integers of that width,
    packed below 8 bits; None for any other array. Called for what speaks no DLPack."""
    element = getattr(array, "dtype", None)
    name = getattr(element, "name", "")
    if not isinstance(name, str) or not name.startswith(("bfloat", "float8", "float4", "int", "uint")):
        return None
    try:
        own = dtype_name(name)
    except SpecError:
        return None
    if BITS[own] < 8:
        packed = pack_bits(array.view("uint8"), BITS[own])
        packed.flags.writeable = False  # a copy, to which no launch may write
        return packed
    return array.view(_CARRIERS[own]) if own in _CARRIERS else None


def aligned(array: Any, alignment: int = ALIGNMENT) -> Any:
    """A compact copy that is aligned so."""
    if _is_torch(array):
        torch = sys.modules["torch"]
        return array.detach().clone(memory_format=torch.contiguous_format)
    import numpy

    given = numpy.asarray(array)
    made = empty(given.shape, given.dtype)
    made[...] = given
    return made


def copied(array: Any, spec: str, operand: str) -> Any:
    """The copy of an array that a launch cannot take as it lies, with a note once."""
    if (spec, operand) not in _noted:
        _noted.add((spec, operand))
        frame, level = sys._getframe(1), 2
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tilewright."):
            frame, level = frame.f_back, level + 1
        warnings.warn(f"operand '{operand}' of {spec} was copied: expected a compact array that is aligned "
                      f"to {ALIGNMENT} bytes; tilewright.empty() makes such", CopyWarning, level)
    return aligned(array)


def copy_back(array: Any, result: Any) -> None:
    """Writes the result of a launch where the caller wants it."""
    if _is_torch(array):
        array.detach().copy_(result)
        return
    import numpy

    numpy.asarray(array)[...] = result


def take_columns(array: Any, order: Any) -> Any:
    """The array with its columns in this order."""
    if _is_torch(array):
        torch = sys.modules["torch"]
        return array.index_select(-1, torch.as_tensor(order, device=array.device))
    import numpy

    given = numpy.asarray(array)
    made = empty(given.shape, given.dtype)
    numpy.take(given, order, axis=-1, out=made)
    return made
