"""Kernels in PyTorch. Needs PyTorch 2.4; torch.compile's backend 2.6.

    model = torch.compile(model, backend="tilewright")         # whole graphs, where that is faster
    print(tilewright.torch.report())                           # what was taken, what not, and why

    layer = tilewright.torch.operator("mine::layer", kernel, weights=weights, pool=pool)
    y = layer(x)                                               # one kernel as a custom operator

docs/pytorch.md says more.
"""
from ._model import model_operator
from ._operator import dtype_of, empty, operator
from ._report import Row, Rows, report

__all__ = ["Options", "Row", "Rows", "backend", "dtype_of", "empty", "model_operator", "operator", "report",
           "tune"]


def __getattr__(name: str) -> object:
    # PyTorch's partitioner and dynamo take a second to import, which operators do without.
    if name in ("Options", "backend", "tune"):
        from . import _backend
        return getattr(_backend, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
