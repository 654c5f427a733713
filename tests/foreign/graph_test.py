"""Whole models that others wrote: the node tests of PyPI's onnx and one of its light models. The outputs of
graphs, by their interpreter, are held to the expected ones."""
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


def told(folders, *options) -> list[dict]:
    """What the program says of the folders."""
    folders = list(map(str, folders))
    said = []
    for first in range(0, len(folders), 100):
        done = subprocess.run([PROGRAM, *options, *folders[first:first + 100]], capture_output=True, text=True, check=True)
        said += [json.loads(line) for line in done.stdout.splitlines()]
    return said


def is_plain(array) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.name in PLAIN


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
                if not all(is_plain(i) and i.size > 0 for i in inputs) or not all(map(is_plain, outputs)):
                    continue
                folder = pathlib.Path(root, case.name)
                folder.mkdir()
                model = onnx.ModelProto()
                model.CopyFrom(case.model)
                del model.graph.input[:]
                for value, array in zip(case.model.graph.input, inputs):
                    # Values that shapes are calculated from have to be known.
                    scales = case.model.graph.node[-1].op_type in ("Resize", "Upsample") and array.ndim == 1
                    whole = array.dtype.name in ("int64", "int32") and array.size <= 64
                    if array.ndim == 0 or whole or scales:
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
        self.assertGreater(sum(right.values()), 1182)


class Models(unittest.TestCase):
    """Whole models, held to the outputs that onnx has beside them."""

    def test_a_light_model(self):
        path = PACKAGES / "onnx/backend/test/data/light/light_squeezenet.onnx"
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(path, pathlib.Path(folder, "model.onnx"))
            model = onnx.load(path)
            constants = {tensor.name for tensor in model.graph.initializer}
            value = next(v for v in model.graph.input if v.name not in constants)
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            np.save(pathlib.Path(folder, "in0.npy"), (np.arange(count).reshape(shape) / count).astype(np.float32))
            said = told([folder])[0]
            self.assertNotIn("error", said)
            tensor = onnx.TensorProto()
            tensor.ParseFromString(path.with_name(path.stem + "_output_0.pb").read_bytes())
            want, got = numpy_helper.to_array(tensor), np.load(pathlib.Path(folder, "out0.npy"))
            self.assertEqual(got.shape, want.shape)
            self.assertLess(np.abs(got - want).max() / np.abs(want).max(), 1e-4)


class Transformers(unittest.TestCase):
    """Transformers in the spellings of exporters, held to the outputs of onnx's own evaluator."""

    def test_attention_is_one_node_and_nothing_is_copied(self):
        script = pathlib.Path(__file__).parents[2] / "scripts/transformer_models.py"
        names = ("bert", "gpt", "vit", "llama")
        with tempfile.TemporaryDirectory() as root:
            subprocess.run([sys.executable, script, *names, "--layers", "1", "--out", root], check=True)
            wanted = {}
            for name in names:
                folder = pathlib.Path(root, name)
                folder.mkdir()
                shutil.move(pathlib.Path(root, f"{name}.onnx"), folder / "model.onnx")
                model = onnx.load(folder / "model.onnx")
                inputs, random = {}, np.random.default_rng(1)
                for i, value in enumerate(model.graph.input):
                    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
                    if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
                        inputs[value.name] = random.standard_normal(shape).astype(np.float32)
                    else:
                        inputs[value.name] = random.integers(0, 2, shape)
                    np.save(folder / f"in{i}.npy", inputs[value.name])
                wanted[str(folder)] = ReferenceEvaluator(model).run(None, inputs)[0]
            for said in told(wanted):
                with self.subTest(said["folder"]):
                    self.assertNotIn("error", said)
                    self.assertLessEqual(said["nodes"], 16)
                    self.assertLessEqual(said["moves"], 1)  # the type of bert's mask
                    got, want = np.load(f"{said['folder']}/out0.npy"), wanted[said["folder"]]
                    self.assertLess(np.abs(got - want).max() / np.abs(want).max(), 1e-4)

    def test_one_program_takes_any_number_of_sequences_and_tokens(self):
        script = pathlib.Path(__file__).parents[2] / "scripts/transformer_models.py"
        with tempfile.TemporaryDirectory() as root:
            subprocess.run([sys.executable, script, "bert", "gpt", "--layers", "1", "--ranged", "--out", root],
                           check=True)
            wanted, random = {}, np.random.default_rng(1)
            for name in ("bert", "gpt"):
                model = onnx.load(pathlib.Path(root, f"{name}.onnx"))
                for sizes in ({"batch": 3, "seq": 5}, {"batch": 1, "seq": 7}, {"batch": 2, "seq": 1}):
                    folder = pathlib.Path(root, f"{name}-{sizes['batch']}-{sizes['seq']}")
                    folder.mkdir()
                    shutil.copy(pathlib.Path(root, f"{name}.onnx"), folder / "model.onnx")
                    inputs = {}
                    for i, value in enumerate(model.graph.input):
                        shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
                        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
                            inputs[value.name] = random.standard_normal(shape).astype(np.float32)
                        else:
                            inputs[value.name] = np.maximum(random.integers(0, 2, shape), np.arange(shape[1]) == 0)
                        np.save(folder / f"in{i}.npy", inputs[value.name])
                    wanted[str(folder)] = ReferenceEvaluator(model).run(None, inputs)
            for said in told(wanted, "--ranged"):
                with self.subTest(said["folder"]):
                    self.assertNotIn("error", said)
                    for i, want in enumerate(wanted[said["folder"]]):
                        got = np.load(f"{said['folder']}/out{i}.npy")
                        self.assertEqual(got.shape, want.shape)
                        self.assertLess(np.abs(got - want).max() / np.abs(want).max(), 1e-4)


if __name__ == "__main__":
    main()
