"""The plugin for vLLM, on a stand-in for the part of vLLM's interface that it uses (as of 0.32): vLLM for CPUs
needs builds of PyTorch that PyPI does not have. Skipped where PyTorch is not found, as torch_test.py."""
import os
import sys
import types
import unittest
import unittest.mock

from torch_environment import LACKS

if not LACKS:
    import torch

    import tilewright.torch
    from tilewright.torch import _report

from support import main


def stand_in(methods: list, configs: dict) -> dict:
    """Modules by their names."""
    class LinearBase(torch.nn.Module):
        pass

    class UnquantizedLinearMethod:
        def create_weights(self, layer, columns, parts, *_, params_dtype=torch.float32, **more):
            layer.weight = torch.nn.Parameter(torch.empty(sum(parts), columns, dtype=params_dtype),
                                              requires_grad=False)

        def process_weights_after_loading(self, layer):
            pass

        def apply(self, layer, x, bias=None):
            return torch.nn.functional.linear(x, layer.weight, bias)

    class QuantizationConfig:
        def __init__(self):
            self.packed_modules_mapping = {}

    def register_quantization_config(name):
        def keep(config):
            assert issubclass(config, QuantizationConfig)
            methods.append(name)
            configs[name] = config
            return config
        return keep

    layers = "vllm.model_executor.layers"
    told = {f"{layers}.linear": {"LinearBase": LinearBase, "UnquantizedLinearMethod": UnquantizedLinearMethod},
            f"{layers}.quantization": {"QUANTIZATION_METHODS": methods,
                                       "register_quantization_config": register_quantization_config},
            f"{layers}.quantization.base_config": {"QuantizationConfig": QuantizationConfig}}
    made = {}
    for name in ("vllm", "vllm.model_executor", layers, *told):
        made[name] = types.ModuleType(name)
        made[name].__dict__.update(told.get(name, {}))
    return made


@unittest.skipIf(LACKS, LACKS)
class Plugin(unittest.TestCase):
    def setUp(self):
        self.methods, self.configs = [], {}
        self.modules = stand_in(self.methods, self.configs)
        for patch in (unittest.mock.patch.dict(sys.modules, self.modules),
                      unittest.mock.patch.object(_report, "tell"),
                      unittest.mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "/nowhere"})):
            patch.start()
            self.addCleanup(patch.stop)
        from tilewright.vllm import register
        register()
        register()  # vLLM calls it in each process, maybe twice

    def layer(self, config, columns=64, rows=(32, 16)):
        base = self.modules["vllm.model_executor.layers.linear"].LinearBase()
        method = config.get_quant_method(base, "model.layers.0.qkv_proj")
        method.create_weights(base, columns, list(rows), columns, sum(rows))
        torch.manual_seed(0)
        base.weight.copy_(torch.randn_like(base.weight))
        weight = base.weight.clone()
        method.process_weights_after_loading(base)
        return base, method, weight

    def test_it_is_registered_once(self):
        self.assertEqual(self.methods, ["tilewright"])
        config = self.configs["tilewright"]()
        self.assertEqual((config.get_name(), config.weights), ("tilewright", "u4:128"))
        self.assertEqual(self.configs["tilewright"].from_config({"weights": "i8:32"}).weights, "i8:32")
        self.assertIsNone(config.get_quant_method(torch.nn.Embedding(4, 4), "embed"))
        with unittest.mock.patch.dict(os.environ, {"TILEWRIGHT_VLLM_WEIGHTS": "nf4:64"}):
            self.assertEqual(self.configs["tilewright"]().weights, "nf4:64")

    def test_a_layer_is_rounded_when_it_was_loaded(self):
        layer, method, weight = self.layer(self.configs["tilewright"]("i8:32"))
        self.assertEqual(layer.weight.numel(), 0)
        self.assertEqual(layer.tilewright.form.label(), "i8:32")
        x, bias = torch.randn(5, 64), torch.randn(48)
        wanted = torch.nn.functional.linear(x, weight, bias)
        off = (method.apply(layer, x, bias) - wanted).abs().max() / wanted.abs().max()
        self.assertLess(off, 0.02)
        self.assertTrue(torch.equal(method.apply(layer, x) + bias, method.apply(layer, x, bias)))

    def test_a_layer_whose_sizes_do_not_fit_stays(self):
        layer, method, weight = self.layer(self.configs["tilewright"]("u4:32"), rows=(3,))
        x = torch.randn(5, 64)
        self.assertTrue(torch.equal(method.apply(layer, x), x @ weight.T))

    def test_the_entry_point_names_it(self):
        import pathlib
        project = (pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text()
        self.assertIn('entry-points."vllm.general_plugins"]\ntilewright = "tilewright.vllm:register"\n', project)


if __name__ == "__main__":
    main()
