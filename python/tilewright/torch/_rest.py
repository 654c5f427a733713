"""The operators between regions, compiled by Inductor around them: a region is the operator
`tilewright::region` there."""
from __future__ import annotations

import itertools
import operator
import weakref
from typing import Any, Callable, Sequence

import torch
from torch import fx

from ._capture import Capture

_numbers = itertools.count()
_regions: weakref.WeakValueDictionary[int, RegionModule] = weakref.WeakValueDictionary()


class RegionModule(torch.nn.Module):
    """A submodule that a file runs, in the place of `sub`."""

    def __init__(self, taken: Capture, run: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]],
                 sub: fx.GraphModule) -> None:
        super().__init__()
        made = sub.graph.find_nodes(op="output")[0].args[0]
        self.single = not isinstance(made, (tuple, list))
        values = [node.meta["val"] for node in ([made] if self.single else made)]
        self.shapes = [(tuple(value.shape), value.dtype) for value in values]
        self.inputs, self.run, self.number = taken.inputs, run, next(_numbers)
        self.fixed = not taken.ranges
        _regions[self.number] = self

    def forward(self, *arguments: Any) -> Any:
        outputs = self.run([arguments[place] for place in self.inputs])
        return outputs[0] if self.single else tuple(outputs)


def _run(number: int, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return _regions[number].run(inputs)


def _fake(number: int, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [inputs[0].new_empty(shape, dtype=dtype) for shape, dtype in _regions[number].shapes]


_operator = torch.library.custom_op("tilewright::region", _run, mutates_args=(),
                                    schema="(int number, Tensor[] inputs) -> Tensor[]")
_operator.register_fake(_fake)


def _calls(graph: fx.Graph, parent: fx.GraphModule) -> list[tuple[fx.Node, RegionModule]]:
    found = [(call, parent.get_submodule(str(call.target))) for call in graph.find_nodes(op="call_module")]
    return [(call, region) for call, region in found if isinstance(region, RegionModule)]


def fixed_sizes(parent: fx.GraphModule) -> bool:
    """Whether compile_rest() takes it: the operator tells its outputs' shapes without its inputs'."""
    return all(region.fixed for _, region in _calls(parent.graph, parent))


def compile_rest(parent: fx.GraphModule) -> Callable[..., Any]:
    """The graph by Inductor, its regions as operators."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(parent.graph, {}))
    for call, region in _calls(graph, parent):
        with graph.inserting_before(call):
            made = graph.call_function(torch.ops.tilewright.region.default, (region.number, list(call.args)))
            if region.single:
                made = graph.call_function(operator.getitem, (made, 0))
        call.replace_all_uses_with(made)
        graph.erase_node(call)
    return torch.compile(fx.GraphModule(parent, graph), fullgraph=True, dynamic=False)
