"""What the library tells about what it found and what kernels take, as plain values."""
from __future__ import annotations

from typing import Literal, NamedTuple


class Report(NamedTuple):
    """How a spec, or a range of its sizes, is served."""

    spec: str
    """As it was given."""
    sizes: str
    """Those that this line is about, "m=1..64"; "" without dynamic dimensions."""
    outcome: Literal["hit", "near", "default", "miss"]
    """hit: by the kernel tuned for it, on this chip, with these threads. near: by one tuned on this chip
    for a range of sizes or other threads, or on another chip with this one's instruction sets. default:
    by a generated one that nobody has measured."""
    reason: str
    """Why it is no hit; "" for a hit."""
    command: str
    """The tune-cli command that would tune it; "" for a hit."""
    kernel: str
    """The spec that the kernel was made for; "" for a miss."""
    sketch: str
    """What made it."""
    seconds: float
    """That it took when it was tuned, at its largest sizes; 0: not known."""
    threads: int
    """For which it was tuned."""


class Extent(NamedTuple):
    """A size that follows from the dynamic dimensions: floor((offset + sum of factors[d] * size of
    dimension d) / divisor)."""

    factors: tuple[int, ...]
    offset: int
    divisor: int

    def at(self, sizes):
        """The size where the dimensions have these sizes, which may be symbols that compute."""
        total = self.offset
        for factor, size in zip(self.factors, sizes):
            if factor:
                total = total + factor * size
        return total if self.divisor == 1 else total // self.divisor


class Operand(NamedTuple):
    """An array that a kernel takes or makes."""

    name: str
    """"A", "B.scale"."""
    role: Literal["input", "weight", "output"]
    dtype: str
    """"f32", "bf16", "u4"; elements of less than 8 bits are packed, lowest bits first."""
    shape: tuple[int | None, ...]
    """In elements; None for a size that is known only at launch."""
    extents: tuple[Extent, ...]
    """How each of them follows from the dynamic dimensions."""
    alignment: int
    """Of the first element, in bytes."""
    packed: Literal["no", "yes", "either"]
    """Whether a launch takes it as an array, from weights, or as either by its sizes."""


class Dim(NamedTuple):
    """A dynamic dimension of a spec."""

    name: str
    min: int
    max: int
    operand: str
    """The size is read off this operand's …"""
    axis: int
    """… axis."""


class Port(NamedTuple):
    """An input or an output of a model."""

    name: str
    dtype: str
    """"f32", "i64", "bool"."""
    shape: tuple[int, ...]
    """The largest size of each axis."""
    least: tuple[int, ...]
    """The least; where the two differ, the inputs of a call say the size."""


class Node(NamedTuple):
    """A node of a model's program."""

    label: str
    """The model's name for it."""
    spec: str
    outcome: Literal["hit", "near", "default", "miss"]
    """As Report has it."""
    reason: str
    """Why its kernel is no hit; "" for a hit."""
    tuned_seconds: float
    """That its kernel took when it was tuned; 0: not known."""
    seconds: float
    """That it took in the last run with `profile`; 0: there was none."""


class StoredTensor(NamedTuple):
    """A tensor of a file of weights."""

    name: str
    type: str
    """As its format calls it: "BF16", "Q4_K"."""
    dtype: str
    """"bf16"; "" where specs name no such type."""
    shape: tuple[int, ...]
    bytes: int


class StoredLayer(NamedTuple):
    """A quantized layer of a file of weights: a matrix [k, n]."""

    name: str
    """What the names of its tensors begin with."""
    format: str
    """"gptq", "awq", "compressed-tensors", "Q4_K"."""
    problem: str
    """Why it cannot be read; "" where it can, and else all below is 0 or ""."""
    keys: str
    """Keys of a matmul's spec for the layer as it is stored, "w.dtype=u4,w.group=128,w.scale=f16"; "" where
    keys cannot say it, and kernels take its values."""
    k: int
    n: int
    group: int
    """Rows that share a scale."""
    bits: int
    act_order: bool
    """Rows that share a scale are not neighbours; a launch takes the columns of A in that order."""

    def spec(self, m: int | str, **keys) -> str:
        """The spec of a matmul with `m` rows that takes the layer as it is stored, or, where keys cannot
        say it, its values: `layer.spec("1..64", dtype="bf16")`."""
        from ._dtypes import dtype_name

        def text(value) -> str:
            if isinstance(value, bool):
                return str(value).lower()
            return str(value) if isinstance(value, (str, int, float)) else dtype_name(value)

        more = [f"{key}={text(value)}" for key, value in keys.items()]
        return ",".join([f"matmul:m={m},n={self.n},k={self.k}", *more, *([self.keys] if self.keys else [])])
