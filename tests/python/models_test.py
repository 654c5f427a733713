"""Whole models: what a file tells, what a run takes and refuses, and compile() with a model of its own."""
import pathlib
import tempfile
import threading
import unittest

import numpy as np

import tilewright
from support import Kernels, main, numbers


class Running(Kernels):
    """y = x B + 7 for x of 2 x 2 rows, and z, its elements in one row."""

    def setUp(self):
        super().setUp()
        self.model = tilewright.Model(self.database.with_name("model.tw"), log=self.lines.append)
        units = np.eye(16, dtype=np.float32).reshape(4, 2, 2, 16)
        self.weight = np.concatenate([self.model(rows)[0] for rows in units]) - 7
        self.assertGreater(np.abs(self.weight).max(), 0)

    def wanted(self, x):
        return x.reshape(4, 16) @ self.weight + 7

    def test_it_tells_its_ports_and_nodes(self):
        self.assertEqual(self.model.inputs, (("x", "f32", (2, 2, 16), (2, 2, 16)),))
        self.assertEqual(self.model.outputs, (("y", "f32", (4, 8), (4, 8)), ("z", "f32", (32,), (32,))))
        node, = self.model.nodes
        self.assertEqual((node.label, node.spec, node.outcome, node.reason, node.seconds),
                         ("dense", "matmul:m=4,n=8,k=16", "hit", "", 0))
        x = numbers(2, 2, 16, seed=1)
        self.model(x, profile=True)
        self.assertGreater(self.model.nodes[0].seconds, 0)
        for word in ("dense", "matmul:m=4,n=8,k=16", "x: f32[2, 2, 16]"):
            self.assertIn(word, self.model._repr_html_())

    def test_inputs_come_in_order_or_by_name(self):
        x = numbers(2, 2, 16, seed=2)
        for y, z in (self.model(x), self.model(x=x)):
            np.testing.assert_array_equal(y, self.wanted(x))
            np.testing.assert_array_equal(z, y.reshape(-1))

    def test_arrays_of_any_kind(self):
        x = numbers(2, 2, 16, seed=3)
        wide = np.zeros((2, 2, 32), np.float32)
        wide[..., ::2] = x
        odd = np.zeros(65, np.float32)[1:].reshape(2, 2, 16)  # aligned to 4 bytes
        odd[...] = x
        frozen = x.copy()
        frozen.flags.writeable = False
        for given in (wide[..., ::2], odd, frozen, memoryview(x)):
            np.testing.assert_array_equal(self.model(given)[0], self.wanted(x))

    def test_outputs_of_the_callers(self):
        x = numbers(2, 2, 16, seed=4)
        y, spaced = np.zeros((4, 8), np.float32), np.zeros(64, np.float32)
        self.model.run([x], [y, spaced[::2]], pool=tilewright.Pool(2))
        np.testing.assert_array_equal(y, self.wanted(x))
        np.testing.assert_array_equal(spaced[::2], y.reshape(-1))
        self.assertFalse(spaced[1::2].any(), "gaps stay as they were")

    def test_threads_take_turns(self):
        inputs = [numbers(2, 2, 16, seed=seed) for seed in range(8)]
        wrong = []

        def many(x):
            for _ in range(200):
                if not np.array_equal(self.model(x)[0], self.wanted(x)):
                    wrong.append(x)

        threads = [threading.Thread(target=many, args=(x,)) for x in inputs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_refusals(self):
        x, y, z = numbers(2, 2, 16), np.zeros((4, 8), np.float32), np.zeros(32, np.float32)
        refuses, argument, tensor = self.refuses, tilewright.ArgumentError, tilewright.TensorError
        refuses(argument, "2 inputs; the model takes x", self.model, x, x)
        refuses(argument, "'w' is no input of the model; it takes x", self.model, w=x)
        refuses(argument, "input 'x' is given twice", self.model, x, x=x)
        refuses(argument, "no array for input 'x'", self.model)
        refuses(argument, "1 outputs; the model has 2", self.model.run, [x], [y])
        refuses(tensor, r"input 'x': axis 2 has 15; expected 16", self.model, numbers(2, 2, 15))
        refuses(tensor, r"input 'x': its elements are f64; expected f32", self.model, x.astype("f8"))
        refuses(tensor, r"input 'x': got NoneType", self.model, None)
        y.flags.writeable = False
        refuses(tensor, "output 'y': its memory is read-only", self.model.run, [x], [y, z])
        refuses(tilewright.DatabaseError, "no-such.tw", tilewright.Model, "no-such.tw")
        refuses(tilewright.DatabaseError, "model", tilewright.Model, self.database)

    def test_closing(self):
        with self.model as model:
            self.assertFalse(model.closed)
        self.assertTrue(model.closed)
        self.refuses(tilewright.ArgumentError, "the model is closed", model, numbers(2, 2, 16))

    def test_tensors_of_pytorch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch")
        x = numbers(2, 2, 16, seed=5)
        y, z = self.model(torch.from_numpy(x))
        self.assertIsInstance(y, torch.Tensor)
        np.testing.assert_array_equal(y.numpy(), self.wanted(x))
        self.assertEqual(tuple(z.shape), (32,))


class Compiling(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def write_relu(self) -> pathlib.Path:
        """y = relu(x) with x of [batch, 4], as bytes: the test needs no ONNX."""
        def field(number: int, data: bytes | str | int) -> bytes:
            if isinstance(data, int):
                return bytes([number << 3, data])
            data = data.encode() if isinstance(data, str) else data
            return bytes([number << 3 | 2, len(data)]) + data

        def value(name: str) -> bytes:
            shape = field(1, field(2, "batch")) + field(1, field(1, 4))
            return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

        node = field(1, "x") + field(2, "y") + field(3, "act") + field(4, "Relu")
        graph = field(1, node) + field(2, "small") + field(11, value("x")) + field(12, value("y"))
        file = self.path / "relu.onnx"
        file.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 13)))
        return file

    def test_a_model_from_file_to_result(self):
        out, lines = self.path / "relu.tw", []
        told = tilewright.compile(self.write_relu(), out, dims={"batch": 3}, trials=2, threads=1,
                                  db=self.path / "kernels.db", progress=lines.append)
        self.assertEqual((told["out"], told["workloads"]), (str(out), 1))
        model = tilewright.Model(out, threads=1)
        self.assertEqual(model.inputs[0].shape, (3, 4))
        x = numbers(3, 4, seed=6)
        np.testing.assert_array_equal(model(x), np.maximum(x, 0))

    def test_a_range_of_sizes(self):
        out = self.path / "relu.tw"
        tilewright.compile(self.write_relu(), out, dims={"batch": "1..8"}, trials=0, threads=1,
                           db=self.path / "kernels.db", progress=None)
        model = tilewright.Model(out, threads=1)
        self.assertEqual((model.inputs[0].shape, model.inputs[0].least), ((8, 4), (1, 4)))
        for batch in (1, 5, 8):
            x = numbers(batch, 4, seed=batch)
            self.assertEqual(model.output_shapes([x]), ((batch, 4),))
            np.testing.assert_array_equal(model(x), np.maximum(x, 0))
        with self.assertRaisesRegex(tilewright.TensorError, "expected 1 to 8"):
            model(numbers(9, 4))

    def test_what_the_program_refuses(self):
        with self.assertRaisesRegex(tilewright.Error, "batch"):
            tilewright.compile(self.write_relu(), self.path / "relu.tw", db=self.path / "kernels.db",
                               trials=0, progress=None)
        with self.assertRaisesRegex(tilewright.ArgumentError, "bf17"):
            tilewright.compile(self.write_relu(), self.path / "relu.tw", precision="bf17",
                               progress=None)


if __name__ == "__main__":
    main()
