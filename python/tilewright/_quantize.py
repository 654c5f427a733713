"""Weights in a few bits: codes, scales and zero points as kernels take them (docs/formats.md)."""
from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Iterator, Sequence

from ._arrays import carrier, empty, pack_bits
from ._dtypes import BITS, dtype_name
from ._errors import ArgumentError

if TYPE_CHECKING:
    import numpy

_INTEGERS = ("i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1")
_FLOATS = ("f8e4m3", "f8e5m2", "f4e2m1", "nf4")
_SCALES = ("f32", "f16", "bf16", "e8m0", "f8e4m3")
_ZEROS = ("u8", "u4", "u2", "u1", "f16")
# Values of the codes of nf4 (QLoRA, appendix E).
_NF4 = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
        0.7229568362236023, 1.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Quantized:
    """A quantized weight. It unpacks into its three arrays, and `Kernel.pack` takes it whole:

        codes, scales, zeros = tilewright.quantize(w, "u4", group=128)
        weights = kernel.pack({"B": tilewright.quantize(w, "u4", group=128)})
    """

    codes: numpy.ndarray
    """Packed, the lowest bits first, in the order of the weight's axes."""
    scales: numpy.ndarray
    """[groups, n]; types that NumPy lacks are carried by unsigned integers."""
    zeros: numpy.ndarray | None
    """[groups, n], packed as the codes are; None where there are none."""
    dtype: str
    """Of the codes, "u4"."""
    scale: str
    """Of the scales, "f32"."""
    zero: str
    """Of the zero points, "u4"; "none" without them."""
    group: int
    """Elements that share a scale; -1: one group for each column."""
    shape: tuple[int, ...]
    """Of the weight."""
    axis: tuple[int, ...]
    """Axes of the weight that are summed over."""

    def __iter__(self) -> Iterator[numpy.ndarray | None]:
        return iter((self.codes, self.scales, self.zeros))

    @property
    def keys(self) -> str:
        """The keys of a spec that takes it: "w.dtype=u4,w.group=128,w.scale=f32,w.zero=u4"."""
        zero = "" if self.zeros is None else f",w.zero={self.zero}"
        return f"w.dtype={self.dtype},w.group={self.group},w.scale={self.scale}{zero}"

    def operands(self, operand: str = "B") -> dict[str, numpy.ndarray]:
        """The arrays by the names of a kernel's operands."""
        named = {operand: self.codes, f"{operand}.scale": self.scales}
        if self.zeros is not None:
            named[f"{operand}.zero"] = self.zeros
        return named

    def dequantize(self) -> numpy.ndarray:
        """The values that kernels compute with, (q - zero) * scale, as float32."""
        import numpy

        rows = _to_rows(_values(self.codes, self.dtype), self.axis)
        scales = numpy.moveaxis(_values(self.scales, self.scale), -2, -1).reshape(rows.shape[0], -1)
        size = rows.shape[1] if self.group == -1 else self.group
        repeated = numpy.repeat(scales, size, axis=1)[:, :rows.shape[1]]
        if self.zeros is not None:
            zeros = numpy.moveaxis(_values(self.zeros, self.zero), -2, -1).reshape(rows.shape[0], -1)
            rows = rows - numpy.repeat(zeros, size, axis=1)[:, :rows.shape[1]]
        return _from_rows(rows * repeated, self.shape, self.axis)

    def _read_for(self, kernel: Any, operand: str) -> tuple[dict[str, Any], None]:
        return self.operands(operand), None


def _small_floats(exponent: int, mantissa: int, most: float) -> list[float]:
    """The values of the codes of a float with a sign; beyond `most` there are NaN and infinities."""
    bias = (1 << (exponent - 1)) - 1
    values = []
    for code in range(1 << (exponent + mantissa)):
        power, rest = code >> mantissa, code & ((1 << mantissa) - 1)
        value = math.ldexp(rest, 1 - bias - mantissa) if power == 0 else math.ldexp(
            (1 << mantissa) + rest, power - bias - mantissa)
        values.append(value if value <= most else math.nan)
    return values + [-value for value in values]


def _table(name: str) -> numpy.ndarray | None:
    """The value of each code, where codes are no numbers; NaN for those that are no finite value."""
    import numpy

    if name == "nf4":
        return numpy.array(_NF4)
    forms = {"f8e4m3": (4, 3, 448.0), "f8e5m2": (5, 2, 57344.0), "f4e2m1": (2, 1, 6.0)}
    if name in forms:
        return numpy.array(_small_floats(*forms[name]))
    if name == "e8m0":
        return numpy.array([math.ldexp(1.0, code - 127) for code in range(255)] + [math.nan])
    return numpy.array([-1.0, 1.0]) if name == "i1" else None


def _values(array: numpy.ndarray, name: str) -> numpy.ndarray:
    """The numbers that an array of carriers holds."""
    import numpy

    bits = BITS[name]
    if bits < 8:
        each = numpy.stack([array >> (place * bits) & ((1 << bits) - 1) for place in range(8 // bits)], -1)
        array = each.reshape(*array.shape[:-1], -1)
    table = _table(name)
    if table is not None:
        return table[array]
    if name == "bf16":
        return (array.astype(numpy.uint32) << 16).view(numpy.float32)
    if name[0] == "i" and bits < 8:
        return (array.astype(numpy.int8) ^ (1 << (bits - 1))) - (1 << (bits - 1))
    return array.astype(numpy.float64)


def _to_rows(weight: numpy.ndarray, axis: tuple[int, ...]) -> numpy.ndarray:
    """[columns, k]: what is summed over becomes the last axis."""
    others = [a for a in range(weight.ndim) if a not in axis]
    columns = math.prod(weight.shape[a] for a in others)
    return weight.transpose(*others, *axis).reshape(columns, -1)


def _from_rows(rows: numpy.ndarray, shape: Sequence[int], axis: tuple[int, ...]) -> numpy.ndarray:
    import numpy

    others = [a for a in range(len(shape)) if a not in axis]
    order = [*others, *axis]
    back = rows.reshape([shape[a] for a in order])
    return numpy.ascontiguousarray(back.transpose([order.index(a) for a in range(len(shape))]),
                                   dtype=numpy.float32 if rows.dtype.kind == "f" else rows.dtype)


def _rounded_up(scales: numpy.ndarray, name: str) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Scales as they are stored, and their values: the least that are no smaller, so that no element lies
    beyond the largest code."""
    import numpy

    if name in ("f32", "f16"):
        kind = numpy.float32 if name == "f32" else numpy.float16
        with numpy.errstate(over="ignore"):
            stored = scales.astype(kind)
            stored = numpy.where(stored < scales, numpy.nextafter(stored, kind(numpy.inf)), stored)
        values = stored.astype(numpy.float64)
    elif name == "bf16":
        # The next float up, before the lower half is cut off upwards.
        floats, _ = _rounded_up(scales, "f32")
        bits = floats.view(numpy.uint32).astype(numpy.uint64)
        stored = ((bits + 0xFFFF) >> 16).astype(numpy.uint16)
        values = (stored.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
    else:
        table = _table(name)[:128] if name == "f8e4m3" else _table(name)
        finite = table[~numpy.isnan(table)]
        place = numpy.searchsorted(finite, scales)
        values = numpy.append(finite, numpy.inf)[place]
        stored = place.astype(numpy.uint8)
    if not numpy.isfinite(values).all():
        raise ArgumentError(f"a group needs the scale {scales[~numpy.isfinite(values)].max():.4g}, which "
                            f"{name} cannot hold; expected scale='f32' or 'bf16'")
    return stored, values


class _Codes:
    """How elements become codes of one type, group by group: those of all columns at once."""

    def __init__(self, dtype: str, scale: str, zero: str, symmetric: bool):
        import numpy

        self.scale, self.zero, self.symmetric = scale, zero, symmetric
        bits = BITS[dtype]
        self.table = None
        if dtype in _FLOATS:
            values = _table(dtype)
            self.order = numpy.argsort(numpy.where(numpy.isnan(values), numpy.inf, values), kind="stable")
            self.table = values[self.order][:numpy.count_nonzero(~numpy.isnan(values))]
            self.between = (self.table[1:] + self.table[:-1]) / 2
            self.most = self.table[-1]
        elif dtype[0] == "i":
            self.low, self.high = (-1, 1) if bits == 1 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
            self.most = self.high
        else:
            self.low, self.high = 0, (1 << bits) - 1
            self.most = self.high // 2
        self.one_bit = dtype == "i1"

    def of(self, block: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray | None]:
        """Codes, stored scales and zero points of [columns, group]."""
        import numpy

        low = numpy.minimum(block.min(axis=1), 0).astype(numpy.float64)
        high = numpy.maximum(block.max(axis=1), 0).astype(numpy.float64)
        largest = numpy.maximum(-low, high)
        if self.one_bit:  # the mean is what leaves the least squares
            wanted = numpy.abs(block).mean(axis=1, dtype=numpy.float64)
        else:
            wanted = largest / self.most if self.symmetric else (high - low) / (self.high - self.low)
        stored, scales = _rounded_up(numpy.where(largest > 0, wanted, 1.0), self.scale)
        scaled = block / scales[:, None]
        if self.table is not None:
            return self.order[numpy.searchsorted(self.between, scaled)], stored, None
        if self.one_bit:
            return (scaled >= 0).astype(numpy.uint8), stored, None
        zeros = self._zeros(low, scales, largest > 0)
        offset = 0.0 if zeros is None else zeros.astype(numpy.float64)[:, None]
        if self.zero != "f16" and zeros is not None:
            codes = numpy.rint(scaled) + offset
        else:
            codes = numpy.rint(scaled + offset)
        return numpy.clip(codes, self.low, self.high), stored, zeros

    def _zeros(self, low: numpy.ndarray, scales: numpy.ndarray,
               filled: numpy.ndarray) -> numpy.ndarray | None:
        import numpy

        if self.zero == "none":
            return None
        if self.symmetric:
            at = numpy.full(low.shape, (self.high + 1) // 2 if self.low == 0 else 0)
        else:
            at = self.low - low / scales
        # Codes and zero points of 0 give 0 however a kernel forms its sums: other ones that are equal may cancel
        # but for the rounding.
        at = numpy.where(filled, at, 0)
        if self.zero == "f16":
            return at.astype(numpy.float16)
        return numpy.clip(numpy.rint(at), 0, (1 << BITS[self.zero]) - 1).astype(numpy.uint8)


def _floats(weight: Any) -> numpy.ndarray:
    """The weight as a NumPy array of floats."""
    import numpy

    if hasattr(weight, "detach"):  # PyTorch's, of which NumPy does not know all types
        weight = weight.detach().cpu()
        weight = weight.float() if weight.dtype.itemsize < 4 else weight
        weight = weight.numpy()
    array = numpy.asarray(weight)
    if array.dtype.kind == "V" or array.dtype.name in ("bfloat16",):
        array = array.astype(numpy.float32)
    if array.dtype.kind != "f":
        raise ArgumentError(f"a weight of {array.dtype}; expected floats")
    if array.ndim < 2 or array.size == 0:
        raise ArgumentError(f"a weight of shape {list(array.shape)}; expected two axes or more, none of "
                            f"them 0")
    if not numpy.isfinite(array).all():
        raise ArgumentError("the weight has elements that are infinite or NaN; expected finite ones")
    return array


def _axes(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    if axis is None:
        axis = range(rank - 1)
    axes = tuple(a + rank if a < 0 else a for a in ([axis] if isinstance(axis, int) else axis))
    if not axes or len(set(axes)) != len(axes) or len(axes) == rank or not all(0 <= a < rank for a in axes):
        raise ArgumentError(f"axis is {axis}; expected axes of {rank} that are summed over, and one that "
                            f"is not")
    return axes


def _zero_type(dtype: str, zero: Any, symmetric: bool | None) -> tuple[str, bool]:
    """The type of the zero points, and whether groups lie around 0."""
    unsigned = dtype in _INTEGERS and dtype[0] == "u"
    given = None if zero is None else "none" if zero == "none" else dtype_name(zero)
    if symmetric is None:
        symmetric = not unsigned if given is None else given == "none"
    name = given or (dtype if unsigned else "none" if symmetric else "f16")
    if dtype in _FLOATS or dtype == "i1":
        if not symmetric or name != "none":
            raise ArgumentError(f"{dtype} has no zero points here; expected symmetric=True")
    elif unsigned and name == "none":
        raise ArgumentError(f"{dtype} without zero points holds no negative elements; expected zero="
                            f"'{dtype}', or a signed type")
    elif name not in ("none", *_ZEROS):
        raise ArgumentError(f"zero is '{name}'; expected one of none, {', '.join(_ZEROS)}")
    elif not symmetric and name == "none":
        raise ArgumentError("asymmetric groups need zero points; expected zero='f16'")
    elif not unsigned and name not in ("none", "f16"):
        raise ArgumentError(f"zero is '{name}' beside {dtype}; expected 'f16', or an unsigned type")
    elif dtype == "u1" and symmetric:
        raise ArgumentError("u1 has no middle; expected symmetric=False, or i1")
    elif unsigned and name != "f16" and BITS[name] < BITS[dtype]:
        raise ArgumentError(f"zero is '{name}', which does not hold all codes of {dtype}; expected "
                            f"'{dtype}'")
    return name, symmetric


def quantize(weight: Any, dtype: Any = "u4", *, group: int = -1, scale: Any = "f32", zero: Any = None,
             symmetric: bool | None = None, axis: int | Sequence[int] | None = None) -> Quantized:
    """Rounds a weight to a type of a few bits, in groups that share a scale and a zero point.

    `weight`: an array of floats, [k, n] for a matmul's B. `dtype`: i8 u8 i4 u4 i2 u2 i1 u1 f8e4m3 f8e5m2
    f4e2m1 nf4. `group`: elements along k that share a scale; -1: all of a column. `scale`: the type of the
    scales: f32 f16 bf16 e8m0 f8e4m3; they are rounded up, so that no element is cut off. `zero`: the type
    of the zero points, "none", that of the codes, or "f16". `symmetric`: groups lie around 0, which is the
    default of signed types; unsigned ones use the range from the least to the largest element. `axis`: the
    axes that are summed over; by default all but the last one, 1 for a weight [n, k] (`trans_b`).

    An element is off by at most half a scale (of floats: half the distance of neighbouring codes, times
    the scale). i1 keeps the signs, and the scale is the mean magnitude. Returns a Quantized: codes, scales
    and zeros.
    """
    import numpy

    name, scale_name = dtype_name(dtype), dtype_name(scale)
    if name not in _INTEGERS + _FLOATS:
        raise ArgumentError(f"dtype is '{name}'; expected one of {', '.join(_INTEGERS + _FLOATS)}")
    if scale_name not in _SCALES:
        raise ArgumentError(f"scale is '{scale_name}'; expected one of {', '.join(_SCALES)}")
    if group != -1 and group < 1:
        raise ArgumentError(f"group is {group}; expected a number of elements, or -1 for whole columns")
    zero_name, symmetric = _zero_type(name, zero, symmetric)
    array = _floats(weight)
    axes = _axes(axis, array.ndim)
    for what, kind, columns in (("codes", name, array.shape[-1]),
                                ("zero points", zero_name, array.shape[[
                                    a for a in range(array.ndim) if a not in axes][-1]])):
        if kind != "none" and BITS[kind] < 8 and columns * BITS[kind] % 8 != 0:
            raise ArgumentError(f"a row of {columns} {what} of {kind} fills no whole bytes; expected a "
                                f"multiple of {8 // BITS[kind]}")

    rows = _to_rows(array, axes)
    size = rows.shape[1] if group == -1 else min(group, rows.shape[1])
    form = _Codes(name, scale_name, zero_name, symmetric)
    codes = numpy.empty(rows.shape, numpy.int16)
    scales, zeros = [], []
    for first in range(0, rows.shape[1], size):  # a group of all columns at a time
        block = rows[:, first:first + size]
        codes[:, first:first + size], stored, zero_points = form.of(block)
        scales.append(stored)
        zeros.append(zero_points)

    def by_groups(parts: list[numpy.ndarray], kind: str) -> numpy.ndarray:
        others = [array.shape[a] for a in range(array.ndim) if a not in axes]
        stacked = numpy.moveaxis(numpy.stack(parts, -1).reshape(*others, -1), -1, -2)
        return _stored(stacked, kind)

    return Quantized(_stored(_from_rows(codes, array.shape, axes), name), by_groups(scales, scale_name),
                     None if zero_name == "none" else by_groups(zeros, zero_name), name, scale_name,
                     zero_name, group, array.shape, axes)


def _stored(numbers: numpy.ndarray, name: str) -> numpy.ndarray:
    """Codes, or what carries them already, in an aligned array."""
    if BITS[name] < 8:
        return pack_bits(numbers, BITS[name])
    made = empty(numbers.shape, carrier(name))
    made[...] = numbers
    return made
