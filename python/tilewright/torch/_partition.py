"""Regions of a graph that has operators without a kernel: the largest convex ones around products."""
from __future__ import annotations

import re
from collections import Counter
from typing import Any, Callable, Sequence

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ._capture import Capture, Left, Range, add_weight, finish, heavy_nodes, target_name
from ._region import export_program
from ._rest import RegionModule
from ._stored import is_layer, outside

# Operators of ATen of which regions are made, beside quantized layers: products, norms, and functions and moves
# of elements around them. Any other one, such as a custom operator, stays with PyTorch.
_TAKEN = frozenset("""
    linear mm bmm addmm baddbmm matmul conv1d conv2d conv3d convolution scaled_dot_product_attention
    layer_norm native_layer_norm batch_norm _native_batch_norm_legit_no_training group_norm rms_norm
    softmax _softmax log_softmax mean sum amax amin max_pool2d avg_pool2d adaptive_avg_pool2d
    add sub mul div neg abs exp log sqrt rsqrt pow reciprocal tanh sigmoid erf relu relu6 gelu silu hardswish
    hardsigmoid hardtanh leaky_relu elu softplus clamp clamp_min clamp_max where maximum minimum sin cos
    view reshape _unsafe_view flatten unflatten permute transpose t unsqueeze squeeze expand cat slice select
    split split_with_sizes chunk unbind contiguous clone dropout _to_copy to embedding constant_pad_nd pad
    full ones zeros arange tril triu eq ne lt le gt ge logical_and logical_or logical_not
    bitwise_and bitwise_or bitwise_not
""".split())


def operator_name(node: fx.Node) -> str:
    """The name without namespace and overload: add of "aten.add.Tensor"."""
    found = re.fullmatch(r"aten\.(\w+)\.\w+", str(node.target))
    return found[1] if found else str(node.target)


def operators(graph: fx.Graph) -> dict[str, int]:
    """How often each operator stands in a graph."""
    names = (operator_name(node) if isinstance(node.target, torch._ops.OpOverload)
             else target_name(node).rpartition(".")[2] for node in graph.nodes
             if node.op in ("call_function", "call_method") and "getitem" not in str(node.target))
    return dict(Counter(names))


class _Support(OperatorSupportBase):
    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        if node.op == "get_attr":
            return True
        if node.op != "call_function" or isinstance(node.meta.get("val"), (torch.SymInt, int)):
            return False
        if "getitem" in str(node.target):
            return self.is_node_supported(submodules, node.args[0])
        if is_layer(node):
            return not outside(node)
        return str(node.target).startswith("aten.") and operator_name(node) in _TAKEN


class _Recorder(fx.Interpreter):
    """Keeps the inputs of each submodule, for the export of its region."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.inputs: dict[str, Sequence[torch.Tensor]] = {}

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        self.inputs[str(target)] = args
        return super().call_module(target, args, kwargs)


def _weights_inside(parent: fx.GraphModule, call: fx.Node) -> None:
    """Weights that a submodule takes as arguments become its attributes."""
    sub = parent.get_submodule(str(call.target))
    places = [node for node in sub.graph.nodes if node.op == "placeholder"]
    kept = []
    for place, given in zip(places, call.args):
        if given.op != "get_attr":
            kept.append(given)
            continue
        name = str(given.target).replace(".", "_")
        add_weight(sub, name, fx.graph_module._get_attr(parent, given.target))
        with sub.graph.inserting_before(place):
            attribute = sub.graph.get_attr(name)
        attribute.meta.update(given.meta)
        place.replace_all_uses_with(attribute)
        sub.graph.erase_node(place)
    call.args = tuple(kept)
    for node in list(sub.graph.nodes):
        if node.op == "get_attr" and "." in str(node.target):
            name = str(node.target).replace(".", "_")
            add_weight(sub, name, fx.graph_module._get_attr(sub, node.target))
            node.target = name
    sub.graph.eliminate_dead_code()
    sub.recompile()


def _capture_of(sub: fx.GraphModule, ranges: dict[str, Range]) -> Capture:
    """A submodule of the partitioner as the capture of a region; Left where it takes more than tensors and
    their sizes."""
    graph = fx.Graph()
    outputs = graph.graph_copy(sub.graph, env := {})
    graph.output(outputs if isinstance(outputs, (tuple, list)) else (outputs,))
    taken = Capture(sub, [], [], [], {}, [])
    symbols: dict[str, tuple[fx.Node, int]] = {}
    arguments = graph.find_nodes(op="placeholder")
    for place, node in enumerate(arguments):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        axes = {axis: str(size) for axis, size in enumerate(value.shape) if isinstance(size, torch.SymInt)}
        for axis, name in axes.items():
            if name not in ranges:
                raise Left(f"a size is {name}; expected a number or one symbol")
            taken.ranges[name] = ranges[name]
            symbols.setdefault(name, (node, axis))
        taken.inputs.append(place)
        taken.dims.append(axes)
        taken.shapes.append((str(value.dtype), *(str(size) for size in value.shape)))
    for place, node in enumerate(arguments):
        if place in taken.inputs:
            continue
        if str(node.meta.get("val")) not in symbols:
            raise Left(f"it takes {node.name}, a {type(node.meta.get('val')).__name__}; expected tensors and "
                       "their sizes")
        with graph.inserting_after(arguments[-1]):
            size = graph.call_function(torch.ops.aten.sym_size.int, symbols[str(node.meta["val"])])
        node.replace_all_uses_with(size)
        graph.erase_node(node)
    finish(taken, sub, graph)
    return taken


def partition(taken: Capture, inputs: Sequence[torch.Tensor],
              make: Callable[[str, fx.Graph, Callable[[], Capture], Sequence[Any]],
                             tuple[Capture, Callable[..., Any]] | None]) -> fx.GraphModule:
    """The graph with submodules in the place of regions. `make` gives, for the name of a region, its graph,
    a function that captures it, and its arguments, the capture with what runs it, or None where it stays
    with PyTorch. Left where no region remains."""
    program = export_program(taken, inputs)
    parent = program.module(check_guards=False)
    parent = fx.GraphModule(parent, parent.graph)
    ranges = {str(symbol): Range(int(bounds.lower), int(bounds.upper))
              for symbol, bounds in program.range_constraints.items()}
    parts = CapabilityBasedPartitioner(parent, _Support(), allows_single_node_partition=True)
    fused = parts.fuse_partitions(parts.propose_partitions(), prefix="region_")
    calls = [node for node in fused.graph.nodes
             if node.op == "call_module" and str(node.target).startswith("region_")]
    for call in calls:
        _weights_inside(fused, call)
    fused.recompile()
    recorder = _Recorder(fused)
    with torch.no_grad():
        recorder.run(*inputs)
    count = 0
    for call in calls:
        sub = fused.get_submodule(str(call.target))
        if not heavy_nodes(sub.graph):
            continue
        made = make(str(call.target), sub.graph, lambda sub=sub: _capture_of(sub, ranges),
                    recorder.inputs[str(call.target)])
        if made is not None:
            fused.set_submodule(str(call.target), RegionModule(*made, sub))
            count += 1
    if count == 0:
        raise Left("no region remains")
    return fused
