"""The execution provider on PyPI's onnxruntime: models of PyPI packages and onnx's node tests against the runtime's own
CPU provider, and what the provider does where something is missing, wrong, slow or replaced.

usage: onnxruntime_test.py TUNE_CLI
With TILEWRIGHT_NODE_TESTS=1 every node test of onnx is run, else each 25th."""
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import threading

from provider_support import LIBRARY, TUNE_CLI, ProviderTest, captured, dense, on_cpu, rows, session, with_foreign_node
from support import main

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402
import onnxruntime_ep_tilewright as package  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

PACKAGES = pathlib.Path(onnx.__file__).parents[1]
PLAIN = ("float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool")


class Models(ProviderTest):
    """Models of PyPI packages, whole."""

    def check(self, path: pathlib.Path, inputs: dict, *options):
        files = self.compile(path, *options)
        self.assertEqual(len(files), 1)
        self.expect_same(path, inputs, session(path, models=self.models, trial=0, whole=True))
        self.expect_same(path, inputs, session(path, models=self.models, trial=0, whole=True, threads=2))

    def test_direction_of_text(self):
        path, = (PACKAGES / "rapidocr_onnxruntime").rglob("*cls*.onnx")
        image = np.random.default_rng(0).standard_normal((1, 3, 48, 192)).astype(np.float32)
        self.check(path, {"x": image}, "--dim=x.0=1", "--dim=x.2=48", "--dim=x.3=192")

    def test_kinds_of_files(self):
        path, = (PACKAGES / "magika").rglob("model.onnx")
        codes = np.random.default_rng(0).integers(0, 256, (1, 2048)).astype(np.int32)
        self.check(path, {"bytes": codes}, "--dim=unk__214=1")

    def test_voice(self):
        path = PACKAGES / "silero_vad" / "data" / "silero_vad_openvino_16k.onnx"
        random = np.random.default_rng(0)
        self.check(path, {"input": random.standard_normal((1, 576)).astype(np.float32) / 10,
                          "state": random.standard_normal((2, 1, 128)).astype(np.float32)})


class NodeTests(ProviderTest):
    """A model of one operator each, with inputs and the right outputs."""

    @staticmethod
    def close(got: np.ndarray, want: np.ndarray) -> bool:
        tolerance = 1e-2 if want.dtype == np.float16 else 1e-3
        return got.shape == want.shape and got.dtype == want.dtype and np.allclose(
            got.astype(float), want.astype(float), rtol=tolerance, atol=tolerance / 100, equal_nan=True)

    def outcome(self, case) -> str:
        inputs, outputs = case.data_sets[0]
        plain = [isinstance(a, np.ndarray) and a.dtype.name in PLAIN and a.size > 0 for a in [*inputs, *outputs]]
        if not all(plain):
            return "other types"
        model = case.model.SerializeToString()
        try:
            ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        except Exception:  # pylint: disable=broad-except
            return "the runtime has no kernel"
        for region in self.dumped(model, level=4):
            if self.compile_one(region).returncode != 0:
                return "not compiled"
        try:
            made = session(model, models=self.models, trial=0, whole=True, level=4)
        except Exception:  # pylint: disable=broad-except
            return "not claimed whole"
        given = {port.name: array for port, array in zip(made.get_inputs(), inputs)}
        got = [np.asarray(array) for array in made.run(None, given)]
        return "right" if all(map(self.close, got, outputs)) else "wrong"

    def test_outputs_are_the_expected_ones(self):
        cases = sorted(collect_testcases(None), key=lambda case: case.name)
        step = 1 if os.environ.get("TILEWRIGHT_NODE_TESTS") == "1" else 25
        counts, wrong = collections.Counter(), []
        with captured():
            for case in cases[::step]:
                try:
                    outcome = self.outcome(case)
                except Exception as error:  # pylint: disable=broad-except
                    outcome = f"failed: {error}"
                counts[outcome.partition(":")[0]] += 1
                if outcome.startswith(("wrong", "failed")):
                    wrong.append((case.name, outcome))
        print(dict(counts))
        self.assertEqual(wrong, [])
        self.assertGreater(counts["right"], 12)


class Sizes(ProviderTest):
    def test_any_size_of_a_range_and_others_on_the_cpu(self):
        model = dense()
        self.compile(model, "--dim=batch=1..8")
        made = session(model, models=self.models, trial=0)
        refusing = session(model, models=self.models, trial=0, fallback=0)
        for count in (1, 3, 8):
            self.expect_same(model, rows(count), made)
            self.expect_same(model, rows(count), refusing)
        self.expect_same(model, rows(9), made)
        with self.assertRaisesRegex(Exception, r"input 'x' is \[9, 64\].* takes \[1\.\.8, 64\].*tune-cli compile --dim"), \
                captured():
            refusing.run(None, rows(9))


    def test_sizes_that_a_run_finds(self):
        ports = [helper.make_tensor_value_info(*port) for port in (
            ("x", TensorProto.FLOAT, [3, 4]), ("k", TensorProto.INT64, [1]),
            ("values", TensorProto.FLOAT, [3, "found"]), ("places", TensorProto.INT64, [3, "found"]))]
        node = helper.make_node("TopK", ["x", "k"], ["values", "places"], largest=0)
        model = helper.make_model(helper.make_graph([node], "least", ports[:2], ports[2:]),
                                  opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
        self.compile(model)
        made = session(model, models=self.models, trial=0, whole=True)
        for k in (3, 1, 4):
            self.expect_same(model, {**rows(3, 4), "k": np.array([k])}, made)


class Absence(ProviderTest):
    def lines(self, *arguments, **options) -> list[str]:
        with captured() as lines:
            made = session(*arguments, **options)
        self.made = made
        return [line for line in lines if "Tilewright" in line]

    def test_a_model_without_a_file_runs_as_before_with_one_line(self):
        line, = self.lines(dense(), models=self.models)
        self.assertRegex(line, r"3 nodes run as before|2 nodes run as before")
        self.assertIn("dump=FOLDER", line)
        self.assertEqual(*[[a.tolist() for a in outputs]
                           for outputs in (self.made.run(None, rows(2)), on_cpu(dense(), rows(2)))])

    def test_a_region_is_written_with_its_command(self):
        line, = self.lines(dense(), models=self.models, dump=self.folder / "dump")
        region, = (self.folder / "dump").glob("*.onnx")
        self.assertIn(f"tune-cli compile {region} -o {self.models}/{region.stem}.tw --dim 'batch=SIZE'", line)
        onnx.checker.check_model(onnx.load(region))
        # The region alone computes what the model does.
        self.assertEqual(*[[a.tolist() for a in on_cpu(model, rows(2))] for model in (dense(), region)])

    def test_damaged_files_and_foreign_ones(self):
        file, = self.compile(dense(), "--dim=batch=2")
        content = file.read_bytes()
        for damaged in (b"", content[:100], content[:len(content) // 2]):
            file.write_bytes(damaged)
            line, = self.lines(dense(), models=self.models, trial=0)
            self.assertRegex(line, r"nodes run as before, since .* cannot serve: ")
            self.expect_same(dense(), rows(2), self.made)
        file.write_bytes(content)
        file.chmod(0o666)
        lines = self.lines(dense(), models=self.models, trial=0)
        self.assertRegex(lines[-1], "nodes run as before, since .* cannot serve: ")

    def test_options_are_refused_with_what_would_do(self):
        for name, value, text in (("model", "x", "there are models, database, dump, alone, exclude"), ("trial", "2", "expected 0 or 1")):
            with self.assertRaisesRegex(Exception, text), captured():
                session(dense(), **{name: value})

    def test_without_a_compiler_on_one_processor(self):
        model = dense(0, 2)
        self.compile(model)
        done = self.alone(model, trial=0, env={"PATH": "/nonexistent"},
                          preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
        self.assertEqual(done.returncode, 0, done.stderr)
        want, = on_cpu(model, rows(2))
        self.assertLess(np.abs(np.load(self.folder / "y.npy") - want).max(), 1e-4 * np.abs(want).max())


class Package(ProviderTest):
    """The functions of onnxruntime_ep_tilewright besides register()."""

    def test_a_model_is_compiled_and_used(self):
        path = self.folder / "model.onnx"
        path.write_bytes(dense())
        done = subprocess.run(
            [sys.executable, "-m", "onnxruntime_ep_tilewright", path, self.models, "--dim", "batch=1..8", "--db",
             self.folder / "k.db", "--trials", "0", "--quiet"], capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": f"{pathlib.Path(TUNE_CLI).resolve().parent}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stderr)
        file, = self.models.glob("*.tw")
        self.assertIn(str(file), done.stdout)
        self.assertEqual(package.compile_model(path, self.models, tune_cli="/nonexistent"), [file])
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        package.add_to(options, models=self.models, trial=False)
        self.expect_same(path, rows(3), ort.InferenceSession(str(path), options))

    def test_what_has_no_kernel_is_left_out_by_name(self):
        model = with_foreign_node()
        model.graph.node.add(op_type="Relu", input=["y"], output=["z"])
        model.graph.output.add().CopyFrom(model.graph.output[0])
        model.graph.output[1].name = "z"
        text = model.SerializeToString()
        options = ["--trials", "0", "--threads", "1", "--db", str(self.folder / "k.db"), "--quiet"]
        with captured() as lines:
            files = package.compile_model(text, self.models, options, tune_cli=TUNE_CLI)
        self.assertRegex("\n".join(lines), r"y \(ai\.onnx\.ml\.Normalizer\): there is no kernel for this operator")
        self.assertEqual(len(files), 2)
        self.assertEqual((self.models / "exclude").read_text(), "y\n")
        with captured() as lines:
            made = session(text, models=self.models, trial=0, level=1)
        self.assertRegex("\n".join(lines), "Tilewright: claimed 2 of 2 regions, and 0 nodes alone")
        self.expect_same(text, rows(2), made)

    def test_nodes_alone(self):
        model = with_foreign_node()
        text = model.SerializeToString()
        options = ["--trials", "0", "--threads", "1", "--db", str(self.folder / "k.db"), "--quiet"]
        with captured():
            file, = package.compile_model(text, self.models, options, tune_cli=TUNE_CLI, alone=True)
        self.assertFalse((self.models / "exclude").exists())
        with captured() as lines:
            made = session(text, models=self.models, trial=0, level=1)
        self.assertRegex("\n".join(lines), "claimed 0 of 1 regions, and 1 nodes alone")
        self.expect_same(text, rows(2), made)

    def test_the_example(self):
        path = self.folder / "model.onnx"
        path.write_bytes(dense())
        self.compile(path, "--dim=batch=1..8")
        program = pathlib.Path(__file__).parents[2] / "examples" / "onnxruntime" / "compare.py"
        done = subprocess.run([sys.executable, program, path, self.models, "batch=4"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"y: at most \S+ apart, of \d+\nms: [\d.]+ with the CPU provider alone")

    def test_other_refusals_are_errors(self):
        with self.assertRaises(subprocess.CalledProcessError) as raised, captured():
            package.compile_model(dense(), self.models, ["--trials", "0"], tune_cli=TUNE_CLI)
        self.assertIn("batch", raised.exception.stderr)


class Lives(ProviderTest):
    def test_a_replaced_file_serves_new_sessions(self):
        model = dense(0, 2)
        file, = self.compile(model)
        made = session(model, models=self.models, trial=0, whole=True)
        self.expect_same(model, rows(2), made)
        other, = self.compile(dense(1, 2))
        os.replace(other, file)  # of other weights, so that it shows
        self.expect_same(model, rows(2), made)
        later = session(model, models=self.models, trial=0, whole=True)
        self.expect_same(dense(1, 2), rows(2), later)
        file.unlink()
        self.expect_same(model, rows(2), made)

    def test_many_threads_run_one_session(self):
        model = dense(0, 2)
        self.compile(model)
        for instances in (1, 2):
            made = session(model, models=self.models, trial=0, whole=True, threads=2, instances=instances)
            failures = []

            def work(seed):
                inputs = {"x": np.random.default_rng(seed).standard_normal((2, 64)).astype(np.float32)}
                want = on_cpu(model, inputs)[0]
                for _ in range(200):
                    if np.abs(made.run(None, inputs)[0] - want).max() > 1e-4 * np.abs(want).max():
                        failures.append(seed)

            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])

    def test_a_session_in_cpp(self):
        model = dense(0, 2)
        self.compile(model)
        (self.folder / "model.onnx").write_bytes(model)
        runtime, = pathlib.Path(ort.__file__).parent.glob("capi/libonnxruntime.so.*")
        command = [os.environ["PROVIDER_SESSION"], runtime, LIBRARY, self.folder / "model.onnx"]
        done = subprocess.run([*command, self.models], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        release, apart, largest = done.stdout.split()
        self.assertEqual(release, ort.__version__)
        self.assertLess(float(apart), 1e-4 * float(largest))
        refused = subprocess.run([*command, self.folder], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("nodes run as before, since there is no", refused.stderr)

    def test_a_context_model_names_the_file(self):
        model = self.folder / "model.onnx"
        model.write_bytes(dense(0, 2))
        self.compile(model)
        context = self.folder / "model_ctx.onnx"
        session(model, models=self.models, trial=0,
                config=[("ep.context_enable", "1"), ("ep.context_file_path", str(context))])
        node, = onnx.load(context).graph.node
        self.assertEqual((node.op_type, node.domain), ("EPContext", "com.microsoft"))
        moved = self.folder / "elsewhere"
        moved.mkdir()
        shutil.copyfile(context, moved / "m.onnx")
        shutil.copytree(self.models, moved / "models")
        shutil.rmtree(self.models)
        self.expect_same(model, rows(2), session(moved / "m.onnx", whole=True))
        shutil.rmtree(moved / "models")
        with self.assertRaises(Exception), captured() as lines:
            session(moved / "m.onnx")
        self.assertRegex("\n".join(lines), "Tilewright: .*elsewhere/models/.*tw")


if __name__ == "__main__":
    main()
