"""Kernels in PyTorch. Needs PyTorch 2.4; torch.compile's backend 2.6.

    model = torch.compile(model, backend="tilewright")         # whole graphs, where that is faster
    print(tilewright.torch.report())                           # what was taken, what not, and why

    tilewright.torch.quantize_(model, "u4", group=128)         # weights of 4 bits, in place
    tilewright.torch.tune_layers(model, "5m")

    layer = tilewright.torch.operator("mine::layer", kernel, weights=weights, pool=pool)
    y = layer(x)                                               # one kernel as a custom operator

docs/pytorch.md says more.
"""
from ._model import model_operator
from ._operator import dtype_of, empty, operator
from ._report import Row, Rows, report

# PyTorch's partitioner and dynamo take a second to import, which operators do without.
_LATER = {"Options": "_backend", "backend": "_backend", "tune": "_backend", "QuantizedLinear": "_linear",
          "quantize_": "_quantize", "tune_layers": "_quantize", "accuracy": "_quantize", "Accuracy": "_quantize",
          "Off": "_quantize", "load_quantized_": "_load"}
__all__ = ["Accuracy", "Off", "Options", "QuantizedLinear", "Row", "Rows", "accuracy", "backend", "dtype_of",
           "empty", "load_quantized_", "model_operator", "operator", "quantize_", "report", "tune",
           "tune_layers"]


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
