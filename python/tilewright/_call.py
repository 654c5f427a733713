"""Launching a kernel as one calls a function."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Sequence

from ._arrays import empty
from ._errors import ArgumentError, TensorError

if TYPE_CHECKING:
    from ._core import Kernel, Pool, Weights
    from ._types import Operand


def inputs_of(kernel: Kernel, weights: Weights | None) -> list[Operand]:
    """The operands that a call takes: neither outputs nor held by the weights."""
    held = set() if weights is None else set(weights.plain)
    return [o for o in kernel.operands
            if o.role != "output" and o.packed != "yes" and o.name not in held]


def output_of(kernel: Kernel) -> Operand:
    outputs = [o for o in kernel.operands if o.role == "output"]
    if len(outputs) != 1:
        raise ArgumentError(f"{kernel.spec} has {len(outputs)} outputs; launch() takes them")
    return outputs[0]


def output_shape(kernel: Kernel, shapes: dict[str, Sequence[Any]]) -> list[Any]:
    """The output's shape where operands have these; sizes may be symbols that compute."""
    sizes = []
    for dim in kernel.dims:
        shape = shapes.get(dim.operand)
        if shape is None:
            raise ArgumentError(f"the size of {dim.name} is read off operand '{dim.operand}', which "
                                f"is not among the inputs; give the output")
        if dim.axis >= len(shape):
            raise TensorError(f"operand '{dim.operand}': {len(shape)} dimensions; expected more than "
                              f"{dim.axis}")
        sizes.append(shape[dim.axis])
    return [extent.at(sizes) for extent in output_of(kernel).extents]


def _shape(name: str, given: Any) -> tuple[Any, ...]:
    try:
        return tuple(given.shape)
    except AttributeError:
        raise TensorError(f"operand '{name}': got {type(given).__name__}; expected an array with a "
                          f"shape") from None


def call(kernel: Kernel, *inputs: Any, weights: Weights | None = None, out: Any = None,
         pool: Pool | None = None, workspace: Any = None, stream: Any = None) -> Any:
    """Kernel.__call__."""
    taken = inputs_of(kernel, weights)
    if len(inputs) != len(taken):
        names = ", ".join(o.name for o in taken) or "nothing"
        raise ArgumentError(f"{len(inputs)} inputs; {kernel.spec} takes {names}"
                            + (" besides its weights" if weights is not None else ""))
    tensors = {o.name: given for o, given in zip(taken, inputs)}
    output = output_of(kernel)
    if out is None:
        shapes = {name: _shape(name, given) for name, given in tensors.items()}
        shape = output_shape(kernel, shapes)
        torch = sys.modules.get("torch")
        if torch is not None and inputs and isinstance(inputs[0], torch.Tensor):
            from .torch import empty as torch_empty
            out = torch_empty(shape, output.dtype, inputs[0].device)
        else:
            out = empty(shape, output.dtype)
    tensors[output.name] = out
    kernel.launch(tensors, weights=weights, pool=pool, workspace=workspace, stream=stream)
    return out
