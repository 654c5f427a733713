"""Tilewright: tune kernels for this machine, keep them in one file, and run them on your arrays.

    import numpy, tilewright

    spec = "matmul:m=1..64,n=4096,k=4096"
    tilewright.tune(spec, db="kernels.db", threads=2)          # once, with a C compiler
    kernel = tilewright.Library("kernels.db").prepare(spec, threads=2)[spec]
    weights = kernel.pack({"B": b})                            # once a layer
    c = kernel(a, weights=weights)                             # each time

A whole ONNX model: compile("model.onnx", "model.tw") once, then Model("model.tw")(x). One of your own
specs: Graph.

Arrays are NumPy's, PyTorch's, or any that speak DLPack; one that is compact and aligned is not copied.
Errors are subclasses of tilewright.Error. docs/python.md says more.
"""
from ._arrays import CopyWarning, empty
from ._core import Kernel, Library, Model, Pool, Prepared, Weights, __version__
from ._dtypes import dtype_name
from ._errors import (AllocationError, ArgumentError, DatabaseError, DeviceError, Error, FileError,
                      InternalError, KernelError, MissError, SpecError, TensorError, TuneError,
                      WeightsError)
from ._graph import Graph, Value
from ._quantize import Quantized, quantize
from ._trials import Trials, trials
from ._tune import Results, compile, tune
from ._types import Dim, Extent, Node, Operand, Port, Report, StoredLayer, StoredTensor
from ._weights import StoredWeight, WeightFile, open_weights

__all__ = [
    "AllocationError", "ArgumentError", "CopyWarning", "DatabaseError", "DeviceError", "Dim", "Error",
    "Extent", "FileError", "Graph", "InternalError", "Kernel", "KernelError", "Library", "MissError", "Model",
    "Node", "Operand", "Pool", "Port", "Prepared", "Quantized", "Report", "Results", "SpecError",
    "StoredLayer", "StoredTensor", "StoredWeight", "TensorError", "Trials", "TuneError", "Value", "WeightFile",
    "Weights", "WeightsError", "__version__", "compile", "dtype_name", "empty", "open_weights", "quantize",
    "trials", "tune",
]
