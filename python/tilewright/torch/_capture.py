"""A graph of torch.compile as a module of its tensors alone, and the key under which its file is found."""
from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Sequence

import torch
from torch import fx

from ._attention import respell
from ._stored import arguments_of, is_layer

# A graph without any of them has nothing to gain.
_HEAVY = re.compile(r"linear|matmul|(^|[._])(mm|bmm|addmm|baddbmm|einsum)\b|conv\d?d?\b|convolution|"
                    r"attention|(layer|batch|group|rms)_norm")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class Left(Exception):
    """Why a graph or a region stays with PyTorch: one line."""


class Unavailable(Left):
    """Left for lack of a file or of what makes one; regions of other sizes would lack it, too."""


@dataclass
class Range:
    """The sizes that a dynamic dimension may have."""
    least: int
    largest: int


@dataclass
class Capture:
    """`module` takes tensors and returns a tuple of tensors; its weights are its attributes.

    `inputs` and `statics` are the positions of both among the arguments of the graph. `dims` has, for each
    input, the symbols of its dynamic axes; `ranges` the sizes of each symbol.
    """
    module: fx.GraphModule
    inputs: list[int]
    statics: list[int]
    dims: list[dict[int, str]]
    ranges: dict[str, Range]
    shapes: list[tuple[str, ...]]
    weights: list[torch.Tensor] = field(default_factory=list)


def target_name(node: fx.Node) -> str:
    """The operator of a node by a name that is the same in each process."""
    if isinstance(node.target, str):
        return node.target
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    module = getattr(node.target, "__module__", None) or ""
    return f"{module}.{getattr(node.target, '__qualname__', type(node.target).__name__)}"


def heavy_nodes(graph: fx.Graph) -> list[fx.Node]:
    """Products, convolutions, attention and norms."""
    return [node for node in graph.nodes
            if node.op in ("call_function", "call_method") and _HEAVY.search(target_name(node))]


def is_static(node: fx.Node) -> bool:
    """Whether dynamo took this argument from a module: a parameter or a buffer."""
    return "_dynamo_static_input_type" in node.meta.get("tensor_dict", {})


def _symbols(fake: torch.Tensor, largest: int | None, ranges: dict[str, Range]) -> dict[int, str]:
    """The dynamic axes of a tensor; Left where a size is more than a symbol."""
    found = {}
    for axis, size in enumerate(fake.shape):
        if not isinstance(size, torch.SymInt):
            continue
        name = str(size.node.expr)
        if not name.isidentifier():
            raise Left(f"a size is {name}; expected a number or one symbol")
        bounds = size.node.shape_env.var_to_range.get(size.node.expr)
        hint = size.node.hint or 1
        most = largest or 1 << 20
        if bounds is not None and bounds.upper < most:
            most = int(bounds.upper)
        elif largest is None:
            most = max(64, 1 << (4 * hint - 1).bit_length())
        least = max(1, int(bounds.lower)) if bounds is not None else 1
        ranges[name] = Range(least, max(most, hint))
        found[axis] = name
    return found


def capture(gm: fx.GraphModule, arguments: Sequence[Any], largest: int | None) -> Capture:
    """Makes attributes of parameters and buffers, and sizes of their tensors of symbols."""
    nodes = [node for node in gm.graph.nodes if node.op == "placeholder"]
    graph, root, env = fx.Graph(), torch.nn.Module(), {}
    taken = Capture(None, [], [], [], {}, [])  # type: ignore[arg-type]
    symbols: dict[str, tuple[fx.Node, int]] = {}
    for position, (node, value) in enumerate(zip(nodes, arguments)):
        if not isinstance(value, torch.Tensor) or is_static(node):
            continue
        if value.device.type != "cpu" or value.layout != torch.strided:
            raise Left(f"input {node.name} is {value.device.type}, {value.layout}; expected a dense tensor "
                       "of the CPU")
        env[node] = graph.placeholder(node.name)
        fake = node.meta.get("example_value", value)
        dims = _symbols(fake, largest, taken.ranges)
        for axis, name in dims.items():
            symbols.setdefault(name, (env[node], axis))
        taken.inputs.append(position)
        taken.dims.append(dims)
        taken.shapes.append((str(value.dtype), *(dims.get(axis, str(size))
                                                 for axis, size in enumerate(value.shape))))
    for position, (node, value) in enumerate(zip(nodes, arguments)):
        if node in env:
            continue
        if isinstance(value, torch.Tensor):
            add_weight(root, node.name, value)
            env[node] = graph.get_attr(node.name)
            taken.statics.append(position)
        elif isinstance(value, torch.SymInt) and str(value.node.expr) in symbols:
            env[node] = graph.call_function(torch.ops.aten.sym_size.int, symbols[str(value.node.expr)])
        else:
            raise Left(f"argument {node.name} is a {type(value).__name__}; expected a tensor or its size")
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            add_weight(root, str(node.target).replace(".", "_"), fx.graph_module._get_attr(gm, node.target))
            env[node] = graph.get_attr(str(node.target).replace(".", "_"))
        elif node.op == "call_module":
            raise Left(f"{node.name} calls a module; expected a graph of functions")
        elif node.op != "placeholder":
            env[node] = graph.node_copy(node, lambda before: env[before])
            respell(env[node])
    finish(taken, root, graph)
    return taken


def finish(taken: Capture, root: torch.nn.Module, graph: fx.Graph) -> None:
    """Makes the module and lists its weights in the order of the graph."""
    taken.module = fx.GraphModule(root, graph)
    names = dict.fromkeys(str(node.target) for node in graph.nodes if node.op == "get_attr")
    taken.weights = [getattr(root, name) for name in names]


def add_weight(root: torch.nn.Module, name: str, value: Any) -> None:
    """An attribute that shares the tensor's memory, without its gradient."""
    if not isinstance(value, torch.Tensor):
        raise Left(f"attribute {name} is a {type(value).__name__}; expected a tensor")
    if value.device.type != "cpu" or value.layout != torch.strided:
        raise Left(f"{name} is {value.device.type}, {value.layout}; expected a dense tensor of the CPU")
    root.register_buffer(name, value.detach())


class _Text(str):
    __repr__ = str.__str__


def graph_key(taken: Capture) -> str:
    """A hash of what is computed: operators, numbers, types and shapes, and ranges of sizes."""
    lines, numbers = [torch.__version__], {}
    for shape in taken.shapes:
        lines.append("input " + ",".join(shape))
    for name, sizes in sorted(taken.ranges.items()):
        lines.append(f"{name}={sizes.least}..{sizes.largest}")
    for node in taken.module.graph.nodes:
        numbers[node] = _Text(f"%{len(numbers)}")
        if node.op == "get_attr":
            weight = getattr(taken.module, str(node.target))
            lines.append(f"weight {weight.dtype} {tuple(weight.shape)}")
        elif node.op != "placeholder":
            given = arguments_of(node) if is_layer(node) else node.args
            arguments = fx.node.map_arg((given, dict(node.kwargs)), numbers.__getitem__)
            lines.append(_ADDRESS.sub("", f"{node.op} {target_name(node)} {arguments!r}"))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def weights_key(taken: Capture) -> str:
    """A hash of all weights: a file that has packed others is another file."""
    total = hashlib.sha256()
    for weight in taken.weights:
        flat = weight.contiguous().reshape(-1)
        if flat.numel():
            total.update(flat.view(torch.uint8).numpy())
    return total.hexdigest()
