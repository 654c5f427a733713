"""Ends of detectors, whose sizes values of a run say: compiled with first answers, opened once and run on several inputs,
also on some that find nothing, and held to PyPI's onnxruntime.

usage: detection_test.py TUNE_CLI"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

from support import enter, main

enter()
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import tilewright  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

TUNE_CLI = ""
REAL, WHOLE, TRUTH = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model_of(nodes, inputs: dict, outputs: dict, constants: dict) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(op, takes, gives, name=gives[0], **attributes) for op, takes, gives, attributes in nodes], "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Detection(unittest.TestCase):
    def compiled(self, model: onnx.ModelProto, *options) -> tuple[dict, pathlib.Path]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        onnx.save(model, self.folder / "m.onnx")
        done = subprocess.run([TUNE_CLI, "compile", "m.onnx", "-o", "m.tw", "--db", "k.db", "--trials", "0", "--threads", "1",
                               "--json", "--quiet", *options], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), self.folder / "m.tw"

    def check(self, model: onnx.ModelProto, runs: list[dict], found: list[int], plain: list[str], *options) -> None:
        """The first output has these numbers of rows in the runs."""
        said, path = self.compiled(model, *options)
        self.assertEqual([node["operator"] for node in said["plain_nodes"]], plain)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        with tilewright.Model(path, threads=1) as opened:
            self.assertEqual([node.spec for node in opened.nodes if node.spec.startswith("plain ")],
                             [f"plain {operator}" for operator in plain])
            for inputs, rows in zip(runs, found, strict=True):
                got = opened(**inputs)
                wanted = session.run(None, inputs)
                self.assertEqual(len(wanted[0]), rows)
                for one, want in zip(got if isinstance(got, tuple) else [got], wanted, strict=True):
                    self.assertEqual(one.shape, want.shape)
                    np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)

    def test_boxes_classes_and_scores(self):
        random = np.random.default_rng(3)
        nodes = [("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["chosen"], {}),
                 ("Slice", ["chosen", "two", "three", "one"], ["places"], {}),
                 ("Squeeze", ["places", "one"], ["place"], {}),
                 ("Squeeze", ["boxes", "zero"], ["all"], {}),
                 ("Gather", ["all", "place"], ["corners"], {"axis": 0}),
                 ("Mul", ["corners", "size"], ["scaled"], {}),
                 ("Slice", ["chosen", "one", "two", "one"], ["class"], {}),
                 ("GatherND", ["scores", "chosen"], ["score"], {}),
                 ("ReduceSum", ["score", "zero"], ["total"], {"keepdims": 0})]
        constants = {"most": np.array([5]), "iou": np.array([0.4], np.float32), "one": np.array([1]), "two": np.array([2]),
                     "three": np.array([3]), "zero": np.array([0]), "size": np.array([640, 480, 640, 480], np.float32)}
        model = model_of(nodes, {"boxes": (REAL, [1, 60, 4]), "scores": (REAL, [1, 3, 60]), "least": (REAL, [1])},
                         {"scaled": REAL, "class": WHOLE, "score": REAL, "total": REAL}, constants)
        corner = random.random((1, 60, 2)).astype(np.float32)
        boxes = np.concatenate([corner, corner + random.random((1, 60, 2)).astype(np.float32) / 2], axis=2)
        scores = random.permutation(180).reshape(1, 3, 60).astype(np.float32) / 180
        runs = [{"boxes": boxes, "scores": scores, "least": np.array([least], np.float32)}
                for least in (0.5, 2, 0, scores.max() - 1e-3)]
        self.check(model, runs, [15, 0, 15, 1], ["NonMaxSuppression"])

    def test_places_of_what_is_above_a_threshold(self):
        random = np.random.default_rng(4)
        nodes = [("Greater", ["x", "least"], ["above"], {}),
                 ("NonZero", ["above"], ["places"], {}),
                 ("Transpose", ["places"], ["rows"], {"perm": [1, 0]}),
                 ("GatherND", ["x", "rows"], ["values"], {}),
                 ("Gather", ["table", "values_at"], ["features"], {"axis": 0}),
                 ("MatMul", ["features", "weight"], ["logits"], {}),
                 ("Softmax", ["logits"], ["classes"], {"axis": -1})]
        nodes.insert(4, ("Gather", ["rows", "zero"], ["values_at"], {"axis": 1}))
        constants = {"zero": np.array(0), "table": random.standard_normal((6, 16)).astype(np.float32),
                     "weight": random.standard_normal((16, 8)).astype(np.float32)}
        model = model_of(nodes, {"x": (REAL, ["batch", 7]), "least": (REAL, [])},
                         {"rows": WHOLE, "values": REAL, "classes": REAL}, constants)
        x = random.permutation(42).reshape(6, 7).astype(np.float32)
        runs = [{"x": x, "least": np.array(least, np.float32)} for least in (30, 100, -1, 40)]
        runs.append({"x": x[:2], "least": np.array(-1, np.float32)})
        self.check(model, runs, [11, 0, 42, 1, 14], ["NonZero"], "--dim", "batch=1..6")

    def test_rows_that_differ(self):
        nodes = [("Unique", ["x"], ["kinds", "first", "", "often"], {"axis": 0}),
                 ("Compress", ["kinds", "chosen"], ["some"], {"axis": 0}),
                 ("Mul", ["some", "some"], ["squares"], {})]
        model = model_of(nodes, {"x": (REAL, [8, 2]), "chosen": (TRUTH, [8])},
                         {"squares": REAL, "kinds": REAL, "first": WHOLE, "often": WHOLE}, {})
        x = np.array([[1, 2], [0, 5], [1, 2], [3, 3], [0, 5], [0, 4], [3, 3], [1, 2]], np.float32)
        runs = [{"x": x, "chosen": np.arange(8) % 2 == 0}, {"x": x, "chosen": np.zeros(8, bool)},
                {"x": np.ones_like(x), "chosen": np.ones(8, bool)}]
        self.check(model, runs, [2, 0, 1], ["Unique:axis=0", "Compress:axis=0"])

    def test_an_exporter_refuses_by_name(self):
        model = model_of([("NonZero", ["x"], ["y"], {})], {"x": (REAL, [4])}, {"y": WHOLE}, {})
        _, path = self.compiled(model)
        done = subprocess.run([TUNE_CLI, "export", path, "-o", "out"], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("'y' is a plain node", done.stderr)


if __name__ == "__main__":
    TUNE_CLI = sys.argv.pop()
    main()
