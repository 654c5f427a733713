"""Element types by the names of specs, whichever library says them; and specs as text."""
from __future__ import annotations

import json
import sys
from typing import Any, Mapping

from ._errors import SpecError

# By NumPy's, PyTorch's and ml_dtypes' names, without their module.
_NAMES = {
    "float64": "f64", "double": "f64", "fp64": "f64", "float32": "f32", "float": "f32", "single": "f32",
    "fp32": "f32", "float16": "f16", "half": "f16", "fp16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e8m0fnu": "e8m0",
    "float4_e2m1fn": "f4e2m1", "float4_e2m1fn_x2": "f4e2m1",
    "int64": "i64", "long": "i64", "int32": "i32", "int": "i32", "int16": "i16", "short": "i16",
    "int8": "i8", "int4": "i4", "int2": "i2", "int1": "i1",
    "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "uint4": "u4", "uint2": "u2",
    "uint1": "u1", "bool": "bool", "boolean": "bool",
}
BITS = {
    "f64": 64, "f32": 32, "f16": 16, "bf16": 16, "f8e4m3": 8, "f8e5m2": 8, "e8m0": 8, "f4e2m1": 4,
    "nf4": 4, "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i4": 4, "i2": 2, "i1": 1, "u64": 64,
    "u32": 32, "u16": 16, "u8": 8, "u4": 4, "u2": 2, "u1": 1, "bool": 8,
}
"""Width of each type that specs name."""


def dtype_name(dtype: Any) -> str:
    """What specs call the type: "f32" for "f32", "float32", numpy.float32, numpy.dtype("float32"),
    torch.float32 and float; "bf16" for ml_dtypes.bfloat16. Raises SpecError for anything else."""
    if isinstance(dtype, str):
        text = dtype.rpartition(".")[2]  # "torch.float16"
        found = text if text in BITS else _NAMES.get(text)
    else:
        found = _name_of_object(dtype)
    if found is None:
        raise SpecError(f"{dtype!r} is no element type; expected one of {', '.join(BITS)}, or NumPy's or "
                        f"PyTorch's type for it")
    return found


def _name_of_object(dtype: Any) -> str | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dtype, torch.dtype):
        return _NAMES.get(str(dtype).rpartition(".")[2])
    import numpy

    try:
        element = numpy.dtype(dtype)
    except TypeError:
        return None
    # None, lists and the like make a dtype, too.
    return _NAMES.get(element.name) if isinstance(dtype, (type, numpy.dtype)) else None


def _json_value(value: Any) -> Any:
    """What json cannot write: types by their names, NumPy's numbers as Python's."""
    if hasattr(value, "item") and not isinstance(value, type):
        return value.item()
    return dtype_name(value)


def spec_text(spec: str | Mapping[str, Any]) -> str:
    """A spec as the library reads it; the same text for equal specs."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Mapping):
        return json.dumps(dict(spec), default=_json_value)
    raise SpecError(f"a spec is text or a dict; got {type(spec).__name__}")
