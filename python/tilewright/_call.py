"""Launching a kernel, and running a model, as one calls a function."""
from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Sequence

from ._arrays import empty
from ._errors import ArgumentError, TensorError

if TYPE_CHECKING:
    from ._core import Kernel, Model, Pool, Weights
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


def _new_output(shape: Sequence[Any], dtype: str, like: Any) -> Any:
    """An array for an output: PyTorch's where `like`, the first input, is one."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        from .torch import empty as torch_empty
        return torch_empty(shape, dtype, like.device)
    return empty(shape, dtype)


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
        out = _new_output(output_shape(kernel, shapes), output.dtype, inputs[0] if inputs else None)
    tensors[output.name] = out
    kernel.launch(tensors, weights=weights, pool=pool, workspace=workspace, stream=stream)
    return out


def call_model(model: Model, *inputs: Any, pool: Pool | None = None, profile: bool = False,
               **named: Any) -> Any:
    """Model.__call__."""
    ports = model.inputs
    given = dict(zip((port.name for port in ports), inputs))
    names = ", ".join(port.name for port in ports)
    if len(inputs) > len(ports):
        raise ArgumentError(f"{len(inputs)} inputs; the model takes {names}")
    for name, array in named.items():
        if name in given:
            raise ArgumentError(f"input '{name}' is given twice")
        given[name] = array
    unknown = sorted(given.keys() - {port.name for port in ports})
    if unknown:
        raise ArgumentError(f"'{unknown[0]}' is no input of the model; it takes {names}")
    missing = [port.name for port in ports if port.name not in given]
    if missing:
        raise ArgumentError(f"no array for input '{missing[0]}'; the model takes {names}")
    arrays = [given[port.name] for port in ports]
    ports = model.outputs
    shapes = [port.shape for port in ports]
    if any(port.shape != port.least for port in ports):
        shapes = model.output_shapes(arrays)
    outputs = [_new_output(shape, port.dtype, arrays[0] if arrays else None)
               for port, shape in zip(ports, shapes)]
    found = model.run(arrays, outputs, pool=pool, profile=profile)
    outputs = [output if tuple(output.shape) == shape
               else output.reshape(-1)[:math.prod(shape)].reshape(shape)
               for output, shape in zip(outputs, found)]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
