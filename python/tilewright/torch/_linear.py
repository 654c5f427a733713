"""Linear layers with weights of a few bits: a module, and the operator that programs of torch.compile and
torch.export have in its place."""
from __future__ import annotations

import pathlib
from typing import Any, Optional

import torch

from ._form import Form, dequantize
from ._kernels import ROWS, LayerKernels


_STORED = ("codes", "scales", "zeros", "order", "bias")


class QuantizedLinear(torch.nn.Module):
    """torch.nn.Linear with a stored weight: `quantize_` and `load_quantized_` make them.

    Buffers are `codes`, the weight [k, n] in the form of docs/formats.md, `scales` and `zeros` [groups, n],
    and `order`, in which the columns of the input meet the rows of the weight; those that a form lacks are
    None. Kernels are those of FOLDER/kernels.db. Without one the weight is dequantized and PyTorch multiplies,
    which one line says.
    """

    codes: torch.Tensor
    scales: Optional[torch.Tensor]
    zeros: Optional[torch.Tensor]
    order: Optional[torch.Tensor]
    bias: Optional[torch.Tensor]

    def __init__(self, form: Form, codes: torch.Tensor, scales: torch.Tensor | None = None,
                 zeros: torch.Tensor | None = None, order: torch.Tensor | None = None,
                 bias: torch.Tensor | None = None, *, out_features: int, folder: str | pathlib.Path,
                 rows: tuple[str, ...] = ROWS) -> None:
        super().__init__()
        self.form, self.folder, self.rows = form, str(folder), tuple(rows)
        self.in_features, self.out_features = codes.shape[0], out_features
        for name, given in zip(_STORED, (codes, scales, zeros, order, bias)):
            self.register_buffer(name, None if given is None else given.detach())
        self._served: LayerKernels | None = None

    def stored(self) -> tuple[torch.Tensor | None, ...]:
        return tuple(self._buffers[name] for name in _STORED)

    def weight_values(self) -> torch.Tensor:
        """The weight [out_features, in_features] that the layer multiplies by, in f32."""
        values = dequantize(self.form, self.codes, self.scales, self.zeros)
        if self.order is not None:
            values = values[self.order.argsort()]
        return values.t().contiguous()

    @property
    def weight(self) -> torch.Tensor:
        """weight_values() in the bias's type, for code that reads a layer's weight."""
        return self.weight_values() if self.bias is None else self.weight_values().to(self.bias.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        stored = self.stored()
        if torch.is_grad_enabled() and x.requires_grad:
            return plain(x, self.form, *stored)
        if torch.compiler.is_compiling():
            return torch.ops.tilewright.quantized_linear(x, *stored, self.form.keys(self.scales),
                                                         self.out_features, self.folder, list(self.rows))
        served = self._served
        if served is None or not served.fits(x, stored):
            served = self._served = LayerKernels(x, self.form, stored, self.out_features, self.folder, self.rows)
        return served.run(x, stored)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, weight={self.form.label()}, "
                f"bias={self.bias is not None}")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_served": None}  # kernels are of one process

    def __deepcopy__(self, memo: dict[int, Any]) -> QuantizedLinear:
        tensors = [None if tensor is None else tensor.clone() for tensor in self.stored()]
        copied = QuantizedLinear(self.form, *tensors, out_features=self.out_features,  # type: ignore[arg-type]
                                 folder=self.folder, rows=self.rows)
        copied.training = self.training
        memo[id(self)] = copied
        return copied


def plain(x: torch.Tensor, form: Form, codes: torch.Tensor, scales: torch.Tensor | None,
          zeros: torch.Tensor | None, order: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    """The product by PyTorch, with the weight dequantized for it alone."""
    weight = dequantize(form, codes, scales, zeros)
    given = x.float() if order is None else x.float().index_select(-1, order)
    if form.activations:
        given = rounded_to_bytes(given)
    return torch.nn.functional.linear(given, weight.t(), None if bias is None else bias.float()).to(x.dtype)


def rounded_to_bytes(rows: torch.Tensor) -> torch.Tensor:
    """Rows as a kernel with `a.dtype=i8` reads them: integers within 127 times a scale of the row."""
    scale = rows.abs().amax(-1, keepdim=True) / 127
    codes = torch.where(scale > 0, rows / scale, 0).round().clamp(-127, 127)
    return codes * scale


# Layers of programs that have no modules any more, by the memory of their codes.
_of_operators: dict[tuple[Any, ...], LayerKernels] = {}


def _run(x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor | None, zeros: torch.Tensor | None,
         order: torch.Tensor | None, bias: torch.Tensor | None, keys: str, columns: int, folder: str,
         rows: list[str]) -> torch.Tensor:
    stored = (codes, scales, zeros, order, bias)
    key = (codes.data_ptr(), x.dtype, keys, columns, folder, *rows)
    served = _of_operators.get(key)
    if served is None or not served.fits(x, stored):
        served = _of_operators[key] = LayerKernels(x, Form.of_keys(keys), stored, columns, folder, tuple(rows))
    return served.run(x, stored)


def _fake(x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor | None, zeros: torch.Tensor | None,
          order: torch.Tensor | None, bias: torch.Tensor | None, keys: str, columns: int, folder: str,
          rows: list[str]) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], columns))


_operator = torch.library.custom_op(
    "tilewright::quantized_linear", _run, mutates_args=(),
    schema="(Tensor x, Tensor codes, Tensor? scales, Tensor? zeros, Tensor? order, Tensor? bias, str keys, "
           "int columns, str folder, str[] rows) -> Tensor")
_operator.register_fake(_fake)


def forget_operators() -> None:
    """Programs look for kernels again."""
    _of_operators.clear()
