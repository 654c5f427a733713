"""Files of weights: what they hold, and how their layers go to Kernel.pack."""
import json
import pathlib
import struct
import tempfile
import unittest

import numpy as np

import tilewright
from support import DYNAMIC, PLAIN, Kernels, aligned, main, numbers
from tilewright import ArgumentError, FileError

K, N, GROUP = 64, 32, 16


def safetensors(path: pathlib.Path, tensors: dict) -> pathlib.Path:
    """Writes a file: (type, array) by name."""
    header, data = {}, b""
    for name, (kind, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


class Layer:
    """A layer with 4 bits as GPTQ stores it, and its values by the formula."""

    def __init__(self, shuffled: bool = False):
        random = np.random.default_rng(5)
        self.q = random.integers(0, 16, (K, N)).astype(np.uint32)
        self.zero = random.integers(1, 16, (K // GROUP, N)).astype(np.uint32)
        self.scale = random.uniform(0.01, 0.03, (K // GROUP, N)).astype(np.float16)
        self.group = np.arange(K, dtype=np.int32) // GROUP
        if shuffled:
            random.shuffle(self.group)
        whole = self.q.astype(np.float64) - self.zero[self.group]
        self.values = whole * self.scale[self.group].astype(np.float64)

    @staticmethod
    def packed(numbers_: np.ndarray) -> np.ndarray:
        """Eight neighbours of the first axis in a word."""
        rows = numbers_.reshape(-1, 8, *numbers_.shape[1:])
        return sum(rows[:, i] << np.uint32(4 * i) for i in range(8)).astype(np.int32)

    def tensors(self, name: str) -> dict:
        return {f"{name}.qweight": ("I32", self.packed(self.q)),
                f"{name}.qzeros": ("I32", self.packed((self.zero - 1).T.copy()).T),
                f"{name}.scales": ("F16", self.scale), f"{name}.g_idx": ("I32", self.group)}


def gguf(path: pathlib.Path, name: str, kind: int, shape: tuple, data: bytes) -> pathlib.Path:
    """Writes a file of version 3 with one tensor."""
    text = name.encode()
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", len(text)) + text
    head += struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
    head += struct.pack("<IQ", kind, 0)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return path


class Files(Kernels):
    def setUp(self):
        super().setUp()
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder_ = pathlib.Path(temporary.name)

    def test_tensors_are_listed_and_packed(self):
        b = numbers(16, 8, seed=1)
        path = safetensors(self.folder_ / "m.safetensors",
                           {"w": ("F32", b), "half": ("BF16", np.full((2, 3), 0x3F80, np.uint16)),
                            "wide": ("F64", b.astype(np.float64))})
        file = tilewright.open_weights(path)
        self.assertEqual([t.name for t in file.tensors], ["w", "half", "wide"])
        self.assertEqual(file.tensors[1], ("half", "BF16", "bf16", (2, 3), 12))
        self.assertEqual((list(file), len(file), "w" in file), (["w", "half", "wide"], 3, True))
        arrays = file["half"].arrays()
        self.assertEqual((arrays["B"].dtype, arrays["B"].tolist()), (np.uint16, [[0x3F80] * 3] * 2))
        a = numbers(4, 16)
        for spec, added in ((DYNAMIC, 0), (PLAIN, 7)):
            kernel = self.kernel(spec)
            for name in ("w", "wide"):
                weights = kernel.pack({"B": file[name]})
                np.testing.assert_array_equal(kernel(a, weights=weights), a @ b + added)
        self.assertIn("m.safetensors: 3 tensors, 0 quantized layers", repr(file))
        self.assertEqual(file._repr_html_().count("<tr>"), 4)
        self.assertIn("m.safetensors:w>", repr(file["w"]))

    def test_refusals(self):
        path = safetensors(self.folder_ / "m.safetensors", {"layers.0.w": ("F32", numbers(4, 4))})
        file = tilewright.open_weights(path)
        self.refuses(FileError, "no tensor or quantized layer 'layers.1.w'; there are layers.0.w",
                     file.__getitem__, "layers.1.w")
        self.refuses(FileError, r"shape \[4, 4\] does not fit operand 'B', which is f32\[16, 8\]",
                     self.kernel().pack, {"B": file["layers.0.w"]})
        self.refuses(FileError, "nowhere: cannot be read", tilewright.open_weights, "nowhere")
        self.refuses(ArgumentError, "gptq_format is 'v2'; expected 'gptq' or 'gptq_v2'",
                     tilewright.open_weights, path, gptq_format="v2")
        (self.folder_ / "torn.gguf").write_bytes(b"GGUF\3")
        self.refuses(FileError, "torn.gguf: byte", tilewright.open_weights, self.folder_ / "torn.gguf")


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.layer, cls.shuffled = Layer(), Layer(shuffled=True)
        cls.path = safetensors(cls.folder / "gptq.safetensors",
                               {**cls.layer.tensors("up"), **cls.shuffled.tensors("down")})
        random = np.random.default_rng(9)
        cls.codes = random.integers(-127, 128, (N, K)).astype(np.int8)
        cls.scale = random.uniform(0.01, 0.03, (N, K // 32)).astype(np.float16)
        blocks = b"".join(cls.scale[j, g].tobytes() + cls.codes[j, g * 32:g * 32 + 32].tobytes()
                          for j in range(N) for g in range(K // 32))
        cls.gguf = gguf(cls.folder / "m.gguf", "blk.0.w", 8, (N, K), blocks)
        up, = [layer for layer in tilewright.open_weights(cls.path).layers if layer.name == "up"]
        gguf_layer, = tilewright.open_weights(cls.gguf).layers
        cls.stored, cls.plain = up.spec("1..4"), f"matmul:m=1..4,n={N},k={K}"
        cls.turned = gguf_layer.spec(4, trans_b=True, dtype=np.float32)
        cls.database = cls.folder / "kernels.db"
        specs = [cls.stored, cls.plain, cls.turned]
        tilewright.tune(specs, db=cls.database, trials=1, threads=1, progress=None)
        cls.prepared = tilewright.Library(cls.database).prepare(specs, threads=1)
        cls.a = aligned(random.standard_normal((4, K)).astype(np.float32))

    def close(self, got, values):
        size = np.abs(self.a) @ np.abs(values)
        np.testing.assert_array_less(np.abs(got - self.a @ values), 2e-3 * size)
        self.assertGreater(np.abs(got - self.a @ values[::-1]).max(), 0.1, "another weight differs")

    def test_layers_say_what_they_are(self):
        up, down = tilewright.open_weights(self.path).layers
        self.assertEqual((up.name, up.format, up.k, up.n, up.group, up.bits, up.act_order),
                         ("up", "gptq", K, N, GROUP, 4, False))
        self.assertTrue(down.act_order)
        self.assertEqual(self.stored,
                         f"matmul:m=1..4,n={N},k={K},w.dtype=u4,w.group=16,w.scale=f16,w.zero=u4")
        self.assertEqual(self.turned, f"matmul:m=4,n={N},k={K},trans_b=true,dtype=f32,w.dtype=i8,"
                                      "w.group=32,w.scale=f16")

    def test_a_layer_as_it_is_stored_and_by_its_values(self):
        file = tilewright.open_weights(self.path)
        for spec in (self.stored, self.plain):
            kernel = self.prepared[spec]
            weights = kernel.pack({"B": file["up"]})
            self.assertIsNone(weights.order)
            self.close(kernel(self.a, weights=weights), self.layer.values)

    def test_a_layer_in_act_order(self):
        file = tilewright.open_weights(self.path)
        for spec in (self.stored, self.plain):
            kernel = self.prepared[spec]
            weights = kernel.pack({"B": file["down"]})
            self.assertEqual(weights.order is None, spec == self.plain)
            self.close(kernel(self.a, weights=weights), self.shuffled.values)
            c = tilewright.empty((4, N))
            kernel.launch({"A": self.a, "C": c}, weights=weights)
            self.close(c, self.shuffled.values)

    def test_a_layer_of_a_gguf_file_for_a_transposed_weight(self):
        kernel = self.prepared[self.turned]
        weights = kernel.pack({"B": tilewright.open_weights(self.gguf)["blk.0.w"]})
        values = self.codes * np.repeat(self.scale.astype(np.float64), 32, axis=1)
        self.close(kernel(self.a, weights=weights), values.T)

    def test_arrays_as_they_lie(self):
        arrays = tilewright.open_weights(self.path)["up"].arrays("W")
        self.assertEqual(list(arrays), ["W", "W.scale", "W.zero"])
        codes = arrays["W"]
        self.assertEqual((codes.shape, codes.dtype), ((K, N // 2), np.uint8))
        np.testing.assert_array_equal(np.stack([codes & 15, codes >> 4], -1).reshape(K, N), self.layer.q)
        np.testing.assert_array_equal(arrays["W.scale"], self.layer.scale)
        self.assertEqual(codes.ctypes.data % 64, 0)


if __name__ == "__main__":
    main()
