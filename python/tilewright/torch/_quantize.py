"""Models with weights of a few bits: made of floats, tuned, and compared with the float model."""
from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import Any, Callable, Dict, List, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from .._errors import ArgumentError
from .._html import table
from .._progress import Progress
from .._quantize import quantize
from .._tune import tune
from ._form import Form, prune
from ._kernels import ROWS, forget, spec_of
from ._linear import QuantizedLinear, forget_operators
from ._region import default_folder
from ._report import Rows, report, tell


def _quantized(weight: torch.Tensor, bias: torch.Tensor | None, form: Form, folder: str | pathlib.Path,
               rows: tuple[str, ...], **options: Any) -> QuantizedLinear:
    """A layer with `weight`, [n, k], rounded to `form`; `options` as tilewright.quantize() takes them. Raises
    ArgumentError where its sizes or elements do not allow that."""
    if weight.device.type != "cpu":
        raise ArgumentError(f"its weight is on {weight.device}; expected the CPU")
    n, weight = weight.shape[0], weight.detach().t().contiguous()
    if form.sparse:
        weight = prune(weight, *form.pattern)
    if not form.dtype:
        return QuantizedLinear(form, weight, bias=bias, out_features=n, folder=folder, rows=rows)
    made = quantize(weight, form.dtype, group=form.group, **options)
    scales, zeros = torch.from_numpy(made.scales), None
    if made.scale == "bf16":
        scales = scales.view(torch.bfloat16)
    if made.zeros is not None:
        zeros = torch.from_numpy(made.zeros)
        zeros = zeros.view(torch.int16) if made.zero == "f16" else zeros  # Module.to leaves integers as they are
    form = replace(form, scale=made.scale, zero="" if made.zeros is None else made.zero)
    return QuantizedLinear(form, torch.from_numpy(made.codes), scales, zeros, None, bias, out_features=n,
                           folder=folder, rows=rows)


def rounded(weight: torch.Tensor, dtype: str, rows: tuple[str, ...] = ROWS) -> QuantizedLinear:
    """A layer without a bias, with `weight`, [n, k], rounded as quantize_(model, dtype) rounds."""
    return _quantized(weight, None, Form.read(dtype, -1, None, None), default_folder(), rows)


def layers_of(model: nn.Module, kinds: tuple[type, ...] = (QuantizedLinear,)) -> Dict[str, Any]:
    """Layers by their names. Subclasses are left out: modules such as nn.MultiheadAttention read their
    weights by themselves."""
    return {name: module for name, module in model.named_modules() if type(module) in kinds}


def quantize_(model: nn.Module, dtype: str | None = "u4", *, group: int = -1, activations: str | None = None,
              sparse: str | None = None, which: Callable[[str, nn.Linear], bool] | None = None,
              folder: str | pathlib.Path | None = None, rows: tuple[str, ...] = ROWS,
              **options: Any) -> List[str]:
    """Replaces torch.nn.Linear in `model` by layers with weights of a few bits, and returns their names.

    `dtype`: "u4", "i8", "nf4", "f4e2m1" and the like, also "u4:128" or "u4:128:i8" as `compile --precision`
    takes them, or a pattern, "2:4". `group`: elements that share a scale; -1: all of a column. `activations`:
    "i8" has kernels round each row of the input to bytes. `sparse`: a pattern beside a type; all but the
    largest of each group become zeros. `which(name, layer)` chooses layers. `folder` holds `kernels.db` and
    `specs.txt`, by default the backend's. `rows`: numbers of rows of the input to have kernels for. `scale`,
    `zero` and `symmetric` as tilewright.quantize() takes them.

    A layer whose sizes do not allow it stays, with a line. ArgumentError where none is left.
    """
    form = Form.read(dtype, group, activations, sparse)
    for name in options:
        if name not in ("scale", "zero", "symmetric"):
            raise ArgumentError(f"'{name}' is no option; expected one of scale, zero, symmetric")
    made: Dict[int, QuantizedLinear] = {}
    names, reason = [], "it has no torch.nn.Linear"
    if type(model) is nn.Linear:
        raise ArgumentError("the model is a torch.nn.Linear itself; expected a module that holds it")
    for name, layer in list(model.named_modules(remove_duplicate=False)):
        if type(layer) is not nn.Linear or (which is not None and not which(name, layer)):
            continue
        if id(layer) not in made:
            try:
                made[id(layer)] = _quantized(layer.weight, layer.bias, form, folder or default_folder(), rows,
                                             **options)
            except ArgumentError as error:
                reason = f"layer {name} stays as it is: {error}"
                tell(reason)
                continue
        model.set_submodule(name, made[id(layer)].train(layer.training))
        names.append(name)
    if not names:
        raise ArgumentError(f"no layer was quantized: {reason}")
    return names


def tune_layers(model: nn.Module, time: str | None = None, *, trials: int | None = None,
                dtype: torch.dtype | None = None, progress: Progress = "auto") -> Rows:
    """Searches for kernels of the model's quantized layers for inputs of `dtype` (by default that of their
    last inputs, else f32), on torch.get_num_threads() threads. `time` and `trials` as tilewright.tune() takes
    them. Layers use what was found from then on. Returns report()."""
    layers = layers_of(model)
    if not layers:
        raise ArgumentError("the model has no quantized layers; quantize_(model, \"u4\", group=128) makes them")
    specs: Dict[str, Dict[str, None]] = {}
    for layer in layers.values():
        kind = dtype or (layer._served.dtype if layer._served is not None else torch.float32)
        for text in layer.rows:
            spec = spec_of(layer.form, layer.scales, kind, text, layer.out_features, layer.in_features,
                           layer.bias is not None)
            specs.setdefault(layer.folder, {})[spec] = None
    for folder, found in specs.items():
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        tune(list(found), db=pathlib.Path(folder, "kernels.db"), time=time, trials=trials,
             threads=torch.get_num_threads(), progress=progress)
    look_again(model)
    return report()


def look_again(model: nn.Module) -> None:
    """Layers of the model, and operators in programs, look for kernels at their next run."""
    forget()
    forget_operators()
    for layer in layers_of(model).values():
        layer._served = None


class Off(NamedTuple):
    """How far a layer is off, as shares of the largest magnitude that the float model gives there."""

    layer: str
    """Its name, or "outputs"."""
    alone: float
    """The largest difference of the layer by itself, on the inputs of the float model."""
    mean: float
    """The root of the mean of squares of the same differences, as a share of that of the outputs."""
    after: float
    """The largest difference in the quantized model, whose layers in front are off, too."""


class Accuracy(List[Off]):
    """A row for each layer and one for the outputs; prints as a table, also in a notebook."""

    def _cells(self) -> List[List[str]]:
        return [[row.layer, *("" if value != value else f"{value:.2e}" for value in row[1:])] for row in self]

    def __str__(self) -> str:
        lines = [["layer", "alone", "rms", "in the model"], *self._cells()]
        widths = [max(len(line[i]) for line in lines) for i in range(4)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                         for line in lines)

    def _repr_html_(self) -> str:
        return table(["layer", "alone", "rms", "in the model"], self._cells())


def _off(got: torch.Tensor, wanted: torch.Tensor) -> tuple[float, float]:
    difference, wanted = got.double() - wanted.double(), wanted.double()
    largest, size = wanted.abs().max().item(), wanted.square().mean().sqrt().item()
    return (difference.abs().max().item() / (largest or 1.0),
            difference.square().mean().sqrt().item() / (size or 1.0))


def accuracy(model: nn.Module, reference: nn.Module, *inputs: Any, **named: Any) -> Accuracy:
    """How far a quantized model is off its float `reference` on given inputs, layer by layer and in the
    outputs. `reference` is a copy of the model from before: copy.deepcopy(model)."""
    layers = layers_of(model)
    floats = dict(reference.named_modules())
    for name in layers:
        if name not in floats:
            raise ArgumentError(f"the reference has no layer '{name}'; expected a copy of the model from before "
                                "it was quantized")
    kept: Dict[str, List[torch.Tensor]] = {name: [] for name in layers}
    alone: Dict[str, tuple[float, float]] = {name: (0.0, 0.0) for name in layers}
    after: Dict[str, float] = {}
    hooks = []

    def of_reference(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, given: Any, output: torch.Tensor) -> None:
            kept[name].append(output)
            alone[name] = max(alone[name], _off(layers[name].forward(*given), output))
        return hook

    def of_model(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, given: Any, output: torch.Tensor) -> None:
            if kept[name]:
                after[name] = max(after.get(name, 0.0), _off(output, kept[name].pop(0))[0])
        return hook

    try:
        with torch.no_grad():
            hooks = [floats[name].register_forward_hook(of_reference(name)) for name in layers]
            wanted = reference(*inputs, **named)
            hooks += [layer.register_forward_hook(of_model(name)) for name, layer in layers.items()]
            got = model(*inputs, **named)
    finally:
        for hook in hooks:
            hook.remove()
    pairs = [_off(a, b) for a, b in zip(tree_leaves(got), tree_leaves(wanted))
             if isinstance(a, torch.Tensor) and a.is_floating_point() and a.shape == b.shape and a.numel()]
    outputs = max((off for off, _ in pairs), default=float("nan"))
    rms = max((rms for _, rms in pairs), default=float("nan"))
    return Accuracy([*(Off(name, *alone[name], after.get(name, float("nan"))) for name in layers),
                     Off("outputs", float("nan"), rms, outputs)])
