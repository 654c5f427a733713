"""tilewright.quantize: bounds of the error, layouts, refusals; and kernels on what it makes."""
import itertools
import pathlib
import tempfile
import unittest

import numpy as np

import tilewright
from support import aligned, main
from tilewright import ArgumentError, quantize
from tilewright._arrays import pack_bits

INTEGERS = ("i8", "u8", "i4", "u4", "i2", "u2", "u1")
FLOATS = ("f8e4m3", "f8e5m2", "f4e2m1", "nf4")
SCALES = ("f32", "f16", "bf16", "e8m0", "f8e4m3")
# The largest distance of neighbouring values, of those at most 1 in magnitude.
WIDEST = {"f8e4m3": 32 / 448, "f8e5m2": 8192 / 57344, "f4e2m1": 2 / 6, "nf4": 0.31}


def weight(*shape: int, seed: int = 0) -> np.ndarray:
    """Columns of several magnitudes, one of zeros, and one with no negative element."""
    random = np.random.default_rng(seed)
    w = random.standard_normal(shape).astype(np.float32)
    w *= np.exp2(random.integers(-6, 7, shape[-1])).astype(np.float32)
    w[..., 1] = 0
    w[..., 2] = np.abs(w[..., 2]) + 1
    return w


def scales_of(q: tilewright.Quantized, k: int) -> np.ndarray:
    """A scale for each row of a weight [k, n], decoded by hand."""
    if q.scale == "bf16":
        values = (q.scales.astype(np.uint32) << 16).view(np.float32)
    elif q.scale == "e8m0":
        values = np.exp2(q.scales.astype(np.float64) - 127)
    elif q.scale == "f8e4m3":
        power, rest = q.scales >> 3, q.scales & 7
        values = np.where(power > 0, np.exp2(power.astype(float) - 7) * (1 + rest / 8), rest / 512)
    else:
        values = q.scales.astype(np.float64)
    return np.repeat(values, k if q.group == -1 else q.group, axis=0)[:k]


class Bounds(unittest.TestCase):
    def test_integers_are_off_by_half_a_scale(self):
        w = weight(100, 16)
        for dtype, scale, group in itertools.product(INTEGERS, SCALES, (32, 1, 100, 200, -1)):
            with self.subTest(dtype=dtype, scale=scale, group=group):
                q = quantize(w, dtype, group=group, scale=scale)
                granted = scales_of(q, 100) / 2
                off = np.abs(q.dequantize() - w)
                self.assertTrue((off <= granted * (1 + 1e-5)).all(), (off / granted).max())
                self.assertEqual(q.dequantize()[:, 1].tolist(), [0] * 100)

    def test_groups_of_zeros_have_codes_and_zero_points_of_0(self):
        for dtype, symmetric in (("i4", False), ("u4", False), ("u4", True)):
            with self.subTest(dtype=dtype, symmetric=symmetric):
                q = quantize(weight(100, 16), dtype, group=32, zero="f16", symmetric=symmetric)
                self.assertEqual(q.zeros[:, 1].tolist(), [0] * 4)
                self.assertEqual(q.dequantize()[:, 1].tolist(), [0] * 100)

    def test_floats_are_off_by_half_the_distance_of_their_neighbours(self):
        w = weight(96, 16)
        largest = np.abs(w).reshape(3, 32, 16).max(axis=1)
        for dtype, scale in itertools.product(FLOATS, ("f32", "f16", "bf16")):
            with self.subTest(dtype=dtype, scale=scale):
                off = np.abs(quantize(w, dtype, group=32, scale=scale).dequantize() - w)
                granted = np.repeat(largest, 32, axis=0) * WIDEST[dtype] / 2
                self.assertTrue((off <= granted * 1.01 + 1e-30).all(), (off / granted).max())

    def test_zero_points_use_the_range_that_there_is(self):
        w = np.linspace(3, 4, 32 * 8, dtype=np.float32).reshape(32, 8)
        w[0] = 0
        whole, middle = quantize(w, "u4"), quantize(w, "u4", symmetric=True)
        self.assertTrue((np.abs(whole.dequantize() - w) <= 4 / 15 / 2 * 1.001).all())
        self.assertTrue((np.abs(middle.dequantize() - w) <= 4 / 7 / 2 * 1.001).all())
        self.assertGreater(np.abs(middle.dequantize() - w).max(), 4 / 15 / 2)
        self.assertEqual(set(middle.zeros.flat), {0x88})

    def test_zero_points_in_f16(self):
        w = weight(64, 16) + 1
        for dtype in ("i4", "u4", "i8"):
            q = quantize(w, dtype, group=32, zero="f16", symmetric=False)
            self.assertEqual((q.zeros.dtype, q.zeros.shape), (np.float16, (2, 16)))
            self.assertTrue((np.abs(q.dequantize() - w) <= scales_of(q, 64) * 0.57).all(), dtype)

    def test_signs_alone(self):
        w = weight(32, 16)
        q = quantize(w, "i1", group=16)
        values = q.dequantize()
        np.testing.assert_array_equal(np.sign(values[w != 0]), np.sign(w[w != 0]))
        mean = np.abs(w).reshape(2, 16, 16).mean(axis=1)
        kept = np.delete(np.arange(16), 1)
        np.testing.assert_allclose(np.abs(values).reshape(2, 16, 16)[:, 0, kept], mean[:, kept], rtol=1e-5)

    def test_what_is_representable_is_kept(self):
        codes = np.random.default_rng(1).integers(-7, 8, (64, 8)).astype(np.float32)
        codes[0] = 7
        np.testing.assert_array_equal(quantize(codes * 0.25, "i4").dequantize(), codes * 0.25)


class Layout(unittest.TestCase):
    def test_it_unpacks_into_codes_scales_and_zeros(self):
        codes, scales, zeros = quantize(weight(256, 32), "u4", group=128)
        self.assertEqual((codes.shape, codes.dtype), ((256, 16), np.uint8))
        self.assertEqual((scales.shape, scales.dtype), ((2, 32), np.float32))
        self.assertEqual((zeros.shape, zeros.dtype), ((2, 16), np.uint8))
        for array in (codes, scales, zeros):
            self.assertEqual(array.ctypes.data % 64, 0)
        codes, scales, zeros = quantize(weight(256, 32), "i4")
        self.assertIsNone(zeros)

    def test_codes_are_packed_the_lowest_bits_first(self):
        codes = np.array([[1, 2, 3, -4]], np.int16)
        self.assertEqual(pack_bits(codes, 4).tolist(), [[0x21, 0xC3]])
        self.assertEqual(pack_bits(codes & 3, 2).tolist(), [[0b00111001]])

    def test_a_transposed_weight_has_the_same_groups(self):
        w = weight(64, 16)
        q, turned = quantize(w, "u4", group=32), quantize(w.T, "u4", group=32, axis=1)
        np.testing.assert_array_equal(q.scales, turned.scales)
        np.testing.assert_array_equal(q.zeros, turned.zeros)
        self.assertEqual(turned.codes.shape, (16, 32))
        np.testing.assert_array_equal(q.dequantize(), turned.dequantize().T)

    def test_batches_and_windows(self):
        w = weight(3, 64, 16)
        q = quantize(w, "i8", group=16, axis=1)
        self.assertEqual((q.codes.shape, q.scales.shape), ((3, 64, 16), (3, 4, 16)))
        for b in range(3):
            np.testing.assert_array_equal(q.dequantize()[b], quantize(w[b], "i8", group=16).dequantize())
        window = weight(3, 2, 8, 16)  # a convolution's: all but the last axis is summed over
        q = quantize(window, "i8", group=12)
        self.assertEqual((q.axis, q.scales.shape), ((0, 1, 2), (4, 16)))
        flat = quantize(window.reshape(48, 16), "i8", group=12)
        np.testing.assert_array_equal(q.codes.reshape(48, 16), flat.codes)
        np.testing.assert_array_equal(q.scales, flat.scales)

    def test_any_layout_and_float_of_numpy(self):
        w = weight(64, 16).astype(np.float16).astype(np.float32)
        wanted = quantize(w, "u4", group=32).codes
        for other in (np.asfortranarray(w), w.astype(np.float64), w.astype(np.float16),
                      np.repeat(w, 2, axis=1)[:, ::2]):
            np.testing.assert_array_equal(quantize(other, "u4", group=32).codes, wanted)

    def test_types_may_be_numpys(self):
        w = weight(64, 16)
        q = quantize(w, np.int8, scale=np.float16)
        self.assertEqual((q.dtype, q.scale, q.keys), ("i8", "f16", "w.dtype=i8,w.group=-1,w.scale=f16"))
        self.assertEqual(quantize(w, "u4", group=32).keys,
                         "w.dtype=u4,w.group=32,w.scale=f32,w.zero=u4")


class Refusals(unittest.TestCase):
    def refuses(self, pattern: str, w=None, dtype="u4", **options):
        with self.assertRaisesRegex(ArgumentError, pattern):
            quantize(weight(64, 16) if w is None else w, dtype, **options)

    def test_arguments(self):
        self.refuses("dtype is 'f16'; expected one of i8, u8", dtype="f16")
        self.refuses("scale is 'i8'; expected one of f32", scale="i8")
        self.refuses("group is 0; expected a number of elements", group=0)
        self.refuses("i4 .*expected 'f16'|zero is 'u4' beside i4", dtype="i4", zero="u4")
        self.refuses("u4 without zero points holds no negative", zero="none")
        self.refuses("asymmetric groups need zero points", dtype="i4", zero="none", symmetric=False)
        self.refuses("zero is 'u2', which does not hold all codes of u4", zero="u2")
        self.refuses("nf4 has no zero points here", dtype="nf4", symmetric=False)
        self.refuses("u1 has no middle", dtype="u1", symmetric=True)
        self.refuses("a row of 15 codes of u4 fills no whole bytes", w=weight(64, 15))
        self.refuses("axis is \\[0, 1\\]; expected axes of 2", axis=[0, 1])
        self.refuses("axis is 2; expected axes of 2", axis=2)

    def test_weights(self):
        self.refuses("a weight of int64; expected floats", w=np.ones((4, 4), np.int64))
        self.refuses("a weight of shape \\[4\\]; expected two axes", w=np.ones(4, np.float32))
        self.refuses("infinite or NaN", w=np.array([[1, np.nan]] * 2, np.float32))
        self.refuses("needs the scale 1e\\+06, which f16 cannot hold", w=weight(64, 16) * 0 + 1.5e7,
                     scale="f16")


class Served(unittest.TestCase):
    """Kernels on quantized weights: products with the values that dequantize() gives."""

    def test_kernels_take_what_quantize_makes(self):
        m, n, k, group = 3, 32, 128, 32
        w, a = weight(k, n, seed=2) / 64, aligned(weight(m, k, seed=3) / 64)
        cases = [quantize(w, "u4", group=group), quantize(w, "i4", group=group, scale="f16"),
                 quantize(w, "i8", scale="bf16"), quantize(w, "f8e4m3", group=group),
                 quantize(w, "nf4", group=group), quantize(w, "i4", group=group, symmetric=False),
                 quantize(w, "f4e2m1", group=group, scale="e8m0"), quantize(w, "i1", group=group),
                 quantize(w.T, "u2", group=group, axis=1)]
        specs = [f"matmul:m={m},n={n},k={k},{q.keys}" for q in cases]
        specs[-1] += ",trans_b=true"
        with tempfile.TemporaryDirectory() as folder:
            database = pathlib.Path(folder, "kernels.db")
            tilewright.tune(specs, db=database, trials=1, threads=1, progress=None)
            prepared = tilewright.Library(database).prepare(specs, threads=1)
            for q, spec in zip(cases, specs):
                with self.subTest(spec):
                    kernel, values = prepared[spec], q.dequantize()
                    values = values.T if "trans_b" in spec else values
                    whole = kernel(a, weights=kernel.pack({"B": q}))
                    size = np.abs(a) @ np.abs(values)
                    self.assertTrue((np.abs(whole - a @ values) <= 1e-5 * size + 1e-12).all())
                    apart = kernel(a, weights=kernel.pack(q.operands()))
                    np.testing.assert_array_equal(whole, apart)
            with self.assertRaisesRegex(ArgumentError, "operand 'B.scale' comes with that of 'B'"):
                kernel.pack({"B": q, "B.scale": q.scales})


if __name__ == "__main__":
    main()
