"""Linear layers of vLLM's CPU backend with weights of a few bits, by the plugin `vllm.general_plugins`.

    vllm serve MODEL --quantization tilewright

Weights are loaded as floats and rounded when the model is loaded, in the form that TILEWRIGHT_VLLM_WEIGHTS
names ("u4:128"). Kernels are those of the backend's folder, as QuantizedLinear takes them.
"""
from __future__ import annotations

import os
from typing import Any, Dict, List

_ROWS = ("1", "2..64")


def precision() -> str:
    return os.environ.get("TILEWRIGHT_VLLM_WEIGHTS", "u4:128")


def register() -> None:
    """The entry point: vLLM calls it in each of its processes."""
    import torch
    from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS, register_quantization_config
    from vllm.model_executor.layers.quantization.base_config import QuantizationConfig

    from ._errors import ArgumentError
    from .torch._quantize import rounded
    from .torch._report import tell

    if "tilewright" in QUANTIZATION_METHODS:
        return

    class LinearMethod(UnquantizedLinearMethod):
        """A weight that is loaded as vLLM loads floats, and rounded then."""

        def __init__(self, weights: str) -> None:
            super().__init__()
            self.weights = weights

        def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
            try:
                layer.tilewright = rounded(layer.weight, self.weights, rows=_ROWS)
            except ArgumentError as error:  # a size that the form does not take
                tell(f"vLLM keeps a layer of {tuple(layer.weight.shape)}: {error}")
                layer.tilewright = None
                super().process_weights_after_loading(layer)
                return
            layer.weight = torch.nn.Parameter(torch.empty(0), requires_grad=False)

        def apply(self, layer: torch.nn.Module, x: torch.Tensor,
                  bias: torch.Tensor | None = None) -> torch.Tensor:
            if layer.tilewright is None:
                return super().apply(layer, x, bias)
            out = layer.tilewright(x)
            return out if bias is None else out + bias

    @register_quantization_config("tilewright")
    class Config(QuantizationConfig):
        def __init__(self, weights: str | None = None) -> None:
            super().__init__()
            self.weights = weights or precision()

        def get_name(self) -> str:
            return "tilewright"

        def get_supported_act_dtypes(self) -> List[torch.dtype]:
            return [torch.float32, torch.bfloat16, torch.float16]

        @classmethod
        def get_min_capability(cls) -> int:
            return -1  # of GPUs; this is for CPUs

        @staticmethod
        def get_config_filenames() -> List[str]:
            return []

        @classmethod
        def from_config(cls, config: Dict[str, Any]) -> Config:
            return cls(config.get("weights"))

        def get_quant_method(self, layer: torch.nn.Module, prefix: str) -> Any:
            return LinearMethod(self.weights) if isinstance(layer, LinearBase) else None
