"""Programs made value by value: their text, their errors, and what they compute."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import tilewright
from support import main, numbers

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "own_program.py"


class Graphs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def refuses(self, kind, pattern, function, *arguments, **options):
        with self.assertRaisesRegex(kind, pattern) as caught:
            function(*arguments, **options)
        self.assertIs(type(caught.exception), kind)

    def compiled(self, graph, **options):
        told = graph.compile(self.path / "g.tw", db=self.path / "kernels.db", trials=0, threads=1,
                             progress=None, **options)
        self.assertEqual(told["model"], graph.name)
        return tilewright.Model(self.path / "g.tw", threads=1)

    def test_the_text(self):
        g = tilewright.Graph('a "graph"')
        x = g.input("x", (2, 3))
        y = g.op("matmul:m=2,n=4,k=3", A=x, B=np.ones((3, 4), np.float32), name="y", label="layer")
        g.output(g.view(y, 8, name="flat"), "z")
        self.assertEqual(g.text("c.safetensors"), r'''graph "a \"graph\""
input "x": f32[2, 3]
const "y.B": f32[3, 4] = from "c.safetensors"
"y" = "matmul:m=2,n=4,k=3" (A="x", B="y.B") for "layer"
"z": f32[8] = view "y"
output "z"
''')

    def test_layers_of_a_dict_and_of_lists(self):
        g = tilewright.Graph("layers")
        w, u = numbers(3, 4, seed=1), numbers(4, 2, seed=2)
        x = g.input("x", (2, 3))
        h = g.op({"op": "matmul", "m": 2, "n": 4, "k": 3, "dtype": np.float32, "epilogue": ["bias", "relu"]},
                 A=x, B=w, bias=[1.0, 2.0, 3.0, 4.0])
        g.output(g.op("matmul:m=2,n=2,k=4", A=h, B=u), "y")
        self.assertIn('"y": f32[2, 2]', g.check())
        a = numbers(2, 3, seed=3)
        np.testing.assert_array_equal(self.compiled(g)(a), np.maximum(a @ w + [1, 2, 3, 4], 0) @ u)

    def test_quantized_weights_bring_their_scales(self):
        w = np.random.default_rng(4).standard_normal((64, 32)).astype(np.float32)
        q = tilewright.quantize(w, "u4", group=32)
        g = tilewright.Graph("few bits")
        g.output(g.op("matmul:m=2,n=32,k=64," + q.keys, A=g.input("x", (2, 64)), B=q), "y")
        self.assertIn('const "v1.B": u4[64, 32] = from', g.text())
        a = numbers(2, 64, seed=5)
        np.testing.assert_allclose(self.compiled(g)(a), a @ q.dequantize(), rtol=1e-4, atol=1e-4)

    def test_precision_rounds_as_quantize_does(self):
        w, a = np.random.default_rng(11).standard_normal((64, 64)).astype(np.float32), numbers(2, 64, seed=12)
        for dtype in ("u4", "i4", "u8", "nf4", "f8e4m3"):
            q = tilewright.quantize(w, dtype, group=32)
            given, asked = tilewright.Graph("given"), tilewright.Graph("asked")
            given.output(given.op("matmul:m=2,n=64,k=64," + q.keys, A=given.input("x", (2, 64)), B=q), "y")
            asked.output(asked.op("matmul:m=2,n=64,k=64", A=asked.input("x", (2, 64)), B=w), "y")
            expected = self.compiled(given)(a)
            np.testing.assert_array_equal(self.compiled(asked, precision=f"{dtype}:32")(a), expected, dtype)

    def test_views_and_joined_values(self):
        g = tilewright.Graph("views")
        x, z = g.input("x", (2, 16)), g.input("z", 16)
        parts = [g.op("elementwise:shape=[2,16],fn=relu", X=x), g.op("elementwise:shape=[16],fn=neg", X=z)]
        both = g.join(parts, (3, 16))
        g.output(g.op("softmax:m=2,n=16", X=g.view(both, (2, 16), first=16)), "y")
        a, b = numbers(2, 16, seed=6), numbers(16, seed=7)
        rows = np.stack([np.maximum(a[1], 0), -b]).astype(np.float64)
        expected = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
        np.testing.assert_allclose(self.compiled(g)(a, b), expected, rtol=1e-5)

    def test_a_size_of_each_run(self):
        g = tilewright.Graph("ranged")
        batch, w = g.dim("batch", 1, 8), numbers(3, 4, seed=8)
        x = g.input("x", (batch, 3))
        g.output(g.op(f"matmul:m={batch},n=4,k=3", A=x, B=w), "y")
        model = self.compiled(g)
        for rows in (1, 5, 8):
            a = numbers(rows, 3, seed=rows)
            np.testing.assert_array_equal(model(a), a @ w)
        self.assertEqual(self.compiled(g, dims={"batch": 2}).inputs[0].least, (2, 3))

    def test_states_stay_from_run_to_run(self):
        g = tilewright.Graph("states")
        rows, at = g.input("rows", (1, 4)), g.input("at", 1, "i32")
        kept = g.write(rows, g.state("kept", (3, 4)), at)
        g.output(g.op("reduce:shape=[3,4],axes=[0],kind=sum", X=kept), "y")
        model = self.compiled(g)
        first, second = numbers(1, 4, seed=9), numbers(1, 4, seed=10)
        np.testing.assert_array_equal(model(first, np.array([0], np.int32)), first[0])
        np.testing.assert_array_equal(model(second, np.array([2], np.int32)), first[0] + second[0])

    def test_a_saved_program_is_one_of_the_command_line(self):
        g = tilewright.Graph("saved")
        g.output(g.op("matmul:m=2,n=4,k=3", A=g.input("x", (2, 3)), B=numbers(3, 4)), "y")
        g.save(self.path / "p.tg")
        self.assertEqual(sorted(f.name for f in self.path.iterdir()), ["p.safetensors", "p.tg"])
        told = tilewright.compile(self.path / "p.tg", self.path / "p.tw", db=self.path / "kernels.db",
                                  trials=0, threads=1, progress=None)
        self.assertEqual(told["nodes"], 1)

    def test_mistakes_name_the_node(self):
        g, other = tilewright.Graph("g"), tilewright.Graph("other")
        x = g.input("x", (2, 3))
        wrong = tilewright.ArgumentError
        self.refuses(wrong, "'x' is the name of another value", g.input, "x", 3)
        self.refuses(wrong, r"input 'y' has the shape \[0\]", g.input, "y", 0)
        self.refuses(wrong, "node 'n': got a value of another graph", g.op, "softmax:m=2,n=3", name="n",
                     X=other.input("x", (2, 3)))
        self.refuses(wrong, "constant 'c' of f16 comes in float64; expected float16", g.constant,
                     np.ones(3), "c", "f16")
        self.refuses(wrong, "no operands", g.op, "softmax:m=2,n=3")
        self.refuses(wrong, "no output; expected output", g.compile, self.path / "g.tw")
        self.refuses(wrong, "name that ends in .tg", g.save, self.path / "g.txt")
        self.refuses(wrong, "expected 1 or more and a larger", g.dim, "d", 4, 4)
        y = g.op("matmul:m=2,n=4,k=3", A=x, B=numbers(5, 4), label="layer 1")
        g.output(y)
        self.refuses(wrong, "is an output already", g.output, y)
        self.refuses(wrong, "'layer 1': operand B is 'v1.B' of 20 elements of f32; expected 12", g.check)

    def test_the_example(self):
        done = subprocess.run([sys.executable, EXAMPLE, f"{self.path}/own"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"largest difference from NumPy: [\d.]+e-0[5-9]\n")


if __name__ == "__main__":
    main()
