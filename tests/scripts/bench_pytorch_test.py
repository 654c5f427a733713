"""scripts/bench_pytorch.py: which specs it has operators for."""
import importlib.util
import pathlib
import sys
import types
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def load():
    sys.path.insert(0, str(SCRIPTS))
    spec = importlib.util.spec_from_file_location("bench_pytorch", SCRIPTS / "bench_pytorch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class PlainF32(unittest.TestCase):
    def test_a_width_is_no_stored_weight(self):
        plain = load().is_plain_f32
        image = {"op": "conv2d", "n": 1, "h": 14, "w": 14, "ci": 8, "co": 8, "kernel": 3}
        self.assertTrue(plain(image))
        self.assertFalse(plain({**image, "w.dtype": "i4"}))
        self.assertFalse(plain({**image, "epilogue": ["relu"]}))
        product = {"op": "matmul", "m": 4, "n": 4, "k": 4}
        self.assertTrue(plain(product))
        self.assertFalse(plain({**product, "w": {"dtype": "i4"}}))
        self.assertFalse(plain({**product, "dtype": "bf16"}))


class Attention(unittest.TestCase):
    # A stand-in that keeps shapes: PyTorch itself is no dependency of the tests.
    def call(self, **keys):
        kernel = mock.Mock()
        torch = types.SimpleNamespace(
            randn=lambda *shape: shape, bool="bool", ones=mock.Mock(),
            nn=types.SimpleNamespace(
                functional=types.SimpleNamespace(scaled_dot_product_attention=kernel)))
        load().operator({"op": "attention", "m": 4, "n": 4, "d": 8, **keys}, torch)()
        return kernel.call_args, torch

    def test_heads_may_share_keys(self):
        call, _ = self.call(heads=6, kv_heads=2, n=9, dv=5, scale=2.0)
        self.assertEqual(call.args, ((1, 6, 4, 8), (1, 2, 9, 8), (1, 2, 9, 5)))
        self.assertEqual(call.kwargs, {"attn_mask": None, "is_causal": False, "scale": 2.0,
                                       "enable_gqa": True})

    def test_queries_are_the_last_keys(self):
        call, _ = self.call(causal=True)
        self.assertTrue(call.kwargs["is_causal"])
        call, torch = self.call(causal=True, n=9)
        self.assertFalse(call.kwargs["is_causal"])
        torch.ones.assert_called_once_with(4, 9, dtype="bool")
        torch.ones().tril.assert_called_once_with(5)
        self.assertIs(call.kwargs["attn_mask"], torch.ones().tril())


if __name__ == "__main__":
    unittest.main()
