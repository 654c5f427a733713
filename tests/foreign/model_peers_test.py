"""scripts/models/model_peers.py prepares models of PyPI packages for peers that compile them."""
import pathlib
import sys
import tempfile
import unittest

from support import ROOT, enter, main

enter()
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

sys.path.insert(0, str(ROOT / "scripts" / "models"))
import model_peers  # noqa: E402

PACKAGES = pathlib.Path(onnx.__file__).parents[1]


def outputs_of(path: str, inputs: dict) -> list:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = {port.name for port in session.get_inputs()}
    return session.run(None, {name: array for name, array in inputs.items() if name in wanted})


class FixedModels(unittest.TestCase):
    def check(self, model: pathlib.Path, name: str, shape: list[int]) -> onnx.ModelProto:
        """It has the input of this shape alone, constants and opset as compilers take them, and the same outputs."""
        inputs = {name: np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "fixed.onnx"))
            arrays = model_peers.fixed_model(str(model), inputs, path)
            fixed = onnx.load(path)
            for got, want in zip(outputs_of(path, inputs), outputs_of(str(model), inputs), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
        self.assertEqual([array.shape for array in arrays], [tuple(shape)])
        self.assertEqual([[extent.dim_value for extent in port.type.tensor_type.shape.dim]
                          for port in fixed.graph.input], [shape])
        self.assertTrue(all(opset.version >= 17 for opset in fixed.opset_import if opset.domain == ""))
        self.assertFalse({"Constant", "ConstantOfShape", "Shape"} & {node.op_type for node in fixed.graph.node})
        return fixed

    def test_an_old_file_with_constants_among_its_inputs(self):
        self.check(PACKAGES / "onnx/backend/test/data/light/light_squeezenet.onnx", "data_0", [1, 3, 224, 224])

    def test_dimensions_without_sizes(self):
        self.check(PACKAGES / "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "x", [1, 3, 48, 192])


class Reasons(unittest.TestCase):
    def test_the_line_that_tells_most(self):
        self.assertEqual(model_peers.reason_of(RuntimeError("a/b.cc:7:\nno such layer\nat")), "no such layer")
        compiler = RuntimeError("Error invoking it\nx.mlir:1:2: error: failed to legalize\nnote: see")
        self.assertEqual(model_peers.reason_of(compiler), "x.mlir:1:2: error: failed to legalize")
        self.assertEqual(model_peers.reason_of(KeyError()), "KeyError()")


if __name__ == "__main__":
    main()
