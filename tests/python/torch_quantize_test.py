"""Linear layers with weights of a few bits in PyTorch: made, loaded, served, and left to PyTorch. Skipped where
PyTorch is not found, as torch_test.py."""
import copy
import json
import pathlib
import pickle
import struct
import tempfile
import unittest
import unittest.mock

import numpy as np
from torch_environment import LACKS
from torch_layers import GROUP, K, N, Layers, model
from torch_layers_inside import Inside  # run here, too: a module's cases are those that it names

if not LACKS:
    import torch
    from torch import nn

    import tilewright.torch
    from tilewright.torch import QuantizedLinear, _linear

import tilewright
from support import main


def safetensors(path: pathlib.Path, tensors: dict) -> None:
    """Writes a file: (type, array) by name."""
    header, data = {}, b""
    for name, (kind, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def words(numbers: np.ndarray) -> np.ndarray:
    """Eight neighbours of the last axis in a word, the first in the lowest bits."""
    places = numbers.reshape(*numbers.shape[:-1], -1, 8).astype(np.uint32) << (4 * np.arange(8, dtype=np.uint32))
    return np.bitwise_or.reduce(places, -1).astype(np.uint32).view(np.int32)


class Stored:
    """A layer of 4 bits by the published rules of three formats, and its values by their formula."""

    def __init__(self, n: int, k: int, seed: int, shuffled: bool = False):
        random = np.random.default_rng(seed)
        self.q = random.integers(0, 16, (k, n))
        self.zero = random.integers(1, 16, (k // GROUP, n))
        self.scale = random.uniform(0.01, 0.03, (k // GROUP, n)).astype(np.float16)
        self.group = np.arange(k, dtype=np.int32) // GROUP
        if shuffled:
            random.shuffle(self.group)
        self.bias = random.standard_normal(n).astype(np.float32)
        scale = self.scale.astype(np.float64)
        self.values = ((self.q - self.zero[self.group]) * scale[self.group]).T  # [n, k]
        self.symmetric = ((self.q - 8) * scale[np.arange(k) // GROUP]).T

    def gptq(self, name: str) -> dict:
        """AutoGPTQ: rows of a column share a word, zero points are stored less one."""
        return {f"{name}.qweight": ("I32", words(self.q.T).T), f"{name}.qzeros": ("I32", words(self.zero - 1)),
                f"{name}.scales": ("F16", self.scale), f"{name}.g_idx": ("I32", self.group),
                f"{name}.bias": ("F32", self.bias)}

    def awq(self, name: str) -> dict:
        """AutoAWQ's GEMM: columns 0, 2, 4, 6, 1, 3, 5, 7 of eight in a word."""
        def packed(numbers):
            order = [0, 2, 4, 6, 1, 3, 5, 7]
            return words(numbers.reshape(len(numbers), -1, 8)[:, :, order].reshape(len(numbers), -1))
        return {f"{name}.qweight": ("I32", packed(self.q)), f"{name}.qzeros": ("I32", packed(self.zero)),
                f"{name}.scales": ("F16", self.scale), f"{name}.bias": ("F32", self.bias)}

    def compressed(self, name: str) -> dict:
        """pack-quantized, symmetric: signed codes plus 8, neighbours along k in a word."""
        return {f"{name}.weight_packed": ("I32", words(self.q.T)),
                f"{name}.weight_scale": ("F16", self.scale.T), f"{name}.bias": ("F32", self.bias),
                f"{name}.weight_shape": ("I64", np.array(self.q.T.shape))}


class Plain(Layers):
    """Without kernels."""

    def test_values_are_those_of_quantize(self):
        weight = model()[0].weight.detach()
        for dtype, options in (("u4", {}), ("i4", {}), ("u8", {"zero": "f16"}), ("i8", {"scale": "bf16"}),
                               ("u2", {"scale": "f16"}), ("i2", {}), ("i1", {}), ("nf4", {}), ("f4e2m1", {"scale": "e8m0"}),
                               ("f8e4m3", {}), ("f8e5m2", {"scale": "f8e4m3"})):
            for group in (GROUP, 24, -1):
                with self.subTest(dtype=dtype, group=group):
                    made = tilewright.quantize(weight.T.contiguous(), dtype, group=group, **options)
                    layer = self.quantized(dtype, group=group, **options)[0]
                    np.testing.assert_array_equal(layer.weight_values().numpy(), made.dequantize().T)
                    self.assertEqual(layer.form.keys(layer.scales), made.keys)

    def test_one_line_and_the_next_command(self):
        layers, x = self.quantized(group=GROUP), torch.randn(2, 3, K)
        with torch.inference_mode():
            for _ in range(3):
                got = layers(x)
        self.assertEqual((got.shape, got.dtype), ((2, 3, N), torch.float32))
        self.close(got, self.wanted(layers, x))
        line = self.lines[0]
        for word in ("layers, 48x64 u4:16 f32, rows 1: left: ", "PyTorch multiplies", "kernels.db",
                     "tilewright.torch.tune_layers(model)", f"tune-cli tune {self.folder}/specs.txt"):
            self.assertIn(word, line)
        specs = (self.folder / "specs.txt").read_text().splitlines()
        self.assertEqual(len(self.lines), len(specs))
        self.assertEqual(specs[:2], [f"matmul:m={m},n=48,k=64,epilogue=[bias],w.dtype=u4,w.group=16,w.scale=f32,w.zero=u4"
                                     for m in ("1", "2..64")])
        self.assertIn("48x64 u4:16", str(tilewright.torch.report()))

    def test_a_pattern_keeps_the_largest(self):
        layers, x = self.quantized("2:4"), torch.randn(5, K)
        weight = model()[0].weight.detach()
        kept = layers[0].weight_values()
        groups = kept.view(48, -1, 4)
        self.assertTrue(((groups != 0).sum(-1) == 2).all())
        self.assertTrue(torch.equal(kept[kept != 0], weight[kept != 0]))
        least_kept = torch.where(groups != 0, groups.abs(), 9).amin(-1)
        most_left = torch.where(groups == 0, weight.view(48, -1, 4).abs(), 0).amax(-1)
        self.assertTrue((least_kept >= most_left).all())
        self.close(layers(x), self.wanted(layers, x))
        both = self.quantized("i4", group=GROUP, sparse="2:4")[0].weight_values()
        self.assertTrue(((both.view(48, -1, 4) != 0).sum(-1) <= 2).all())

    def test_gradients_go_through_pytorch(self):
        layers, x = self.quantized(group=GROUP), torch.randn(4, K, requires_grad=True)
        layers(x).sum().backward()
        self.assertGreater(x.grad.abs().max(), 0)

    def test_state_copies_and_pickles(self):
        layers, x = self.quantized(group=GROUP, zero="f16"), torch.randn(4, K)
        y = layers(x)
        torch.save(layers.state_dict(), self.folder / "state.pt")
        torch.manual_seed(5)
        other = self.quantized(layers=nn.Sequential(nn.Linear(K, 48), nn.ReLU(), nn.Linear(48, N)), group=GROUP,
                               zero="f16")
        self.assertGreater((other(x) - y).abs().max(), 0.01)
        other.load_state_dict(torch.load(self.folder / "state.pt"))
        for same in (other, copy.deepcopy(layers), pickle.loads(pickle.dumps(layers))):
            self.assertTrue(torch.equal(same(x), y))
        half = copy.deepcopy(layers).to(torch.bfloat16)
        self.assertEqual(half[0].scales.dtype, torch.bfloat16)
        self.assertIn("w.scale=bf16", half[0].form.keys(half[0].scales))
        self.close(half(x.bfloat16()), y, 0.05)

    def test_which_layers(self):
        layers = model()
        shared = layers[0]
        layers.append(nn.Linear(3, 5))
        holder = nn.ModuleDict({"a": layers, "b": shared, "head": nn.Linear(K, N)})
        names = tilewright.torch.quantize_(holder, "u4", which=lambda name, layer: name != "head")
        self.assertEqual(names, ["a.0", "a.2", "b"])
        self.assertIs(holder["a"][0], holder["b"])
        self.assertIs(type(holder["head"]), nn.Linear)
        self.assertIs(type(holder["a"][3]), nn.Linear)  # rows of 5 codes fill no whole bytes
        attention = nn.TransformerEncoderLayer(16, 2, 32)
        tilewright.torch.quantize_(attention, "i8")
        self.assertIsInstance(attention.self_attn.out_proj, nn.Linear)
        self.assertIsInstance(attention.linear1, QuantizedLinear)

    def test_refusals(self):
        def refuses(pattern, *arguments, **options):
            with self.assertRaisesRegex(tilewright.ArgumentError, pattern):
                tilewright.torch.quantize_(*arguments, **options)
        refuses("type is 'i32'; expected one of i8", model(), "i32")
        refuses("expected such as 'u4', 'u4:128'", model(), "u4:x")
        refuses("i8 meet weights of nf4", model(), "nf4:32:i8")
        refuses("sparse is '4:2'; expected N:M", model(), "i4", sparse="4:2")
        refuses("'scales' is no option; expected one of scale", model(), scales="f16")
        refuses("no layer was quantized: it has no torch.nn.Linear", nn.Sequential(nn.ReLU()))
        refuses("no layer was quantized: layer 0 stays as it is: a row of 3 codes", nn.Sequential(nn.Linear(4, 3)))
        refuses("is a torch.nn.Linear itself", nn.Linear(4, 4))
        with self.assertRaisesRegex(tilewright.ArgumentError, "no quantized layers"):
            tilewright.torch.tune_layers(model())

    def test_accuracy(self):
        reference, x = model(), torch.randn(9, K)
        coarse, fine = (self.quantized(dtype, layers=copy.deepcopy(reference), group=GROUP) for dtype in ("i2", "i8"))
        told = tilewright.torch.accuracy(coarse, reference, x)
        self.assertEqual([row.layer for row in told], ["0", "2", "outputs"])
        with torch.no_grad():
            off = ((coarse(x) - reference(x)).abs().max() / reference(x).abs().max()).item()
            first = ((coarse[0](x) - reference[0](x)).abs().max() / reference[0](x).abs().max()).item()
        self.assertAlmostEqual(told[-1].after, off, 6)
        self.assertAlmostEqual(told[0].alone, first, 6)
        self.assertAlmostEqual(told[0].alone, told[0].after, 6)
        self.assertGreater(told[0].alone, 20 * tilewright.torch.accuracy(fine, reference, x)[0].alone)
        self.assertRegex(str(told), r"layer +alone +rms +in the model\n0 ")
        self.assertIn("outputs", told._repr_html_())
        self.assertFalse(coarse[0]._forward_hooks or reference[0]._forward_hooks)
        with self.assertRaisesRegex(tilewright.ArgumentError, "no layer '0'"):
            tilewright.torch.accuracy(coarse, nn.ReLU(), x)


class Served(Layers):
    """By kernels."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.kernels = pathlib.Path(folder.name)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        cls.made = {}
        for dtype, options in (("u4", {}), ("i4:16:i8", {}), ("2:4", {})):
            made = cls.made[dtype] = model()
            tilewright.torch.quantize_(made, dtype, group=GROUP, folder=cls.kernels, rows=("1", "2..8"), **options)
            tilewright.torch.tune_layers(made, trials=1, progress=None)
        torch.set_num_threads(threads)

    def plain(self):
        return unittest.mock.patch.object(_linear, "plain", side_effect=AssertionError("PyTorch multiplied"))

    def test_rows_and_shapes(self):
        for dtype, layers in self.made.items():
            for shape in ((1, K), (K,), (2, 3, K), (8, K), (21, K), (17, K), (0, K)):
                with self.subTest(dtype=dtype, shape=shape), torch.inference_mode():
                    x = torch.randn(shape)
                    if 0 in shape:
                        self.assertEqual(layers(x).shape, (0, N))
                        continue
                    with self.plain():
                        got = layers(x)
                    self.assertEqual(got.shape, (*shape[:-1], N))
                    # A code of i8 behind a sum in another order may be the neighbour.
                    self.close(got, self.wanted(layers, x), 5e-3 if "i8" in dtype else 1e-5)
        with torch.inference_mode(), self.plain():
            wide = torch.randn(7, K + 3)
            layers = self.made["u4"]
            self.close(layers(wide[1:, 1:K + 1]), self.wanted(layers, wide[1:, 1:K + 1]))

    def test_weights_that_change(self):
        layers, x = copy.deepcopy(self.made["u4"]), torch.randn(4, K)
        torch.manual_seed(7)
        other = nn.Sequential(nn.Linear(K, 48), nn.ReLU(), nn.Linear(48, N))
        tilewright.torch.quantize_(other, "u4", group=GROUP, folder=self.kernels, rows=("1", "2..8"))
        with torch.no_grad(), self.plain():
            before = layers(x)
            layers.load_state_dict(other.state_dict())
            self.assertTrue(torch.equal(layers(x), other(x)))
            self.assertFalse(torch.equal(layers(x), before))

    def test_programs_have_it_as_an_operator(self):
        layers, x = self.made["u4"], torch.randn(5, K)
        with torch.no_grad(), self.plain():
            wanted = layers(x)
            sizes = ({0: torch.export.Dim("rows", min=2, max=64)},)
            program = torch.export.export(layers, (x,), dynamic_shapes=sizes)
            torch.export.save(program, self.folder / "program.pt2")
            loaded = torch.export.load(self.folder / "program.pt2")
            for run in (program.module(), loaded.module(), torch.compile(layers, backend="eager", fullgraph=True)):
                self.assertTrue(torch.equal(run(x), wanted))
            self.assertEqual(loaded.module()(torch.randn(33, K)).shape, (33, N))
        self.assertIn("tilewright.quantized_linear", str(program.graph))
        torch.library.opcheck(torch.ops.tilewright.quantized_linear.default,
                              (x, *layers[0].stored(), layers[0].form.keys(layers[0].scales), 48,
                               str(self.kernels), ["1", "2..8"]), test_utils=("test_schema", "test_faketensor"))

    def test_another_number_of_threads_is_another_kernel(self):
        layers, x = copy.deepcopy(self.made["u4"]), torch.randn(1, K)
        torch.set_num_threads(2)
        with torch.no_grad():
            self.close(layers(x), self.wanted(layers, x))
        self.assertEqual(layers[0]._served.threads, 2)


class Checkpoints(Layers):
    def checkpoint(self, form: str, shuffled: bool = False, **more):
        stored = [Stored(48, K, 3, shuffled), Stored(N, 48, 4)]
        tensors = {}
        for name, layer in zip("02", stored):
            tensors.update(getattr(layer, form)(name))
        tensors.update(more)
        safetensors(self.folder / "model.safetensors", tensors)
        return stored

    def load(self, made=None, **options):
        made = made or model()
        names = tilewright.torch.load_quantized_(made, self.folder, folder=self.folder, **options)
        return names, made

    def same(self, made, stored, values):
        for name, layer in zip("02", stored):
            got = made.get_submodule(name)
            np.testing.assert_allclose(got.weight_values().numpy(), getattr(layer, values), rtol=1e-6)
            np.testing.assert_array_equal(got.bias.numpy(), layer.bias)
        x = torch.randn(5, K)
        with torch.inference_mode():
            self.close(made(x), self.wanted(made, x))

    def test_gptq(self):
        for shuffled in (False, True):
            stored = self.checkpoint("gptq", shuffled)
            names, made = self.load()
            self.assertEqual(names, ["0", "2"])
            self.same(made, stored, "values")
            self.assertEqual(made[0].order is not None, shuffled)
            self.assertEqual(made[0].form.label(), "u4:16")
        tilewright.torch.tune_layers(made, trials=1, progress=None)
        x = torch.randn(5, K)
        with torch.inference_mode(), unittest.mock.patch.object(_linear, "plain", None):
            self.close(made(x), self.wanted(made, x))

    def test_awq(self):
        stored = self.checkpoint("awq")
        _, made = self.load()
        self.same(made, stored, "values")

    def test_compressed_tensors(self):
        stored = self.checkpoint("compressed")
        _, made = self.load()
        self.same(made, stored, "symmetric")
        self.assertEqual((made[0].form.dtype, made[0].zeros), ("i4", None))

    def test_other_tensors_and_a_model_without_memory(self):
        norm = np.arange(N, dtype=np.float32)
        half = (np.ones(N, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        stored = self.checkpoint("gptq", **{"3.weight": ("F32", norm), "3.bias": ("BF16", half)})
        with torch.device("meta"):
            made = model().append(nn.LayerNorm(N))
        self.load(made)
        self.same(made[:3], stored, "values")
        np.testing.assert_array_equal(made[3].weight.detach().numpy(), norm)
        np.testing.assert_array_equal(made[3].bias.detach().numpy(), np.ones(N))

    def test_refusals_leave_the_model_as_it_was(self):
        def refuses(pattern, made, **options):
            before = [type(module) for module in made.modules()]
            with self.assertRaisesRegex(tilewright.FileError, pattern):
                self.load(made, **options)
            self.assertEqual([type(module) for module in made.modules()], before)
        refuses(r"no \*.safetensors in it", model())
        self.checkpoint("gptq", extra=("F32", np.ones(3, np.float32)))
        refuses("the model has no extra; expected its parameters", model())
        self.assertEqual(self.load(strict=False)[0], ["0", "2"])
        self.checkpoint("gptq")
        refuses("there is no 3.weight, 3.bias, which the model has", model().append(nn.LayerNorm(N)))
        with torch.device("meta"):
            made = model()
            made[1].register_buffer("frequencies", torch.ones(3), persistent=False)
        refuses("there is no 1.frequencies, which the model has without memory", made)
        refuses("no layer '2'", model()[:2])
        refuses("'0' has 64 inputs and 48 outputs; the model's layer has 64 and 40",
                nn.Sequential(nn.Linear(K, 40), nn.ReLU(), nn.Linear(48, N)))
        refuses("'2' is a ReLU in the model; expected a torch.nn.Linear",
                nn.Sequential(nn.Linear(K, 48), nn.ReLU(), nn.ReLU()))
        safetensors(self.folder / "model.safetensors", {"0.bias": ("F32", np.ones(48, np.float32))})
        refuses("no quantized layers in it", model(), strict=False)


if __name__ == "__main__":
    main()
