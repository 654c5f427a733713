"""Quantized layers inside a region: which have a place there, and their node in its ONNX file,
`tilewright.QuantizedLinear` (models/onnx/whole/group_weights.cc)."""
from __future__ import annotations

from typing import Any, Callable, Dict, Sequence

import torch
from torch import fx

_NAME = "tilewright.quantized_linear"
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
# Arguments of the operator that the node has; the folder of its kernels and their numbers of rows follow.
_TAKEN = 8


def is_layer(node: fx.Node) -> bool:
    """Whether the node is a QuantizedLinear, in a graph of dynamo or in a program of torch.export."""
    return node.op == "call_function" and str(node.target) in (_NAME, f"{_NAME}.default")


def arguments_of(node: fx.Node) -> tuple[Any, ...]:
    """Input, stored tensors, keys and columns: what the layer computes."""
    return tuple(node.args[:_TAKEN])


def byte_tolerance(graph: fx.Graph, tolerance: float) -> float:
    """`tolerance`, or a step of bytes where a layer of the graph rounds its input to these: a sum in another
    order makes a neighbour of a code."""
    rounds = any(is_layer(node) and "a.dtype=" in str(node.args[6]) for node in graph.nodes)
    return max(tolerance, 1 / 127) if rounds else tolerance


def outside(node: fx.Node) -> str:
    """Why a layer of a program stays the operator that it is, or "" where a region takes it."""
    x, codes, *_ = (argument.meta.get("val") if isinstance(argument, fx.Node) else argument
                    for argument in node.args)
    kind = getattr(x, "dtype", None)
    if kind not in _TYPES:
        return f"the quantized layer {node.name} has an input of {kind}; expected float32, bfloat16 or float16"
    if "w.dtype=" not in str(node.args[6]) and codes.dtype != kind:
        return (f"the quantized layer {node.name} has a weight of {codes.dtype} and an input of {kind}; expected "
                "one type")
    return ""


def _register_node() -> None:
    """Tells ONNX the node's schema, by which the exporter makes it."""
    import onnx
    if onnx.defs.has("QuantizedLinear", 1, "tilewright"):
        return
    schema = onnx.defs.OpSchema
    optional = schema.FormalParameterOption.Optional
    types = [f"tensor({name})" for name in ("float", "bfloat16", "float16", "uint8", "int8", "int16")]
    inputs = [schema.FormalParameter("A", "A"), schema.FormalParameter("B", "B"),
              *(schema.FormalParameter(name, name, param_option=optional)
                for name in ("scale", "zero", "bias"))]
    onnx.defs.register_schema(schema(
        "QuantizedLinear", "tilewright", 1, "docs/graphs.md", inputs=inputs,
        outputs=[schema.FormalParameter("C", "A")],
        type_constraints=[(given.name, types, "") for given in inputs],
        attributes=[schema.Attribute("keys", schema.AttrType.STRING, required=True),
                    schema.Attribute("K", schema.AttrType.INT, required=True),
                    schema.Attribute("N", schema.AttrType.INT, required=True)]))


def translation() -> Dict[Callable[..., Any], Callable[..., Any]]:
    """The `custom_translation_table` of torch.onnx: the node of a layer."""
    from onnxscript import opset18
    from onnxscript.values import Opset
    _register_node()
    own = Opset("tilewright", 1)

    def quantized_linear(x, codes, scales=None, zeros=None, order=None, bias=None,  # type: ignore[no-untyped-def]
                         keys: str = "", columns: int = 0, folder: str = "", rows: Sequence[str] = ()):
        given = x if order is None else opset18.Gather(x, order, axis=-1)
        if bias is not None and bias.dtype != x.dtype:
            bias = opset18.CastLike(bias, x)
        return own.QuantizedLinear(given, codes, scales, zeros, bias, keys=keys, K=int(codes.shape[0]), N=columns)

    return {torch.ops.tilewright.quantized_linear.default: quantized_linear}
