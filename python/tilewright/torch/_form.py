"""How a quantized layer stores its weight: the keys of its spec, and its values in PyTorch's tensors."""
from __future__ import annotations

import dataclasses
import functools
import re

import torch

from .._arrays import pack_bits
from .._dtypes import BITS, dtype_name
from .._errors import ArgumentError
from .._quantize import _FLOATS, _INTEGERS, _table

_FLOAT_SCALES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_PATTERN = re.compile(r"([1-9]\d?):([1-9]\d?)")


@dataclasses.dataclass(frozen=True)
class Form:
    """The stored form of a weight [k, n], apart from the scales' type, which follows `Module.to`.

    `dtype` is that of the codes, "" where elements stay as they are. `zero` and `scale` are "" where there are
    none; a `scale` of e8m0 or f8e4m3 comes in bytes. `activations` is "i8" where the kernel quantizes them.
    `sparse` is "2:4" or "".
    """
    dtype: str = ""
    group: int = -1
    scale: str = ""
    zero: str = ""
    activations: str = ""
    sparse: str = ""

    @classmethod
    def read(cls, text: str | None, group: int, activations: str | None, sparse: str | None) -> Form:
        """The form that "u4", "u4:128" or "u4:128:i8" ask for, or the pattern "2:4"."""
        if text is not None and _PATTERN.fullmatch(str(text)):
            text, sparse = None, str(text)
        name, *rest = [""] if text is None else str(text).split(":")
        if len(rest) > 2 or any(not re.fullmatch(r"-?\d+", given) for given in rest[:1]):
            raise ArgumentError(f"the weights' type is '{text}'; expected such as 'u4', 'u4:128' or "
                                "'u4:128:i8', or a pattern such as '2:4'")
        name = dtype_name(name) if name else ""
        group = int(rest[0]) if rest else group
        activations = rest[1] if len(rest) > 1 else activations or ""
        if name and name not in _INTEGERS + _FLOATS:
            raise ArgumentError(f"the weights' type is '{name}'; expected one of "
                                f"{', '.join(_INTEGERS + _FLOATS)}, or a pattern such as '2:4'")
        if activations not in ("", "i8"):
            raise ArgumentError(f"activations are '{activations}'; expected 'i8', or None")
        if activations and name not in _INTEGERS:
            raise ArgumentError(f"activations of i8 meet weights of {name or 'floats'}; expected one of "
                                f"{', '.join(_INTEGERS)}")
        found = _PATTERN.fullmatch(sparse or "")
        if sparse and (found is None or int(found[1]) > int(found[2])):
            raise ArgumentError(f"sparse is '{sparse}'; expected N:M such as '2:4', at most N of M elements "
                                "along k that are not zero")
        if not name and not sparse:
            raise ArgumentError("neither a type nor a pattern; expected such as 'u4' or '2:4'")
        return cls(name, group, activations=activations, sparse=sparse or "")

    @property
    def pattern(self) -> tuple[int, int]:
        kept, _, of = self.sparse.partition(":")
        return int(kept), int(of)

    def scale_of(self, scales: torch.Tensor | None) -> str:
        """The spec's name of the scales' type."""
        return "" if scales is None else _FLOAT_SCALES.get(scales.dtype, self.scale)

    def keys(self, scales: torch.Tensor | None) -> str:
        """The keys of a matmul's spec."""
        pairs = [("a.dtype", self.activations), ("w.dtype", self.dtype),
                 ("w.group", str(self.group) if self.dtype else ""), ("w.scale", self.scale_of(scales)),
                 ("w.zero", self.zero), ("w.sparse", self.sparse)]
        return ",".join(f"{key}={value}" for key, value in pairs if value)

    @classmethod
    def of_keys(cls, keys: str) -> Form:
        given = dict(pair.partition("=")[::2] for pair in keys.split(",") if pair)
        return cls(given.get("w.dtype", ""), int(given.get("w.group", -1)), given.get("w.scale", ""),
                   given.get("w.zero", "").replace("none", ""), given.get("a.dtype", ""),
                   given.get("w.sparse", ""))

    def label(self) -> str:
        words = [self.dtype, str(self.group) if self.dtype else "", self.activations]
        return " ".join(word for word in (":".join(word for word in words if word), self.sparse) if word)


def prune(weight: torch.Tensor, kept: int, of: int) -> torch.Tensor:
    """A weight [k, n] with zeros for all but the `kept` largest of each `of` neighbours along k."""
    k, n = weight.shape
    padded = torch.nn.functional.pad(weight, (0, 0, 0, -k % of)).view(-1, of, n)
    least = padded.abs().topk(of - kept, dim=1, largest=False).indices
    return padded.scatter(1, least, 0).reshape(-1, n)[:k].contiguous()


@functools.lru_cache(maxsize=None)
def _values_of(name: str) -> torch.Tensor:
    return torch.from_numpy(_table(name)).to(torch.float32)


def numbers(stored: torch.Tensor, name: str) -> torch.Tensor:
    """The numbers that a tensor of carriers holds, in f32."""
    if stored.dtype.is_floating_point:
        return stored.float()
    if name == "f16":
        return stored.view(torch.float16).float()
    bits = BITS[name]
    codes = stored
    if bits < 8:
        places = torch.arange(0, 8, bits, dtype=torch.uint8)
        codes = (stored.unsqueeze(-1) >> places & (1 << bits) - 1).flatten(-2)
    if name in _FLOATS or name in ("e8m0", "i1"):
        return _values_of(name)[codes.int()]
    if name[0] == "i" and bits < 8:
        half = 1 << (bits - 1)
        return ((codes.to(torch.int8) ^ half) - half).float()
    return codes.float()


def dequantize(form: Form, codes: torch.Tensor, scales: torch.Tensor | None,
               zeros: torch.Tensor | None) -> torch.Tensor:
    """The weight [k, n] with the values that kernels compute with, (q - zero) * scale, in f32."""
    values = numbers(codes, form.dtype)
    if scales is None:
        return values
    k = values.shape[0]
    group = k if form.group == -1 else form.group

    def rows(of_groups: torch.Tensor) -> torch.Tensor:
        return of_groups.repeat_interleave(group, 0, output_size=len(of_groups) * group)[:k]

    if zeros is not None:
        values = values - rows(numbers(zeros, form.zero))
    return values * rows(numbers(scales, form.scale_of(scales)))


def pack_codes(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Codes of a number each as bytes that hold several, the lowest bits first."""
    return torch.from_numpy(pack_bits(codes.numpy(), bits)) if bits < 8 else codes
