"""Arrays that kernels take."""
from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Sequence

if TYPE_CHECKING:
    import numpy

ALIGNMENT = 64

# Carriers of elements that NumPy has no type for: unsigned integers of the same width.
_CARRIERS = {"bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8", "e8m0": "uint8"}
_PLAIN = re.compile(r"(f|i|u)(64|32|16|8)")
_KINDS = {"f": "float", "i": "int", "u": "uint"}
_BELOW_A_BYTE = {"i4": 4, "u4": 4, "f4e2m1": 4, "nf4": 4, "i2": 2, "u2": 2, "i1": 1, "u1": 1}


def empty(shape: int | Sequence[int], dtype: Any = "f32") -> numpy.ndarray:
    """A NumPy array with undefined values whose first element is aligned to 64 bytes, as kernels on a
    CPU want it.

    `dtype` is one of NumPy's, or a name as specs and `Operand.dtype` have it. Types that NumPy lacks
    are carried by unsigned integers: "bf16" by uint16, floats of 8 bits by uint8, and elements of
    less than 8 bits by uint8 that hold several, the lowest bits first; `shape` counts elements.
    """
    import numpy

    extents = [shape] if isinstance(shape, int) else [int(extent) for extent in shape]
    if isinstance(dtype, str):
        if dtype in _BELOW_A_BYTE:
            bits = _BELOW_A_BYTE[dtype]
            if not extents or extents[-1] * bits % 8 != 0:
                raise ValueError(f"a row of {extents[-1] if extents else 1} {dtype} fills no whole "
                                 f"bytes; expected a multiple of {8 // bits}")
            extents[-1] = extents[-1] * bits // 8
            dtype = "uint8"
        elif dtype in _CARRIERS:
            dtype = _CARRIERS[dtype]
        elif (plain := _PLAIN.fullmatch(dtype)) and dtype != "f8":
            dtype = _KINDS[plain[1]] + plain[2]
    element = numpy.dtype(dtype)
    size = math.prod(extents) * element.itemsize
    memory = numpy.empty(size + ALIGNMENT, numpy.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start:start + size].view(element).reshape(extents)
