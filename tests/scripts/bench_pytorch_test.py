"""scripts/bench_pytorch.py: which specs it has operators for."""
import importlib.util
import pathlib
import sys
import unittest

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


if __name__ == "__main__":
    unittest.main()
