"""Checkpoints of GPTQ, AWQ and compressed-tensors as models with quantized layers."""
from __future__ import annotations

import pathlib
from typing import Dict, List

import numpy
import torch
from torch import nn

from .._errors import FileError
from .._types import StoredLayer
from .._weights import StoredWeight, WeightFile, open_weights
from ._form import Form
from ._kernels import ROWS
from ._linear import QuantizedLinear
from ._region import default_folder

_BITS = {"bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}


def files_of(path: str | pathlib.Path) -> List[str]:
    """The files of a checkpoint: a file, or those of a folder by its index or their names."""
    folder = pathlib.Path(path)
    if not folder.is_dir():
        return [str(folder)]
    for pattern in ("*.safetensors.index.json", "*.safetensors"):
        if found := sorted(map(str, folder.glob(pattern))):
            return found
    raise FileError(f"{folder}: no *.safetensors in it; expected a checkpoint of GPTQ, AWQ or compressed-tensors")


def _tensor(stored: StoredWeight, dtype: str) -> torch.Tensor:
    tensor = torch.from_numpy(numpy.ascontiguousarray(stored.arrays()["B"]))
    return tensor.view(_BITS[dtype]) if dtype in _BITS else tensor


def _layer(stored: StoredWeight, told: StoredLayer, bias: torch.Tensor | None, folder: str | pathlib.Path,
           rows: tuple[str, ...]) -> QuantizedLinear:
    form = Form.of_keys(told.keys)
    arrays, order = stored._ordered()
    scales = torch.from_numpy(arrays["B.scale"])
    if "w.scale=bf16" in told.keys:
        scales = scales.view(torch.bfloat16)
    zeros = torch.from_numpy(arrays["B.zero"]) if "B.zero" in arrays else None
    return QuantizedLinear(form, torch.from_numpy(arrays["B"]), scales, zeros,
                           torch.tensor(order) if order else None, bias, out_features=told.n, folder=folder,
                           rows=rows)


def _place(model: nn.Module, told: StoredLayer, path: str) -> nn.Module:
    """The layer of the model that a stored one is for."""
    try:
        layer = model.get_submodule(told.name)
    except AttributeError:
        raise FileError(f"{path}: the model has no layer '{told.name}'; expected the model that the checkpoint "
                        "is of") from None
    if type(layer) not in (nn.Linear, QuantizedLinear):
        raise FileError(f"{path}: '{told.name}' is a {type(layer).__name__} in the model; expected a "
                        "torch.nn.Linear")
    if (layer.in_features, layer.out_features) != (told.k, told.n):
        raise FileError(f"{path}: '{told.name}' has {told.k} inputs and {told.n} outputs; the model's layer has "
                        f"{layer.in_features} and {layer.out_features}")
    return layer


def _set(model: nn.Module, name: str, tensor: torch.Tensor, path: str) -> None:
    """Gives a parameter or buffer these values, in its own type; one on the device "meta" gets memory."""
    owner_name, _, own = name.rpartition(".")
    owner = model.get_submodule(owner_name)
    before = getattr(owner, own)
    if before.shape != tensor.shape:
        raise FileError(f"{path}: '{name}' is {list(tensor.shape)}; the model's is {list(before.shape)}")
    if before.is_meta:
        made = tensor.to(before.dtype).clone()
        setattr(owner, own, nn.Parameter(made, requires_grad=False) if own in owner._parameters else made)
        return
    with torch.no_grad():
        before.copy_(tensor)


def load_quantized_(model: nn.Module, path: str | pathlib.Path, *, folder: str | pathlib.Path | None = None,
                    rows: tuple[str, ...] = ROWS, gptq_format: str | None = None,
                    strict: bool = True) -> List[str]:
    """Loads a checkpoint of GPTQ, AWQ or compressed-tensors (docs/weights.md) into `model`, and returns the
    names of its quantized layers, which take the place of torch.nn.Linear.

    `path`: a folder with safetensors files, an index, or a file. All other tensors go to parameters and
    buffers of their names. With `strict` FileError names those that the model lacks and those that the
    checkpoint lacks; otherwise they are passed over. Nothing of the model changes before all layers are
    read. `folder` and `rows` as quantize_() takes them, `gptq_format` as open_weights() does.
    """
    layers: Dict[str, QuantizedLinear] = {}
    plain: Dict[str, torch.Tensor] = {}
    where: Dict[str, str] = {}
    for file_name in files_of(path):
        file = open_weights(file_name, gptq_format=gptq_format)
        _read(model, file, layers, plain, folder or default_folder(), rows)
        where.update(dict.fromkeys([*layers, *plain], file_name))
    known = {name: tensor for name, tensor in [*model.named_parameters(remove_duplicate=False),
                                               *model.named_buffers(remove_duplicate=False)]}
    unknown = [name for name in plain if name not in known]
    if strict and unknown:
        raise FileError(f"{where[unknown[0]]}: the model has no {', '.join(unknown[:3])}"
                        f"{' …' if len(unknown) > 3 else ''}; expected its parameters and buffers, or strict=False")
    if not layers:
        raise FileError(f"{path}: there are no quantized layers in it; model.load_state_dict() takes floats")
    given = {id(known[name]) for name in plain if name in known}  # with tied ones
    persistent = model.state_dict(keep_vars=True)
    missing = [name for name in known if name in persistent and id(known[name]) not in given
               and name.rpartition(".")[0] not in layers]
    if strict and missing:
        raise FileError(f"{path}: there is no {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}, which the "
                        "model has; expected all of it, or strict=False")
    empty = [name for name in known if known[name].is_meta and id(known[name]) not in given
             and name.rpartition(".")[0] not in layers]
    if empty:
        raise FileError(f"{path}: there is no {', '.join(empty[:3])}{' …' if len(empty) > 3 else ''}, which the model "
                        "has without memory; expected a model that was not made on the device 'meta'")
    for name, layer in layers.items():
        layer.train(model.get_submodule(name).training)
        model.set_submodule(name, layer)
    for name, tensor in plain.items():
        if name in known:
            _set(model, name, tensor, where[name])
    return list(layers)


def _read(model: nn.Module, file: WeightFile, layers: Dict[str, QuantizedLinear], plain: Dict[str, torch.Tensor],
          folder: str | pathlib.Path, rows: tuple[str, ...]) -> None:
    """Adds what one file holds."""
    types = {told.name: told.dtype for told in file.tensors}
    taken = set()
    for told in file.layers:
        if told.problem:
            raise FileError(f"{file.path}: layer '{told.name}': {told.problem}")
        before = _place(model, told, file.path)
        bias_name = f"{told.name}.bias"
        bias = None
        if bias_name in types:
            kind = torch.float32 if getattr(before, "bias", None) is None else before.bias.dtype
            bias = _tensor(file[bias_name], types[bias_name]).to(kind)
        layers[told.name] = _layer(file[told.name], told, bias, folder, rows)
        taken.add(told.name)
    for name, dtype in types.items():
        if name.rpartition(".")[0] not in taken:
            plain[name] = _tensor(file[name], dtype)
