"""Operators of the domain com.microsoft, which ONNX Runtime writes into files that it optimized or quantized: the
outputs of graphs, by their interpreter, are held to those of PyPI's onnxruntime."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import warnings

from support import enter, main

enter()
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

PROGRAM = os.environ["ONNX_GRAPH"]
RANDOM = np.random.default_rng(7)
TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int64": TensorProto.INT64,
         "int32": TensorProto.INT32, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


def reals(*shape, scale=1.0) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def codes(*shape, kind=np.uint8) -> np.ndarray:
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(kind)


class Contributed(unittest.TestCase):
    def check(self, op: str, inputs: list, outputs: list, constants=(), tolerance=1e-4, same=None, **attributes) -> dict:
        """Inputs are arrays or None, outputs are types or None; `constants` are the numbers of inputs that are, `same`
        are inputs for the other runtime, where that does not take these."""
        wanted = self.wanted(op, same or inputs, outputs, constants, attributes)[1]
        model = self.wanted(op, inputs, outputs, constants, attributes, run=False)[0]
        return self.compare(model, [a for i, a in enumerate(inputs) if a is not None and i not in constants], wanted,
                            tolerance)

    @staticmethod
    def wanted(op, inputs, outputs, constants, attributes, run=True):
        """The model of one node, and what onnxruntime makes of it."""
        names = [f"i{i}" if array is not None else "" for i, array in enumerate(inputs)]
        results = [f"o{i}" if kind else "" for i, kind in enumerate(outputs)]
        node = helper.make_node(op, names, results, domain="com.microsoft", **attributes)
        given = [i for i, array in enumerate(inputs) if array is not None and i not in constants]
        graph = helper.make_graph(
            [node], "g",
            [helper.make_tensor_value_info(names[i], TYPES[inputs[i].dtype.name], inputs[i].shape) for i in given],
            [helper.make_tensor_value_info(f"o{i}", kind, None) for i, kind in enumerate(outputs) if kind],
            [numpy_helper.from_array(inputs[i], names[i]) for i in constants if inputs[i] is not None])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                        helper.make_opsetid("com.microsoft", 1)], ir_version=9)
        if not run:
            return model, None
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return model, session.run(None, {names[i]: inputs[i] for i in given})

    def compare(self, model, given, wanted, tolerance) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, pathlib.Path(folder, "model.onnx"))
            for number, array in enumerate(given):
                np.save(pathlib.Path(folder, f"in{number}.npy"), array)
            done = subprocess.run([PROGRAM, folder], capture_output=True, text=True, check=True)
            said = json.loads(done.stdout)
            self.assertNotIn("error", said)
            for number, want in enumerate(wanted):
                got = np.load(pathlib.Path(folder, f"out{number}.npy"))
                self.assertEqual(got.shape, want.shape)
                off = np.abs(got.astype(float) - want.astype(float)).max()
                most = max(1e-6, float(np.abs(want.astype(float)).max()))
                # A code may be a neighbour where a sum lies between two.
                limit = 1 if want.dtype in (np.uint8, np.int8) else tolerance * most
                self.assertLessEqual(off, limit, f"output {number}")
        return said

    def test_weights_of_few_bits(self):
        for bits, k, block, shifted, bias in ((4, 64, 32, False, False), (4, 64, 16, True, True), (4, 72, 32, True, False),
                                              (8, 64, 32, False, True), (8, 64, 16, True, False), (2, 64, 32, True, False)):
            with self.subTest(bits=bits, k=k, block=block, shifted=shifted):
                n, groups = 24, -(-k // block)
                weight = codes(n, groups, block * bits // 8)
                scales = np.abs(reals(n * groups, scale=0.1)) + 0.01
                zeros = codes(n * -(-groups * bits // 8)) if shifted else None
                inputs = [reals(2, 3, k), weight, scales, zeros, None, reals(n) if bias else None]
                self.check("MatMulNBits", inputs, [TensorProto.FLOAT], constants=(1, 2, 3, 5), K=k, N=n, bits=bits,
                           block_size=block)

    def test_functions(self):
        for op, inputs in (("BiasGelu", [reals(3, 16), reals(16)]), ("FastGelu", [reals(3, 16), reals(16)]),
                           ("FastGelu", [reals(3, 16)]), ("QuickGelu", [reals(3, 16)]), ("Gelu", [reals(3, 16)])):
            with self.subTest(op):
                self.check(op, inputs, [TensorProto.FLOAT])

    def test_normalizations(self):
        x, row = reals(2, 5, 16), lambda: reals(16)
        self.check("SkipLayerNormalization", [x, reals(2, 5, 16), row(), row(), row()],
                   [TensorProto.FLOAT, None, None, TensorProto.FLOAT], (2, 3, 4), epsilon=1e-3)
        self.check("SkipLayerNormalization", [x, reals(5, 16), row(), row()], [TensorProto.FLOAT], (2, 3), epsilon=1e-3)
        self.check("SkipSimplifiedLayerNormalization", [x, reals(2, 5, 16), row(), row()],
                   [TensorProto.FLOAT, None, None, TensorProto.FLOAT], (2, 3), epsilon=1e-3)

    def test_embedding(self):
        ids = RANDOM.integers(0, 20, (2, 5)).astype(np.int32)
        kinds = RANDOM.integers(0, 2, (2, 5)).astype(np.int32)
        mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
        tables = [reals(20, 16), reals(8, 16), reals(2, 16), reals(16), reals(16)]
        self.check("EmbedLayerNormalization", [ids, kinds, *tables, mask],
                   [TensorProto.FLOAT, TensorProto.INT32, TensorProto.FLOAT], (2, 3, 4, 5, 6), epsilon=1e-5)
        places = np.array([[4, 3, 2, 1, 0]], np.int32)
        self.check("EmbedLayerNormalization", [ids, None, *tables[:2], None, *tables[3:], None, places],
                   [TensorProto.FLOAT, TensorProto.INT32], (2, 3, 5, 6), epsilon=1e-5)

    def test_products(self):
        self.check("FusedMatMul", [reals(2, 8, 3), reals(2, 5, 8)], [TensorProto.FLOAT], transA=1, transB=1, alpha=0.5)
        self.check("FusedGemm", [reals(4, 8), reals(8, 6), reals(6)], [TensorProto.FLOAT], (1, 2), activation="Relu")
        for name, numbers in (("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("Tanh", []), ("Sigmoid", []),
                              ("HardSigmoid", [0.2, 0.4])):
            with self.subTest(name):
                self.check("FusedConv", [reals(1, 4, 6, 6), reals(8, 4, 3, 3), reals(8)], [TensorProto.FLOAT],
                           constants=(1, 2), activation=name, kernel_shape=[3, 3], **({"activation_params": numbers}
                                                                                    if numbers else {}))
        self.check("FusedConv", [reals(1, 4, 6, 6), reals(8, 4, 3, 3), reals(8), reals(1, 8, 4, 4)], [TensorProto.FLOAT],
                   constants=(1, 2), activation="Relu", kernel_shape=[3, 3])

    def test_products_of_codes(self):
        x, w, scale = reals(3, 16), codes(16, 8, kind=np.int8), np.float32(0.02)
        self.check("DynamicQuantizeMatMul", [x, w, np.array(scale), np.array(3, np.int8), reals(8)],
                   [TensorProto.FLOAT], constants=(1, 2, 3, 4), tolerance=1e-3)
        self.check("DynamicQuantizeMatMul", [x, w, np.abs(reals(8, scale=0.1)), np.zeros(8, np.int8)],
                   [TensorProto.FLOAT], constants=(1, 2, 3), tolerance=1e-3)
        self.check("MatMulIntegerToFloat", [codes(3, 16), w, np.array(scale), np.abs(reals(8, scale=0.1)),
                                            np.array(120, np.uint8), np.zeros(8, np.int8), reals(8)],
                   [TensorProto.FLOAT], constants=(1, 2, 3, 4, 5, 6))

    def test_functions_of_codes(self):
        s, z = lambda value: np.array(value, np.float32), lambda value: np.array(value, np.uint8)
        x = codes(2, 3, 4)
        self.check("QLinearSigmoid", [x, s(0.05), z(128), s(1 / 256), z(0)], [TensorProto.UINT8], constants=(1, 2, 3, 4))
        self.check("QLinearLeakyRelu", [x, s(0.05), z(128), s(0.04), z(100)], [TensorProto.UINT8],
                   constants=(1, 2, 3, 4), alpha=0.1)
        self.check("QLinearAdd", [x, s(0.05), z(128), codes(4), s(0.02), z(3), s(0.06), z(100)], [TensorProto.UINT8],
                   constants=(1, 2, 4, 5, 6, 7))
        self.check("QLinearConcat", [s(0.06), z(100), x, s(0.05), z(128), codes(2, 5, 4), s(0.02), z(3), codes(2, 1, 4),
                                     s(0.06), z(100)], [TensorProto.UINT8], constants=(0, 1, 3, 4, 6, 7, 9, 10), axis=1)

    def test_attention_of_several_inputs(self):
        b, s, t, heads, width = 2, 3, 5, 2, 8
        h = heads * width
        self.check("MultiHeadAttention", [reals(b, s, h), reals(b, t, h), reals(b, t, h)], [TensorProto.FLOAT],
                   num_heads=heads)
        mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
        self.check("MultiHeadAttention", [reals(b, s, h), reals(b, t, h), reals(b, t, h), reals(3 * h), mask,
                                          reals(1, heads, s, t)], [TensorProto.FLOAT], num_heads=heads, scale=0.3)
        packed = reals(b, s, heads, 3, width)
        self.check("MultiHeadAttention", [packed], [TensorProto.FLOAT], num_heads=heads,
                   same=[packed[:, :, :, i].reshape(b, s, h) for i in range(3)])
        queries, packed = reals(b, s, h), reals(b, t, heads, 2, width)
        self.check("MultiHeadAttention", [queries, packed], [TensorProto.FLOAT], num_heads=heads,
                   same=[queries, *(packed[:, :, :, i].reshape(b, t, h) for i in range(2))])
        self.check("MultiHeadAttention", [reals(b, s, h), reals(b, s, h), reals(b, s, h), None, None, None,
                                          reals(b, heads, t, width), reals(b, heads, t, width)],
                   [TensorProto.FLOAT] * 3, num_heads=heads, unidirectional=1)

    def test_attention_with_its_projection(self):
        b, s, h = 2, 4, 16
        x, w, bias = reals(b, s, h), reals(h, 3 * h, scale=0.3), reals(3 * h)
        mask = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], np.int32)
        for mask in (None, mask, np.array([2, 4], np.int32)):
            self.check("Attention", [x, w, bias, mask], [TensorProto.FLOAT], constants=(1, 2), num_heads=2)
        self.check("Attention", [x, w, bias], [TensorProto.FLOAT], constants=(1, 2), num_heads=2, unidirectional=1)
        self.check("QAttention", [codes(b, s, h), codes(h, 3 * h, kind=np.int8), bias, np.array(0.01, np.float32),
                                  np.array(0.004, np.float32), mask, np.array(120, np.uint8), np.array(0, np.int8)],
                   [TensorProto.FLOAT], constants=(1, 2, 3, 4, 6, 7), num_heads=2)

    def test_attention_of_grouped_queries(self):
        b, s, past, heads, own, width = 2, 3, 5, 4, 2, 16
        number = lambda value: np.array(value, np.int32)
        tables = [reals(32, width // 2), reals(32, width // 2)]
        q, k, v = reals(b, s, heads * width), reals(b, s, own * width), reals(b, s, own * width)
        earlier = [reals(b, own, past, width), reals(b, own, past, width)]
        kind = {"num_heads": heads, "kv_num_heads": own}
        three = [TensorProto.FLOAT] * 3
        self.check("GroupQueryAttention", [q, k, v, None, None, number([s - 1] * b), number(s)], three, (6,), **kind)
        for pairs in (0, 1):
            self.check("GroupQueryAttention", [q, k, v, None, None, number([s - 1] * b), number(s), *tables], three,
                       (6,), do_rotary=1, rotary_interleaved=pairs, **kind)
        one = [reals(b, 1, heads * width), reals(b, 1, own * width), reals(b, 1, own * width)]
        for more in ({}, {"do_rotary": 1}, {"local_window_size": 3}, {"softcap": 2.0, "scale": 0.2}):
            with self.subTest(more):
                self.check("GroupQueryAttention",
                           [*one, *earlier, number([past] * b), number(past + 1), *tables], three, (6,), **more, **kind)
        packed = reals(b, s, (heads + 2 * own) * width)
        self.check("GroupQueryAttention", [packed, None, None, None, None, number([s - 1] * b), number(s), *tables],
                   three, (6,), do_rotary=1, **kind)


if __name__ == "__main__":
    main()
