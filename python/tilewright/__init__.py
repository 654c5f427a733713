"""Tilewright: tune kernels for this machine, keep them in one file, and run them on your arrays.

    import numpy, tilewright

    spec = "matmul:m=1..64,n=4096,k=4096"
    tilewright.tune(spec, db="kernels.db", threads=2)          # once, with a C compiler
    kernel = tilewright.Library("kernels.db").prepare(spec, threads=2)[spec]
    weights = kernel.pack({"B": b})                            # once a layer
    c = kernel(a, weights=weights)                             # each time

Arrays are NumPy's, PyTorch's, or any that speak DLPack; none is copied. Errors are subclasses of
tilewright.Error. docs/python.md says more.
"""
from ._arrays import empty
from ._core import Kernel, Library, Pool, Prepared, Weights, __version__
from ._errors import (AllocationError, ArgumentError, DatabaseError, DeviceError, Error,
                      InternalError, KernelError, MissError, SpecError, TensorError, TuneError,
                      WeightsError)
from ._tune import tune
from ._types import Dim, Extent, Operand, Report

__all__ = [
    "AllocationError", "ArgumentError", "DatabaseError", "DeviceError", "Dim", "Error", "Extent",
    "InternalError", "Kernel", "KernelError", "Library", "MissError", "Operand", "Pool", "Prepared",
    "Report", "SpecError", "TensorError", "TuneError", "Weights", "WeightsError", "__version__",
    "empty", "tune",
]
