"""Whole models that others wrote: the node tests of PyPI's onnx, and models of rapidocr-onnxruntime and magika.
The outputs of graphs, by their interpreter, are held to the expected ones and to those of onnx's reference
implementation."""
import collections
import json
import os
import pathlib
import shutil
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
from onnx import numpy_helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

PROGRAM = os.environ["ONNX_GRAPH"]
PACKAGES = pathlib.Path(onnx.__file__).parents[1]
PLAIN = ("float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool")


def told(folders) -> list[dict]:
    """What the program says of the folders."""
    folders = list(map(str, folders))
    said = []
    for first in range(0, len(folders), 100):
        done = subprocess.run([PROGRAM, *folders[first:first + 100]], capture_output=True, text=True, check=True)
        said += [json.loads(line) for line in done.stdout.splitlines()]
    return said


def is_plain(array) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.name in PLAIN and array.size > 0


def close(got: np.ndarray, want: np.ndarray) -> bool:
    tolerance = 1e-2 if want.dtype == np.float16 else 1e-3
    return got.shape == want.shape and np.allclose(
        got.astype(float), want.astype(float), rtol=tolerance, atol=tolerance / 100, equal_nan=True)


class NodeTests(unittest.TestCase):
    """A model of one operator each, with inputs and the right outputs."""

    def test_outputs_are_the_expected_ones(self):
        right, refused, wrong = collections.Counter(), collections.Counter(), []
        with tempfile.TemporaryDirectory() as root:
            cases = {}
            for case in collect_testcases(None):
                inputs, outputs = case.data_sets[0]
                if not all(map(is_plain, inputs)) or not all(map(is_plain, outputs)):
                    continue
                folder = pathlib.Path(root, case.name)
                folder.mkdir()
                model = onnx.ModelProto()
                model.CopyFrom(case.model)
                del model.graph.input[:]
                for value, array in zip(case.model.graph.input, inputs):
                    # Values that shapes are calculated from have to be known.
                    if array.ndim == 0 or (array.dtype.name in ("int64", "int32") and array.size <= 64):
                        model.graph.initializer.append(numpy_helper.from_array(array, value.name))
                    else:
                        np.save(folder / f"in{len(model.graph.input)}.npy", np.ascontiguousarray(array))
                        model.graph.input.append(value)
                onnx.save(model, folder / "model.onnx")
                cases[str(folder)] = (case, outputs)
            for said in told(cases):
                case, outputs = cases[said["folder"]]
                operator = case.model.graph.node[-1].op_type
                if "error" in said:
                    refused[operator] += 1
                    self.assertRegex(said["error"], "have no kernel|has to be a constant|have dimensions|: ")
                    continue
                got = [np.load(f"{said['folder']}/out{i}.npy") for i in range(len(outputs))]
                if all(map(close, got, outputs)):
                    right[operator] += 1
                else:
                    wrong.append(case.name)
        print(f"{sum(right.values())} models of {len(right)} operators are right, {sum(refused.values())} refused: "
              f"{dict(refused.most_common(15))}", file=sys.stderr)
        self.assertEqual(wrong, [])
        self.assertGreater(sum(right.values()), 550)


class Models(unittest.TestCase):
    """Whole models, on random inputs."""

    def check(self, path: pathlib.Path, sizes: dict) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(path, pathlib.Path(folder, "model.onnx"))
            model = onnx.load(path)
            constants = {tensor.name for tensor in model.graph.initializer}
            generator, given = np.random.default_rng(0), {}
            for value in model.graph.input:
                if value.name in constants:
                    continue
                shape = [dim.dim_value or sizes.get(axis, 1)
                         for axis, dim in enumerate(value.type.tensor_type.shape.dim)]
                if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
                    array = generator.standard_normal(shape).astype(np.float32)
                else:
                    array = generator.integers(0, 200, shape).astype(np.int32)
                np.save(pathlib.Path(folder, f"in{len(given)}.npy"), array)
                given[value.name] = array
            wanted = ReferenceEvaluator(model).run(None, given)
            said = told([folder])[0]
            self.assertNotIn("error", said)
            for i, want in enumerate(wanted):
                got = np.load(pathlib.Path(folder, f"out{i}.npy"))
                self.assertEqual(got.shape, want.shape)
                off = np.abs(got - want).max() / np.abs(want).max()
                print(f"{path.name}: {said['nodes']} nodes, off by {off:.1e}", file=sys.stderr)
                self.assertLess(off, 1e-4)

    def test_a_classifier_of_text_lines(self):
        self.check(PACKAGES / "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {2: 48, 3: 64})

    def test_magika(self):
        self.check(next((PACKAGES / "magika").rglob("*.onnx")), {1: 2048})


if __name__ == "__main__":
    main()
