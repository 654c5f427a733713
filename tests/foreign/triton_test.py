"""The texts of tune-cli export --triton (tests/golden/export_triton_test): Triton compiles each for sm_80 and sm_90, and
its interpreter computes each on NumPy's arrays, compared with the product in f64.

usage: triton_test.py"""
import importlib.machinery
import importlib.util
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, enter, main, skip

enter()
TEXTS = sorted((ROOT / "tests" / "golden" / "export_triton_test").glob("*.txt"))

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

try:
    import triton  # noqa: E402
    from triton.backends.compiler import GPUTarget  # noqa: E402
    from triton.compiler import ASTSource  # noqa: E402
except ImportError:
    skip("no Triton: scripts/deps --triton installs it")

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "u8": np.uint8,
         "i32": np.int32}
EPSILON = {"f32": 2**-20, "f16": 2**-10, "bf16": 2**-7, "i32": 0}


def load(path: pathlib.Path):
    """The module of a text, which has to be a file."""
    loader = importlib.machinery.SourceFileLoader(path.stem, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


class Tensor:
    """As much of a tensor of PyTorch as the interpreter uses, over an array."""

    def __init__(self, array: np.ndarray):
        self.array = np.ascontiguousarray(array)
        names = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
        name = str(self.array.dtype)
        self.dtype = names.get(name, name.replace("uint", "u").replace("int", "i"))

    def data_ptr(self): return self.array.ctypes.data
    def untyped_storage(self): return self
    def cpu(self): return self
    def copy_(self, other): pass
    def new_empty(self, *_, **__): return self
    def set_(self, *_): pass
    def storage_offset(self): return 0
    def size(self): return self.array.shape
    def stride(self): return [s // self.array.itemsize for s in self.array.strides]


def read_spec(text: str) -> dict:
    """The keys of "# matmul:m=1..64,n=48,epilogue=[bias,relu]"; of a range its last size but one."""
    keys = dict(re.findall(r"([\w.]+)=(\[[^]]*\]|[^,\n]*)", text.split("\n", 2)[1]))
    return {k: str(int(v.split("..")[1]) - 1) if ".." in v else v for k, v in keys.items()}


class Case:
    """Operands of a spec as Triton takes them, and the result in f64."""

    def __init__(self, text: str):
        self.keys = keys = read_spec(text)
        self.random = np.random.default_rng(1)
        self.arrays: dict[str, np.ndarray] = {}
        self.m, self.n, self.k, self.batch = (int(keys.get(x, 1)) for x in ("m", "n", "k", "batch"))
        self.type = keys.get("dtype", "f32")
        a, b = self.activations(), self.weight()
        self.sums = np.abs(a) @ np.abs(b)
        self.out = self.epilogue(a @ b)

    def shape(self, rows: int, columns: int) -> tuple:
        return (rows, columns) if self.batch == 1 else (self.batch, rows, columns)

    def draw(self, name: str, shape: tuple, kind: str, low=-1.0, high=1.0) -> np.ndarray:
        """Stored values of an operand as f64."""
        if kind in ("i8", "u8"):
            array = self.random.integers(-8 if kind == "i8" else 0, 100, shape)
        else:
            array = self.random.uniform(low, high, shape)
        self.arrays[name] = array.astype(TYPES[kind])
        return self.arrays[name].astype(np.float64)

    def codes(self, name: str, shape: tuple, kind: str) -> np.ndarray:
        if kind not in ("u4", "i4"):
            return self.draw(name, shape, kind)
        stored = self.random.integers(0, 16, shape)
        pairs = stored.reshape(-1, 2)
        self.arrays[name] = (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8)
        return np.where(stored < 8, stored, stored - 16 * (kind == "i4")).astype(np.float64)

    def activations(self) -> np.ndarray:
        turned = self.keys.get("trans_a") == "true"
        a = self.draw("A_ptr", self.shape(*((self.k, self.m) if turned else (self.m, self.k))), self.type)
        return a.swapaxes(-1, -2) if turned else a

    def weight(self) -> np.ndarray:
        turned = self.keys.get("trans_b") == "true"
        b = self.codes("B_ptr", self.shape(*((self.n, self.k) if turned else (self.k, self.n))),
                       self.keys.get("w.dtype", self.type))
        b = b.swapaxes(-1, -2) if turned else b
        if "w.dtype" not in self.keys:
            return b
        group = int(self.keys.get("w.group", -1))
        group = self.k if group < 0 else group
        of_k = np.arange(self.k) // group
        shape = self.shape(-(-self.k // group), self.n)
        zero = self.keys.get("w.zero", "none")
        if zero != "none":
            b = b - (self.codes if zero in ("u4", "u8") else self.draw)("B_zero_ptr", shape, zero)[..., of_k, :]
        b = b * self.draw("B_scale_ptr", shape, self.keys.get("w.scale", "f32"), 0.01, 0.1)[..., of_k, :]
        offset = self.keys.get("w.offset", "none")
        return b if offset == "none" else b + self.draw("B_offset_ptr", shape, offset)[..., of_k, :]

    def epilogue(self, x: np.ndarray) -> np.ndarray:
        for step in self.keys.get("epilogue", "[]")[1:-1].split(","):
            if step == "bias":
                x = x + self.draw("bias_ptr", (self.n,), self.type)
            elif step == "add":
                x = x + self.draw("D_ptr", self.shape(self.m, self.n), self.type)
            elif step == "relu":
                x = np.maximum(x, 0)
            elif step == "silu":
                x = x / (1 + np.exp(-x))
            elif step == "gelu":
                x = x * 0.5 * (1 + np.vectorize(math.erf)(x * 0.5**0.5))
        return x


class Compiled(unittest.TestCase):
    def test_there_are_texts(self):
        self.assertGreater(len(TEXTS), 8)

    def test_the_interpreter_computes_them(self):
        """Triton reads TRITON_INTERPRET when it is imported, so the interpreter has a process of its own."""
        done = subprocess.run([sys.executable, __file__, "Interpreted"], capture_output=True, text=True, check=False,
                              env={**os.environ, "TRITON_INTERPRET": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_triton_compiles_them(self):
        for path in TEXTS:
            module = load(path)
            for kernel, signature in module.KERNELS:
                for architecture in (80, 90):
                    with self.subTest(path.stem, kernel=kernel.__name__, architecture=architecture):
                        made = triton.compile(ASTSource(kernel, signature, {}), GPUTarget("cuda", architecture, 32),
                                              module.OPTIONS)
                        self.assertIn(f".target sm_{architecture}", made.asm["ptx"])
                        self.assertGreater(len(made.asm["cubin"]), 1000)


class Interpreted(unittest.TestCase):
    def test_they_compute_the_product(self):
        for path in TEXTS:
            with self.subTest(path.stem):
                self.compare(path)

    def compare(self, path: pathlib.Path):
        text = path.read_text(encoding="utf-8")
        case = Case(text)
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, path.name)
            if case.type == "bf16":
                # The interpreter has bf16 as bits, which it multiplies and converts from integers as such (a limit
                # that Triton documents).
                text = text.replace("codes.to(tl.bfloat16)", "codes.to(tl.float32)")
                text = text.replace("tl.dot(a, b", "tl.dot(a.to(tl.float32), b.to(tl.float32)")
            copy.write_text(text, encoding="utf-8")
            self.run_text(load(copy), case)

    def run_text(self, module, case: Case):
        kind = case.keys.get("out", case.type if case.type != "i8" else "f32" if "acc" in case.keys else "i32")
        c = Tensor(np.full(case.out.shape, 77).astype(TYPES[kind]))
        arguments = []
        for name in module.run.__code__.co_varnames[:module.run.__code__.co_argcount]:
            if name == "C_ptr":
                arguments.append(c)
            elif name == "parts_ptr":
                arguments.append(Tensor(np.full((16, *case.out.shape), np.nan, np.float32)))
            elif name == "m_size":
                arguments.append(case.m)
            else:
                arguments.append(Tensor(case.arrays.pop(name)))
        self.assertEqual(case.arrays, {}, "operands that the text does not take")
        module.run(*arguments)
        far = np.abs(c.array.astype(np.float64) - case.out)
        allowed = EPSILON[kind] * np.abs(case.out) + (2**-18 * (case.sums + 1) if kind != "i32" else 0)
        self.assertLessEqual(float((far - allowed).max()), 0, f"off by up to {far.max()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        sys.argv[1:] = sys.argv[1:] or ["Compiled"]
        main()
