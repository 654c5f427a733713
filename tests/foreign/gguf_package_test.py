"""Weights with offsets in a file that PyPI's gguf writes: tune-cli multiplies their codes, and the
products are those of the values that gguf.quants.dequantize gives.

usage: gguf_package_test.py TUNE_CLI"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import enter, main

enter()

import gguf  # noqa: E402
import gguf.quants  # noqa: E402
import numpy  # noqa: E402

TUNE_CLI = ""
M, N, K = 3, 32, 512
PRODUCT = f"matmul:m={M},n={N},k={K}"
# Places of the f16 numbers in a block, by type.
HALVES = {"Q2_K": (80, 82), "Q4_K": (0, 2), "Q5_K": (0, 2)}
STEPS = 0.0013, 0.0041
KEYS = {"Q4_1": "w.dtype=u4,w.group=32,w.scale=f16,w.offset=f16",
        "Q5_1": "w.dtype=u8,w.group=32,w.scale=f16,w.offset=f16",
        "Q2_K": "w.dtype=u2,w.group=16,w.scale=f32,w.offset=f32",
        "Q4_K": "w.dtype=u4,w.group=32,w.scale=f32,w.offset=f32",
        "Q5_K": "w.dtype=u8,w.group=32,w.scale=f32,w.offset=f32"}


def blocks_of(name: str, random: numpy.random.Generator) -> numpy.ndarray:
    """Rows of blocks of this type. The package quantizes to Q4_1 and Q5_1; blocks of the others have
    random bits, with scales and steps of what is subtracted that fill an f16."""
    kind = gguf.GGMLQuantizationType[name]
    if name not in HALVES:
        values = random.uniform(-0.25, 1, (N, K)).astype(numpy.float32)
        return gguf.quants.quantize(values, kind)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (N * K // elements, size), dtype=numpy.uint8)
    for place, value in zip(HALVES[name], STEPS):
        blocks[:, place:place + 2] = numpy.frombuffer(numpy.float16(value).tobytes(), numpy.uint8)
    return blocks.reshape(N, -1)


class Products(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.at = pathlib.Path(cls.folder.name)
        random = numpy.random.default_rng(7)
        cls.a = random.uniform(-1, 1, (M, K)).astype(numpy.float32)
        numpy.save(cls.at / "a.npy", cls.a)
        writer = gguf.GGUFWriter(cls.at / "m.gguf", "llama")
        cls.values = {}
        for name in KEYS:
            kind, blocks = gguf.GGMLQuantizationType[name], blocks_of(name, random)
            cls.values[name] = gguf.quants.dequantize(blocks, kind).reshape(N, K)
            writer.add_tensor(name, blocks, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def run_cli(self, *arguments: str) -> str:
        environment = os.environ | {"TILEWRIGHT_DB": str(self.at / "k.db"),
                                    "TILEWRIGHT_CONFIG": "off"}
        done = subprocess.run([TUNE_CLI, *arguments], capture_output=True, text=True, check=False,
                              cwd=self.at, env=environment, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return done.stdout

    def product(self, name: str, keys: str, *options: str) -> numpy.ndarray:
        self.run_cli("run", *(options or ("--default",)), "--threads", "1", "--in", "A=a.npy",
                     "--in", f"B=m.gguf:{name}", "--out", "C=c.npy", PRODUCT + keys)
        return numpy.load(self.at / "c.npy").astype(numpy.float64)

    def test_layers_are_named_as_specs_with_an_offset(self) -> None:
        layers = json.loads(self.run_cli("weights", "m.gguf", "--json"))["layers"]
        self.assertEqual({layer["name"]: layer["w"] for layer in layers}, KEYS)

    def test_codes_with_offsets_give_the_products_of_the_values(self) -> None:
        for name, keys in KEYS.items():
            with self.subTest(name):
                values = self.values[name].astype(numpy.float64).T
                wanted = self.a.astype(numpy.float64) @ values
                # The magnitude of the terms, and what f32 may round off of them.
                bound = 2e-6 * (numpy.abs(self.a) @ numpy.abs(values) + numpy.abs(wanted))
                self.assertTrue((numpy.abs(self.product(name, "," + keys) - wanted) <= bound).all())
                # The reader's own values, bit for bit those of the package, need no keys.
                self.assertTrue((numpy.abs(self.product(name, "") - wanted) <= bound).all())

    def test_halves_of_scales_and_offsets_lose_as_little_as_the_documents_say(self) -> None:
        for name in HALVES:
            with self.subTest(name):
                values = self.values[name].astype(numpy.float64).T
                keys = "," + KEYS[name].replace("f32", "f16")
                # Half a unit of 2^-11 of scaled code and offset each; together with the value these
                # are at most |value| + 2 |offset|, and no offset here exceeds 63 steps.
                terms = numpy.abs(values) + 2 * 63 * STEPS[1]
                bound = (2.0**-11 + 2e-6) * (numpy.abs(self.a) @ terms)
                wanted = self.a.astype(numpy.float64) @ values
                error = numpy.abs(self.product(name, keys) - wanted)
                self.assertTrue((error <= bound).all())
                self.assertGreater(error.max(), 1e-5, "nothing was rounded")

    def test_a_tuned_kernel_takes_them_too(self) -> None:
        keys = "," + KEYS["Q4_K"]
        self.run_cli("tune", PRODUCT + keys, "--trials", "4", "--threads", "1")
        values = self.values["Q4_K"].astype(numpy.float64).T
        wanted = self.a.astype(numpy.float64) @ values
        # Scaled codes and offsets are summed apart: each has a rounding of its own.
        bound = 2e-6 * (numpy.abs(self.a) @ (numpy.abs(values) + 2 * 63 * STEPS[1]))
        got = self.product("Q4_K", keys, "--quiet")
        self.assertTrue((numpy.abs(got - wanted) <= bound).all())


if __name__ == "__main__":
    TUNE_CLI = os.path.abspath(sys.argv.pop(1))
    main()
