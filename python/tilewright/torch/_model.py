"""A model file as an operator, for programs of torch.export and packages of AOTInductor."""
from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Tuple

import torch

from .._core import Model
from .._errors import ArgumentError
from ._operator import dtype_of
from ._region import pool_of

_models: Dict[Tuple[str, int], Model] = {}


def _opened(path: str, threads: int) -> Model:
    if (path, threads) not in _models:
        _models[path, threads] = Model(path, threads=threads)
    return _models[path, threads]


def _run(inputs: List[torch.Tensor], path: str, threads: int) -> List[torch.Tensor]:
    model = _opened(path, threads)
    given = [tensor.detach().contiguous() for tensor in inputs]
    outputs = [torch.empty(shape, dtype=dtype_of(port.dtype))
               for shape, port in zip(model.output_shapes(given), model.outputs)]
    model.run(given, outputs, pool=pool_of(threads))
    return outputs


def _fake(inputs: List[torch.Tensor], path: str, threads: int) -> List[torch.Tensor]:
    return [torch.empty(port.shape, dtype=dtype_of(port.dtype), device="cpu")
            for port in _opened(path, threads).outputs]


def model_operator(path: str | os.PathLike[str], threads: int = 1) -> Callable[..., Any]:
    """A model file of fixed sizes as a function of tensors: the operator `tilewright::model`, which
    torch.export keeps and AOTInductor calls.

    It takes the file's inputs in their order and returns its output, or a tuple of them.
    examples/torch_cpp has the same operator for processes without Python. `path` becomes part of the
    program. Raises ArgumentError for a file with ranges of sizes.
    """
    path = os.path.abspath(path)
    for port in _opened(path, threads).outputs:
        if port.shape != port.least:
            raise ArgumentError(f"{path}: output '{port.name}' has a range of sizes; expected a file of "
                                "fixed ones")
    if not hasattr(torch.ops.tilewright, "model"):
        made = torch.library.custom_op("tilewright::model", _run, mutates_args=(),
                                       schema="(Tensor[] inputs, str path, int threads) -> Tensor[]")
        made.register_fake(_fake)

    def call(*inputs: torch.Tensor) -> Any:
        outputs = torch.ops.tilewright.model(list(inputs), path, threads)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return call
