"""Quantized layers in regions of torch.compile, for torch_quantize_test.py."""
import copy
import importlib.util
import shutil
import unittest
import unittest.mock

import tilewright
from torch_environment import LACKS
from torch_layers import GROUP, K, N, Layers

if not LACKS:
    import torch
    from torch import nn

    import tilewright.torch
    from tilewright.torch import _backend, _linear


@unittest.skipIf(importlib.util.find_spec("onnxscript") is None, "no Python module onnxscript")
class Inside(Layers):
    """In a region of torch.compile."""

    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        self.first = len(tilewright.torch.report())

    def rows(self):
        return [row for row in tilewright.torch.report()[self.first:] if row.graph != "layers"]

    def compiled(self, layers, **options):
        options = {"folder": self.folder, "fallback": "eager", "measure": False, **options}
        return torch.compile(layers, backend=tilewright.torch.backend, dynamic=False, options=options)

    def specs(self):
        """The specs of the one row's file."""
        row, = self.rows()
        self.assertEqual((row.region, row.state, row.reason), ("whole", "taken", ""))
        self.assertEqual(row.operators["quantized_linear"], 2)
        return [node.spec for node in tilewright.Model(row.file, threads=1).nodes]

    def outside(self):
        """The layers as operators of PyTorch."""
        return unittest.mock.patch.object(_linear, "LayerKernels", side_effect=AssertionError("left the region"))

    def test_each_form(self):
        for dtype, options, keys, most in (
                ("u4:16", {}, "w.dtype=u4,w.group=16,w.zero=u4", 1e-5),
                ("u8:24", {"zero": "f16"}, "w.dtype=u8,w.group=24,w.zero=f16", 1e-5),
                ("i8", {"scale": "bf16"}, "w.dtype=i8,w.scale=bf16", 1e-5),
                ("i2:16", {"scale": "f16"}, "w.dtype=i2,w.group=16,w.scale=f16", 1e-5),
                ("i1:16", {}, "w.dtype=i1,w.group=16", 1e-5),
                ("nf4:16", {}, "w.dtype=nf4,w.group=16", 1e-5),
                ("f4e2m1:16", {"scale": "e8m0"}, "w.dtype=f4e2m1,w.group=16,w.scale=e8m0", 1e-5),
                ("f8e5m2:16", {"scale": "f8e4m3"}, "w.dtype=f8e5m2,w.group=16,w.scale=f8e4m3", 1e-5),
                ("2:4", {}, "w.sparse=2:4", 1e-5),
                ("i4:16", {"sparse": "2:4"}, "w.dtype=i4,w.group=16,w.sparse=2:4", 1e-5),
                ("i4:16:i8", {}, "a.dtype=i8,w.dtype=i4,w.group=16", 5e-3)):
            with self.subTest(dtype=dtype, **options), torch.no_grad():
                self.setUp()
                layers, x = self.quantized(dtype, **options), torch.randn(5, K)
                compiled = self.compiled(layers)
                compiled(x)
                with self.outside():
                    self.close(compiled(x), self.wanted(layers, x), most)
                specs = self.specs()
                self.assertEqual(len(specs), 2, specs)
                self.assertIn("epilogue=[bias,relu]", specs[0])
                for spec in specs:
                    for key in keys.split(","):
                        self.assertIn(key, spec)

    def test_narrow_floats(self):
        for dtype in ("u4:16", "2:4"):
            with torch.no_grad():
                self.setUp()
                layers, x = self.quantized(dtype).to(torch.bfloat16), torch.randn(5, K).bfloat16()
                compiled = self.compiled(layers)
                self.close(compiled(x), self.wanted(layers.float(), x.float()), 0.05)
                self.assertIn("dtype=bf16", self.specs()[0])

    def test_a_bias_of_another_type(self):
        layers, x = self.quantized(group=GROUP), torch.randn(5, K)
        for layer in layers[::2]:
            layer.bias = layer.bias.bfloat16()
        with torch.no_grad():
            self.close(self.compiled(layers)(x), self.wanted(layers, x))
        self.specs()

    def test_columns_in_another_order(self):
        layers, x = self.quantized(group=GROUP), torch.randn(5, K)
        layers[0].order = torch.randperm(K)
        plainly = self.wanted(self.quantized(group=GROUP), x)
        with torch.no_grad():
            compiled = self.compiled(layers)
            self.close(compiled(x), self.wanted(layers, x))
            self.assertGreater((compiled(x) - plainly).abs().max(), 0.01)
        row, = self.rows()
        self.assertEqual((row.region, row.state), ("whole", "taken"))

    def test_rounded_activations_have_a_tolerance_of_their_own(self):
        taken = []
        for dtype in ("u4:16", "u4:16:i8"):
            torch._dynamo.reset()
            with torch.no_grad(), unittest.mock.patch.object(_backend, "difference", return_value="") as compare:
                self.compiled(self.quantized(dtype))(torch.randn(5, K))
            taken.append(compare.call_args.args[2])
        self.assertEqual(taken, [1e-3, 1 / 127])

    def test_any_number_of_rows(self):
        layers = self.quantized(group=GROUP)
        with torch.no_grad():
            compiled = self.compiled(layers, largest=40)
            x = torch.randn(5, K)
            torch._dynamo.mark_dynamic(x, 0)
            for x in (x, torch.randn(2, K), torch.randn(40, K)):
                self.close(compiled(x), self.wanted(layers, x))
        self.assertIn("m=2..40", self.specs()[0])

    def test_the_kernels_are_those_of_the_layers(self):
        layers, tuned = self.quantized(group=GROUP, rows=("5",)), self.folder / "tuned.db"
        with torch.no_grad():
            tilewright.torch.tune_layers(layers, trials=1, progress=None)
            shutil.copy(self.folder / "kernels.db", tuned)
            self.compiled(layers[2])(torch.randn(5, 48))
        spec, = [node.spec for node in tilewright.Model(self.rows()[0].file, threads=1).nodes]
        told = tilewright.Library(tuned).prepare(spec, threads=1)
        self.assertEqual([line.outcome for line in told.report], ["hit"])

    def test_weights_that_change(self):
        layers, x = self.quantized(group=GROUP), torch.randn(5, K)
        torch.manual_seed(7)
        other = self.quantized(layers=nn.Sequential(nn.Linear(K, 48), nn.ReLU(), nn.Linear(48, N)), group=GROUP)
        with torch.no_grad():
            compiled = self.compiled(layers)
            before = compiled(x)
            layers.load_state_dict(other.state_dict())
            self.close(compiled(x), self.wanted(other, x))
            self.assertGreater((compiled(x) - before).abs().max(), 0.01)
        self.assertEqual([row.state for row in self.rows()], ["fallback"])

    def test_files_are_found_whatever_the_folder_of_the_layers(self):
        x, files = torch.randn(5, K), []
        for folder in ("a", "b"):
            torch._dynamo.reset()
            with torch.no_grad():
                self.compiled(self.quantized(group=GROUP, folder=self.folder / folder))(x)
            files.append(self.rows()[-1].file)
        self.assertEqual(files[0], files[1])

    def test_layers_that_stay_operators(self):
        class Mixed(nn.Module):
            def __init__(self, layers):
                super().__init__()
                self.layers, self.norm, self.head = layers, nn.LayerNorm(N), nn.Linear(N, 5)

            def forward(self, x):
                return self.head(self.norm(self.layers(x.to(torch.bfloat16)).float()))

        mixed, x = Mixed(self.quantized("2:4")).eval(), torch.randn(5, K)
        with torch.no_grad():
            wanted = mixed(x)
            self.close(self.compiled(mixed)(x), wanted)
        whole, *parts = self.rows()
        self.assertEqual(whole.state, "in parts")
        self.assertRegex(whole.reason, "the quantized layer .* has a weight of torch.float32 and an input of "
                                       "torch.bfloat16; expected one type")
        self.assertEqual([row.state for row in parts], ["taken"])
        self.assertEqual(set(parts[0].operators), {"_to_copy", "layer_norm", "linear"})
        doubles, given = self.quantized("u4:16").double(), x.double()
        with torch.no_grad():
            torch._dynamo.reset()
            self.close(self.compiled(doubles)(given), doubles(given).float())
        self.assertEqual(self.rows()[-1].state, "left")
        self.assertIn("has an input of torch.float64; expected float32, bfloat16 or float16", self.rows()[-1].reason)

    def test_beside_an_operator_without_a_kernel(self):
        @torch.library.custom_op("tilewright_test::turned", mutates_args=())
        def turned(x: torch.Tensor) -> torch.Tensor:
            return x.flip(0).clone()

        turned.register_fake(torch.empty_like)
        layers = self.quantized(group=GROUP)

        class Around(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = layers[0], layers[2]

            def forward(self, x):
                return self.second(turned(self.first(x).relu())).relu()

        around, x = Around().eval(), torch.randn(5, K)
        with torch.no_grad():
            compiled = self.compiled(around)
            wanted = around(x)
            compiled(x)
            with self.outside():
                self.close(compiled(x), wanted)
        self.assertEqual([row.state for row in self.rows()], ["in parts", "taken", "taken"])
