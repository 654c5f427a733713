"""The execution provider on PyPI's onnxruntime: sessions, small models and model files for the tests of it, whose last
argument is TUNE_CLI."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

from support import enter

enter()
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402
import onnxruntime_ep_tilewright as package  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

LIBRARY = package.get_library_path()
TUNE_CLI = sys.argv.pop()


@contextlib.contextmanager
def captured():
    """The lines that the process writes to standard error meanwhile; the runtime writes its log there."""
    lines: list[str] = []
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            lines += file.read().decode(errors="replace").splitlines()


def session(model, /, threads=1, whole=False, level=2, config=(), **options) -> ort.InferenceSession:
    """With the provider; `whole` fails where a node is left to the CPU provider."""
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = level
    for key, value in config:
        settings.add_session_config_entry(key, value)
    if whole:
        settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    own = {name: str(value) for name, value in options.items()}
    settings.add_provider_for_devices([package.register()], {"threads": str(threads), **own})
    return ort.InferenceSession(model if isinstance(model, bytes) else str(model), settings)


def on_cpu(model, inputs: dict) -> list[np.ndarray]:
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    return ort.InferenceSession(model if isinstance(model, bytes) else str(model), settings,
                                providers=["CPUExecutionProvider"]).run(None, inputs)


def dense(seed=0, batch="batch", size=64) -> bytes:
    """y = relu(x W + b)"""
    random = np.random.default_rng(seed)
    weight = numpy_helper.from_array(random.standard_normal((size, size)).astype(np.float32), "w")
    bias = numpy_helper.from_array(random.standard_normal(size).astype(np.float32), "b")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["s"]),
             helper.make_node("Relu", ["s"], ["y"])]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, size])] for name in "xy"]
    graph = helper.make_graph(nodes, "dense", *ports, [weight, bias])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def rows(count: int, size=64) -> dict:
    return {"x": np.random.default_rng(count).standard_normal((count, size)).astype(np.float32)}


def log_of(model, **options) -> str:
    """The provider's lines as a session is created."""
    with captured() as lines:
        session(model, level=1, **options)
    return "\n".join(line for line in lines if "Tilewright" in line)


# A process that has nothing but the runtime, and fails where a node is left to the CPU provider.
ALONE = """
import sys
import numpy as np
import onnxruntime as ort
library, folder, *own = sys.argv[1:]
ort.register_execution_provider_library("tilewright", library)
device, = [one for one in ort.get_ep_devices() if one.ep_name == "TilewrightExecutionProvider"]
settings = ort.SessionOptions()
settings.intra_op_num_threads = 1
settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
settings.add_provider_for_devices([device], {"threads": "1", **dict(option.split("=", 1) for option in own)})
made = ort.InferenceSession(folder + "/alone.onnx", settings)
np.save(folder + "/y.npy", made.run(None, {"x": np.load(folder + "/x.npy")})[0])
"""


class ProviderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.models = self.folder / "models"
        self.models.mkdir()
        # Parts of small models are slower or not by chance; Hits tests what becomes of them.
        patch = mock.patch.object(package, "keep_winners")
        self.keep_winners = patch.start()
        self.addCleanup(patch.stop)

    def dumped(self, model, **options) -> list[pathlib.Path]:
        """The regions of a model that have no model file yet."""
        before = set(self.folder.glob("dump/*.onnx"))
        with captured():
            session(model, models=self.models, dump=self.folder / "dump", **options)
        return sorted(set(self.folder.glob("dump/*.onnx")) - before)

    def compile_one(self, region: pathlib.Path, *options) -> subprocess.CompletedProcess:
        return subprocess.run(
            [TUNE_CLI, "compile", region, "-o", self.models / (region.stem + ".tw"), "--db", self.folder / "k.db",
             "--trials", "0", "--threads", "1", "--quiet", *options], capture_output=True, text=True, check=False)

    def compile(self, model, *options) -> list[pathlib.Path]:
        files = []
        for region in self.dumped(model):
            done = self.compile_one(region, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            files.append(self.models / (region.stem + ".tw"))
        return files

    def alone(self, model: bytes, trial: int, count=2, size=64, env=(), database=None, **options) -> subprocess.CompletedProcess:
        own = f"database={database}" if database else f"models={self.folder}/models"
        (self.folder / "alone.onnx").write_bytes(model)
        np.save(self.folder / "x.npy", rows(count, size)["x"])
        return subprocess.run([sys.executable, "-c", ALONE, LIBRARY, str(self.folder), f"trial={trial}", own],
                              capture_output=True,
                              text=True, check=False, env={**os.environ, **dict(env)}, **options)

    def expect_same(self, model, inputs: dict, made: ort.InferenceSession, tolerance=1e-4):
        for got, want in zip(made.run(None, inputs), on_cpu(model, inputs), strict=True):
            self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype))
            largest = np.abs(want.astype(float)).max()
            self.assertLess(np.abs(got.astype(float) - want.astype(float)).max(), tolerance * largest)


def with_foreign_node() -> onnx.ModelProto:
    """A dense layer whose last node is an operator without a kernel."""
    model = onnx.load_from_string(dense(0, 2))
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    node = model.graph.node[2]
    node.op_type, node.domain = "Normalizer", "ai.onnx.ml"
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("norm", "L2"))
    return model
