"""Kernels as operators of PyTorch, for eager programs and for torch.compile. Needs PyTorch 2.4.

    layer = tilewright.torch.operator("mine::layer", kernel, weights=weights, pool=pool)
    y = layer(x)
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence

import torch

from .._call import call, inputs_of, output_of, output_shape
from .._errors import ArgumentError

if TYPE_CHECKING:
    from .._core import Kernel, Pool, Weights

# Names of specs that torch has others for; the rest are spelled out.
_TYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
}


def dtype_of(name: str) -> torch.dtype:
    """PyTorch's type for a name as `Operand.dtype` has it; ArgumentError where it has none."""
    found = getattr(torch, _TYPES.get(name, ""), None)
    if found is None:
        raise ArgumentError(f"PyTorch {torch.__version__} has no type for {name}")
    return found


def empty(shape: Sequence[Any], dtype: str, device: torch.device | str = "cpu") -> torch.Tensor:
    """A tensor with undefined values, aligned as kernels want it, which PyTorch's allocator does."""
    return torch.empty(list(shape), dtype=dtype_of(dtype), device=device)


def _ready(tensor: torch.Tensor, alignment: int) -> torch.Tensor:
    """The tensor as a kernel takes it; copied only where it is a view with gaps or an odd start."""
    tensor = tensor.detach().contiguous()
    if tensor.data_ptr() % alignment != 0:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    return tensor


def operator(name: str, kernel: Kernel, *, weights: Weights | None = None,
             pool: Pool | None = None) -> Callable[..., torch.Tensor]:
    """Registers the kernel as the custom operator `name` ("namespace::operator") and returns it.

    It takes those operands, in order, that neither `weights` holds nor are outputs, and returns the
    output. Its fake implementation tells torch.compile the output's shape, also where sizes are
    symbols. Inputs that are no compact, aligned tensors are copied. There is no derivative.
    """
    taken = inputs_of(kernel, weights)
    output = output_of(kernel)
    if not taken:
        raise ArgumentError(f"{kernel.spec} takes no inputs besides its weights")
    dtype = dtype_of(output.dtype)

    def run(*inputs: torch.Tensor) -> torch.Tensor:
        ready = [_ready(given, o.alignment) for given, o in zip(inputs, taken)]
        stream = workspace = None
        device = ready[0].device
        if device.type == "cuda":
            stream = torch.cuda.current_stream(device).cuda_stream
            if (size := kernel.workspace_bytes()) > 0:
                workspace = torch.empty(size, dtype=torch.uint8, device=device)
        return call(kernel, *ready, weights=weights, pool=pool, workspace=workspace, stream=stream)

    def fake(*inputs: torch.Tensor) -> torch.Tensor:
        shapes = {o.name: given.shape for given, o in zip(inputs, taken)}
        return inputs[0].new_empty(output_shape(kernel, shapes), dtype=dtype)

    parameters = ", ".join("Tensor " + o.name.replace(".", "_") for o in taken)
    made = torch.library.custom_op(name, run, mutates_args=(),
                                   schema=f"({parameters}) -> Tensor")
    made.register_fake(fake)
    return made
