"""Whole models that others wrote, compiled with first answers and run by tune-cli: their outputs are those of onnx's
own evaluator, those that onnx stores beside its models, or those of ONNX Runtime in onnxruntime_outputs.json, where
the evaluator cannot run a model. With TILEWRIGHT_UPDATE_GOLDEN=1 and the package onnxruntime the test writes that file.

usage: compile_test.py TUNE_CLI"""
import contextlib
import json
import os
import pathlib
import sqlite3
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
from onnx.reference import ReferenceEvaluator  # noqa: E402

PACKAGES = pathlib.Path(onnx.__file__).parents[1]
TUNE_CLI = ""
STORED = pathlib.Path(__file__).with_name("onnxruntime_outputs.json")
VOICE = PACKAGES / "silero_vad" / "data"


class Compiled(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tune_cli(self, *arguments) -> None:
        done = subprocess.run([TUNE_CLI, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def extracted(self, path: pathlib.Path, options=()) -> set[str]:
        """The digests of the workloads that extract writes."""
        done = subprocess.run([TUNE_CLI, "extract", path, "--json", *options], capture_output=True, text=True, check=True)
        return {result["workload"] for result in json.loads(done.stdout)["results"]}

    def stored(self, database: str) -> set[str]:
        """The digests that a database has."""
        with contextlib.closing(sqlite3.connect(self.folder / database)) as connection:
            return {row[0] for row in connection.execute("select hash from workloads")}

    def outputs(self, path: pathlib.Path, inputs: dict, options=()) -> list[np.ndarray]:
        """The digests of a file that the model is compiled to, from kernels of the workloads that extract writes."""
        before = self.stored("k.db") if (self.folder / "k.db").exists() else set()
        self.tune_cli("compile", path, "-o", "m.tw", "--db", "k.db", "--trials", "0", "--threads", "1", "--quiet",
                      *options)
        self.assertEqual(self.extracted(path, options) | before, self.stored("k.db"))
        names = [output.name for output in onnx.load(path).graph.output]
        arguments = ["run", "m.tw", "--threads", "1"]
        for number, (name, array) in enumerate(inputs.items()):
            np.save(self.folder / f"in{number}.npy", array)
            arguments += ["--in", f"{name}=in{number}.npy"]
        for number, name in enumerate(names):
            arguments += ["--out", f"{name}=out{number}.npy"]
        self.tune_cli(*arguments)
        return [np.load(self.folder / f"out{number}.npy") for number in range(len(names))]

    def expect(self, path: pathlib.Path, inputs: dict, constants=None, sizes=None) -> None:
        constants, sizes = constants or {}, sizes or {}
        options = [f"--const={name}={value}" for name, value in constants.items()]
        options += [f"--dim={name}={size}" for name, size in sizes.items()]
        got = self.outputs(path, inputs, options)
        numbers = {name: np.array(value) for name, value in constants.items()}
        self.compare(got, ReferenceEvaluator(onnx.load(path)).run(None, {**inputs, **numbers}))

    def compare(self, got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
        for one, want in zip(got, wanted, strict=True):
            self.assertEqual(one.shape, want.shape)
            self.assertLess(np.abs(one.astype(float) - want).max() / np.abs(want.astype(float)).max(), 1e-4)

    def expect_stored(self, path: pathlib.Path, inputs: dict, sizes: dict) -> None:
        stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
        name = path.relative_to(PACKAGES).parts[0]
        if os.environ.get("TILEWRIGHT_UPDATE_GOLDEN") == "1":
            import onnxruntime
            outputs = onnxruntime.InferenceSession(path).run(None, inputs)
            stored[name] = [[float(f"{value:.7g}") for value in output.ravel()] for output in outputs]
            STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        got = self.outputs(path, inputs, [f"--dim={name}={size}" for name, size in sizes.items()])
        self.compare([output.ravel() for output in got], [np.array(values) for values in stored[name]])

    @staticmethod
    def voice() -> dict:
        random = np.random.default_rng(0)
        return {"input": random.standard_normal((1, 576)).astype(np.float32) / 10,
                "state": random.standard_normal((2, 1, 128)).astype(np.float32)}

    def test_voice_with_a_rate_that_chooses_a_branch(self):
        named = {"input.0": 1, "input.1": 576, "state.1": 1}
        self.expect(VOICE / "silero_vad.onnx", self.voice(), {"sr": 16000}, named)

    def test_voice_of_one_rate(self):
        sizes = {"batch": 1, "sequence": 576}
        self.expect(VOICE / "silero_vad_16k_op15.onnx", self.voice(), {"sr": 16000}, sizes)
        self.expect(VOICE / "silero_vad_op18_ifless.onnx", self.voice(), {"sr": 16000}, sizes)
        self.expect(VOICE / "silero_vad_half.onnx", self.voice(), sizes=sizes)
        self.expect(VOICE / "silero_vad_openvino_16k.onnx", self.voice())

    def test_voice_in_steps(self):
        random = np.random.default_rng(0)
        inputs = {"input": random.standard_normal((3, 576)).astype(np.float32) / 10,
                  "h": np.zeros((1, 1, 128), np.float32), "c": np.zeros((1, 1, 128), np.float32)}
        self.expect(VOICE / "silero_vad_16k_sequence.onnx", inputs, sizes={"sequence_length": 3})

    def test_kinds_of_files(self):
        text = b"#include <stdio.h>\nint main(void) { puts(\"tiles\"); return 0; }\n"
        codes = np.full((1, 2048), 256, np.int32)  # that many stand for no byte
        codes[0, :len(text)] = codes[0, -len(text):] = list(text)
        path, = (PACKAGES / "magika").rglob("model.onnx")
        self.expect_stored(path, {"bytes": codes}, {"unk__214": 1})

    def test_pitch(self):
        time = np.arange(4000) / 16000
        tone = np.sin(2 * np.pi * 220 * time) + np.random.default_rng(0).standard_normal(4000) / 10
        inputs = {"audio": tone.astype(np.float32)[None], "fmin": np.array(50, np.float32),
                  "fmax": np.array(2000, np.float32)}
        self.expect_stored(PACKAGES / "swift_f0" / "model.onnx", inputs, {"samples": 4000})

    def test_outputs_that_are_stored(self):
        path = PACKAGES / "onnx/backend/test/data/light/light_squeezenet.onnx"
        count = 3 * 224 * 224
        image = (np.arange(count).reshape(1, 3, 224, 224) / count).astype(np.float32)
        got, = self.outputs(path, {"data_0": image})
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.with_name(path.stem + "_output_0.pb").read_bytes())
        want = numpy_helper.to_array(tensor)
        self.assertLess(np.abs(got - want).max() / np.abs(want).max(), 1e-4)


if __name__ == "__main__":
    TUNE_CLI = sys.argv.pop()
    main()
