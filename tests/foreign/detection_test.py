"""Models whose sizes values of a run say, such as ends of detectors: compiled with first answers, opened once and run on
several inputs, also on some that find nothing, and held to PyPI's onnxruntime. Values that are no sizes are refused.

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


class Compiled(unittest.TestCase):
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


class Detection(Compiled):
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


class Calculated(Compiled):
    """Sizes that a run calculates from values."""

    def check_calculated(self, model: onnx.ModelProto, runs: list[dict], plain: list[str], *options, fails: list[tuple] = ()) -> None:
        """`fails` has inputs and what the refusal says."""
        said, path = self.compiled(model, *options)
        self.assertEqual([node["operator"] for node in said["plain_nodes"]], plain)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        with tilewright.Model(path, threads=1) as opened:
            for run in range(2):  # also behind refusals
                for inputs in runs:
                    wanted = session.run(None, inputs)
                    got = opened(**inputs)
                    for one, want in zip(got if isinstance(got, tuple) else [got], wanted, strict=True):
                        self.assertEqual(one.shape, want.shape)
                        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)
                for inputs, what in fails if run == 0 else []:
                    with self.assertRaisesRegex(Exception, what):
                        opened(**inputs)

    def test_the_largest_of_each_row(self):
        model = model_of([("TopK", ["x", "k"], ["most", "place"], {"axis": 1}), ("Softmax", ["most"], ["shares"], {"axis": 1}),
                          ("TopK", ["x", "k"], ["least", "at"], {"axis": 1, "largest": 0})],
                         {"x": (REAL, ["batch", 9]), "k": (WHOLE, [1])},
                         {"most": REAL, "place": WHOLE, "shares": REAL, "least": REAL}, {})
        x = np.random.default_rng(1).permutation(27).reshape(3, 9).astype(np.float32)
        runs = [{"x": x[:rows], "k": np.array([k])} for rows, k in ((3, 4), (1, 9), (2, 1), (3, 0))]
        fails = [({"x": x, "k": np.array([k])}, f"'most': a size is {k} in this run; expected 0 to 9")
                 for k in (-1, 10, 2**62, -2**63)]
        self.check_calculated(model, runs, ["Range:size=1"], "--dim", "batch=1..3", fails=fails)

    def test_ranges_of_integers_and_floats(self):
        model = model_of([("Range", ["a", "b", "c"], ["y"], {}), ("Mul", ["y", "y"], ["squares"], {}),
                          ("Range", ["f", "g", "h"], ["z"], {}), ("Exp", ["z"], ["powers"], {})],
                         {**{name: (WHOLE, []) for name in "abc"}, **{name: (REAL, []) for name in "fgh"}},
                         {"squares": WHOLE, "z": REAL, "powers": REAL}, {})

        def run(*numbers):
            return {name: np.array(number, np.float32 if name in "fgh" else np.int64)
                    for name, number in zip("abcfgh", numbers, strict=True)}

        runs = [run(0, 7, 1, 0, 3, 0.5), run(5, -6, -2, 1, -1, -0.3), run(4, 4, 1, 2, 1, 1), run(-9, 9, 5, 0.1, 0.75, 0.1)]
        fails = [(run(0, 7, 0, 0, 1, 1), "'y': its step is 0"), (run(0, 17, 1, 0, 1, 1), "'y': it gives more than 16"),
                 (run(-2**63, 2**63 - 1, 1, 0, 1, 1), "'y': it gives more"), (run(0, 1, 1, 0, 1e30, 1), "'z': it gives more than 12"),
                 (run(0, 1, 1, 0, np.nan, 1), "'z': it goes from 0 to nan"), (run(0, 1, 1, 0, 1, 0), "'z': it goes from 0 to 1 in")]
        self.check_calculated(model, runs, ["Range", "Range"], "--dim", "y.0=1..16", "--dim", "z.0=1..12", fails=fails)

    def test_slices_between_calculated_bounds(self):
        model = model_of([("Slice", ["x", "a", "b", "one"], ["part"], {}), ("Slice", ["w", "a", "b", "zero"], ["part_w"], {}),
                          ("MatMul", ["part", "part_w"], ["y"], {}), ("Slice", ["x", "b", "a", "one", "back"], ["turned"], {})],
                         {"x": (REAL, ["batch", 12]), "a": (WHOLE, [1]), "b": (WHOLE, [1])},
                         {"part": REAL, "y": REAL, "turned": REAL},
                         {"one": np.array([1]), "zero": np.array([0]), "back": np.array([-2]),
                          "w": np.random.default_rng(2).random((12, 5), np.float32)})
        x = np.random.default_rng(1).random((3, 12), np.float32)
        runs = [{"x": x, "a": np.array([a]), "b": np.array([b])}
                for a, b in ((2, 7), (0, 12), (-3, 2**62), (9, 3), (-2**62, 1), (5, 5), (30, -30))]
        self.check_calculated(model, runs, ["Slice:axis=1", "Slice:axis=1"], "--dim", "batch=1..3")

    def test_shapes_that_values_say(self):
        nodes = [("ReduceMax", ["lengths"], ["longest"], {"keepdims": 0}), ("Unsqueeze", ["longest", "zero"], ["n"], {}),
                 ("Range", ["from", "longest", "step"], ["places"], {}), ("Unsqueeze", ["lengths", "one"], ["ends"], {}),
                 ("Less", ["places", "ends"], ["mask"], {}), ("Cast", ["mask"], ["real"], {"to": REAL}),
                 ("Concat", ["four", "n"], ["shape"], {"axis": 0}), ("ConstantOfShape", ["shape"], ["zeros"], {}),
                 ("Expand", ["column", "shape"], ["spread"], {}), ("Add", ["spread", "zeros"], ["all"], {}),
                 ("Mul", ["all", "real"], ["kept"], {}), ("Concat", ["two", "two", "n"], ["regrouped"], {"axis": 0}),
                 ("Reshape", ["kept", "regrouped"], ["groups"], {}), ("ReduceSum", ["kept", "one"], ["sums"], {"keepdims": 0})]
        constants = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "four": np.array([4]),
                     "from": np.array(0), "step": np.array(1), "column": np.arange(4, dtype=np.float32).reshape(4, 1) + 1}
        model = model_of(nodes, {"lengths": (WHOLE, [4])}, {"mask": TRUTH, "groups": REAL, "sums": REAL}, constants)
        runs = [{"lengths": np.array(lengths)} for lengths in ([3, 1, 4, 2], [0, 0, 0, 0], [1, 1, 1, 1], [9, 2, 0, 20])]
        fails = [({"lengths": np.array([1, 2, 21, 3])}, "a size is 21 in this run; expected 0 to 20"),
                 ({"lengths": np.array([-1, -2, -3, -4])}, "a size is -1 in this run; expected 0 to 20")]
        self.check_calculated(model, runs, ["Range:size=1"], "--dim", "longest[0]=1..20", fails=fails)

    def test_anchors_of_an_export_with_dynamic_axes(self):
        """As YOLOv8's head makes centers of cells: from the shapes of its feature maps."""
        random = np.random.default_rng(5)
        nodes, constants = [], {"f0": np.array(0, np.float32), "f1": np.array(1, np.float32), "half": np.array(0.5, np.float32),
                                "i2": np.array(2), "i3": np.array(3), "zero": np.array([0]), "minus": np.array([-1]),
                                "pair": np.array([-1, 2]), "flat": np.array([0, 8, -1]), "w0": random.random((8, 3, 3, 3), np.float32)}
        nodes.append(("Conv", ["x", "w0"], ["c0"], {"strides": [2, 2], "pads": [1, 1, 1, 1]}))
        source, levels = "c0", []
        for level in (1, 2):
            c = f"c{level}"
            constants[f"w{level}"] = random.random((8, 8, 3, 3), np.float32)
            constants[f"stride{level}"] = np.array([2.0 ** (level + 1)], np.float32)
            nodes += [("Conv", [source, f"w{level}"], [c], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
                      ("Shape", [c], [c + "s"], {}), ("Gather", [c + "s", "i2"], [c + "h"], {}), ("Gather", [c + "s", "i3"], [c + "w"], {}),
                      ("Cast", [c + "w"], [c + "fw"], {"to": REAL}), ("Range", ["f0", c + "fw", "f1"], [c + "rx"], {}),
                      ("Add", [c + "rx", "half"], [c + "sx"], {}), ("Cast", [c + "h"], [c + "fh"], {"to": REAL}),
                      ("Range", ["f0", c + "fh", "f1"], [c + "ry"], {}), ("Add", [c + "ry", "half"], [c + "sy"], {}),
                      ("Unsqueeze", [c + "h", "zero"], [c + "h1"], {}), ("Unsqueeze", [c + "w", "zero"], [c + "w1"], {}),
                      ("Concat", [c + "h1", c + "w1"], [c + "hw"], {"axis": 0}),
                      ("Concat", [c + "h1", "one1"], [c + "column"], {"axis": 0}), ("Reshape", [c + "sy", c + "column"], [c + "syc"], {}),
                      ("Expand", [c + "syc", c + "hw"], [c + "gy"], {}), ("Expand", [c + "sx", c + "hw"], [c + "gx"], {}),
                      ("Unsqueeze", [c + "gx", "minus"], [c + "gx1"], {}), ("Unsqueeze", [c + "gy", "minus"], [c + "gy1"], {}),
                      ("Concat", [c + "gx1", c + "gy1"], [c + "g"], {"axis": -1}), ("Reshape", [c + "g", "pair"], [c + "points"], {}),
                      ("Mul", [c + "h", c + "w"], [c + "n"], {}), ("Unsqueeze", [c + "n", "zero"], [c + "n1"], {}),
                      ("Concat", [c + "n1", "one1"], [c + "ns"], {"axis": 0}), ("ConstantOfShape", [c + "ns"], [c + "zeros"], {}),
                      ("Add", [c + "zeros", f"stride{level}"], [c + "strides"], {}), ("Reshape", [c, "flat"], [c + "map"], {})]
            levels.append(c)
            source = c
        constants["one1"] = np.array([1])
        nodes += [("Concat", [c + "points" for c in levels], ["points"], {"axis": 0}),
                  ("Concat", [c + "strides" for c in levels], ["strides"], {"axis": 0}),
                  ("Concat", [c + "map" for c in levels], ["maps"], {"axis": 2}),
                  ("Mul", ["points", "strides"], ["centers"], {}), ("Transpose", ["centers"], ["rows"], {"perm": [1, 0]}),
                  ("Slice", ["maps", "zero", "two1", "one1"], ["offsets"], {}), ("Add", ["offsets", "rows"], ["boxes"], {}),
                  ("Concat", ["boxes", "maps"], ["y"], {"axis": 1})]
        constants["two1"] = np.array([2])
        model = model_of(nodes, {"x": (REAL, ["batch", 3, "height", "width"])}, {"y": REAL}, constants)
        runs = [{"x": random.random((batch, 3, 32, 48), np.float32)} for batch in (1, 2)]
        self.check_calculated(model, runs, [], "--dim", "batch=1..2", "--dim", "height=32", "--dim", "width=48")

    def test_scans_along_any_axis_in_both_directions(self):
        body = helper.make_graph(
            [helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Mul", ["t", "b"], ["u"]),
             helper.make_node("Identity", ["t"], ["v"])], "body",
            [helper.make_tensor_value_info(name, REAL, [4]) for name in "sab"],
            [helper.make_tensor_value_info(name, REAL, [4]) for name in "tuv"])
        model = model_of([("Scan", ["s0", "x", "z"], ["s_n", "rows", "columns"],
                           {"body": body, "num_scan_inputs": 2, "scan_input_axes": [1, -2], "scan_input_directions": [0, 1],
                            "scan_output_axes": [-1, 0], "scan_output_directions": [1, 0]})],
                         {"s0": (REAL, [4]), "x": (REAL, [4, 6]), "z": (REAL, [6, 4])},
                         {"s_n": REAL, "rows": REAL, "columns": REAL}, {})
        random = np.random.default_rng(6)
        self.check_calculated(model, [{"s0": random.random(4, np.float32), "x": random.random((4, 6), np.float32),
                                       "z": random.random((6, 4), np.float32)}], [])


if __name__ == "__main__":
    TUNE_CLI = sys.argv.pop()
    main()
