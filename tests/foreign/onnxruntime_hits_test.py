"""Kernels of a database in ONNX Runtime, with model files and without, trials, and parts of a graph.

usage: onnxruntime_hits_test.py TUNE_CLI"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
from unittest import mock

from provider_support import TUNE_CLI, ProviderTest, captured, dense, log_of, on_cpu, rows, session, with_foreign_node
from support import main

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime_ep_tilewright as package  # noqa: E402
import onnxruntime_ep_tilewright._parts as parts  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402


class HitsTest(ProviderTest):
    def setUp(self):
        super().setUp()
        self.database = self.folder / "k.db"

    def tuned(self, *specs):
        done = subprocess.run([TUNE_CLI, "tune", *specs, "--trials", "2", "--threads", "1", "--quiet", "--db",
                               self.database], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


class Database(HitsTest):
    """Sessions that look into a database themselves."""

    FUSED = "matmul:m=2,n=64,k=64,epilogue=[bias,relu]"
    PART = "matmul:m=2,n=64,k=64,epilogue=[bias]"
    ONE_LINE = r"\A[^\n]*\d+ nodes run as before, since [^\n]*%s[^\n]*\Z"

    def warnings_of(self, model: bytes, **options) -> str:
        with captured() as lines:
            self.made = session(model, database=self.database, **options)
        return "\n".join(line for line in lines if "Tilewright" in line)

    def test_hits_run_without_a_model_file(self):
        self.tuned(self.FUSED)
        files = sorted(self.folder.rglob("*"))
        self.assertEqual(self.warnings_of(dense(0, 2), trial=0, whole=True), "")
        self.expect_same(dense(0, 2), rows(2), self.made)
        self.assertEqual(sorted(self.folder.rglob("*")), files, "nothing is written")

    def tuned_for(self, operator: str, *options) -> bytes:
        """A dense layer with this operator in the place of Relu, of whose workloads the database has kernels."""
        model = onnx.load_from_string(dense(0, 2))
        model.graph.node[2].op_type = operator
        text = model.SerializeToString()
        file, specs = self.folder / "model.onnx", self.folder / "specs.json"
        file.write_bytes(text)
        done = subprocess.run([TUNE_CLI, "extract", file, "-o", specs, *options], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.tuned(specs)
        return text

    def test_nodes_are_hits_where_the_fused_kernel_is_none(self):
        for options in ([], ["--no-fusion"]):
            self.database = self.folder / f"{len(options)}.db"
            text = self.tuned_for("Abs", *options)
            self.assertEqual(self.warnings_of(text, trial=0, whole=True), "")
            self.expect_same(text, rows(2), self.made)

    def test_in_a_folder_that_is_only_read_and_without_a_compiler(self):
        self.tuned(self.FUSED)
        folder = self.folder / "read"
        folder.mkdir()
        shutil.copyfile(self.database, folder / "k.db")
        (folder / "k.db").chmod(0o444)
        folder.chmod(0o555)
        self.addCleanup(folder.chmod, 0o755)
        done = self.alone(dense(0, 2), trial=0, database=folder / "k.db", env={"PATH": "/nonexistent"})
        self.assertEqual(done.returncode, 0, done.stderr)
        want, = on_cpu(dense(0, 2), rows(2))
        self.assertLess(np.abs(np.load(self.folder / "y.npy") - want).max(), 1e-4 * np.abs(want).max())
        self.assertEqual([file.name for file in folder.iterdir()], ["k.db"])

    def test_a_replaced_database(self):
        self.tuned(self.FUSED)
        self.assertEqual(self.warnings_of(dense(0, 2), trial=0, whole=True), "")
        before = self.made
        full, self.database = self.database, self.folder / "other.db"
        self.tuned("softmax:m=3,n=5")
        os.replace(self.database, full)
        self.database = full
        self.assertRegex(self.warnings_of(dense(0, 2)), self.ONE_LINE % "never tuned")
        for made in (before, self.made):
            self.expect_same(dense(0, 2), rows(2), made)

    def test_a_database_that_others_may_write(self):
        self.tuned(self.FUSED)
        self.database.chmod(0o666)
        self.assertRegex(self.warnings_of(dense(0, 2)), self.ONE_LINE % "may be written by others")

    def test_without_a_database(self):
        self.assertRegex(self.warnings_of(dense(0, 2)), self.ONE_LINE % "option database: there is no database")

    def test_open_sizes(self):
        self.tuned(self.FUSED)
        self.assertRegex(self.warnings_of(dense()), self.ONE_LINE % "input 'x' has open sizes")

    def test_the_graph_is_timed_with_its_parts(self):
        """Whether they win is up to the machine: each says one of two things."""
        self.tuned(self.FUSED, self.PART)
        slower = r"takes (\d+)% of the CPU provider's time here, of which it may take 98%"
        faster = r"takes (\d+)% of the CPU provider's time"
        for model, nodes in ((dense(0, 2), 3), (with_foreign_node().SerializeToString(), 2)):
            said = log_of(model, database=self.database)
            kept = re.search(rf"claimed 1 parts with {nodes} nodes for hits of \S+, with which the graph {faster}", said)
            lost = re.search(rf"the graph with 1 part on hits of \S+ {slower}", said)
            self.assertTrue(bool(kept) != bool(lost), said)
            if kept:
                self.assertLessEqual(int(kept.group(1)), 98)
            else:
                self.assertGreaterEqual(int(lost.group(1)), 98)
            with captured():
                made = session(model, database=self.database)
            self.expect_same(model, rows(2), made)

    def test_parts_of_other_outputs_are_left_out(self):
        text = self.tuned_for("Tanh")  # which nobody calculates alike to the last bit
        self.assertRegex(self.warnings_of(text, tolerance=1e-12), self.ONE_LINE % "has outputs that differ")


class Hits(HitsTest):
    """Model files of kernels that a database has, and no others."""

    def hits_of(self, model: bytes) -> list[pathlib.Path]:
        with captured():
            return package.compile_model(model, self.models, ["--hits", "--threads", "1", "--quiet", "--db",
                                                              str(self.folder / "k.db")], tune_cli=TUNE_CLI)

    def compiled(self, model: bytes, *options) -> subprocess.CompletedProcess:
        path = self.folder / "model.onnx"
        path.write_bytes(model)
        return subprocess.run(
            [sys.executable, "-m", "onnxruntime_ep_tilewright", path, self.models, "--hits", "--threads", "1", "--db",
             self.folder / "k.db", *options], capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": f"{pathlib.Path(TUNE_CLI).resolve().parent}:{os.environ['PATH']}"})

    def test_nodes_with_hits_run_here_and_the_others_stay(self):
        model = onnx.load_from_string(dense(0, 2))
        model.graph.node[2].output[0] = "r"
        model.graph.node.append(helper.make_node("Softmax", ["r"], ["y"], name="rows"))
        text = model.SerializeToString()
        self.tuned("matmul:m=2,n=64,k=64,epilogue=[bias,relu]")
        file, = self.hits_of(text)
        self.keep_winners.assert_called_once_with(text, self.models, [file], 1, None)
        self.assertEqual((self.models / "exclude").read_text(), "rows\n")
        with captured() as lines:
            made = session(text, models=self.models, trial=0, level=1)
        self.assertRegex("\n".join(lines), "Tilewright: claimed 1 of 1 regions, and 0 nodes alone")
        self.expect_same(text, rows(2), made)
        with self.assertRaises(Exception), captured():
            session(text, models=self.models, trial=0, whole=True)
        self.assertEqual(self.hits_of(text), [file], "nothing is left to do")
        self.keep_winners.assert_called_once()

    def test_parts_are_kept_as_long_as_the_whole_model_is_not_slower(self):
        files = [self.models / f"{name}.tw" for name in "abcd"]
        for ratios, kept in (([0.9], "abc"), ([1.1, 1.0], "a"), ([1.1, 1.1], "")):
            for file, part in zip(files, (0.5, 0.6, 0.97, 0.99)):
                file.write_text("")
                parts._verdicts(file).write_text(f"key 2 0\nkey {part} 0\n")
            others = iter(ratios)
            with mock.patch.object(parts._Race, "ratio", lambda _: next(others)), captured() as lines:
                parts.keep_winners(dense(0, 2), self.models, files, 1, None)
            self.assertEqual([file.stem for file in sorted(self.models.glob("*.tw"))], list(kept))
            self.assertEqual(len(list(self.models.glob("*.trials"))), len(kept))
            self.assertRegex(lines[0], f": {len(kept)} of 4 files of parts make the model faster and are kept")

    def test_parts_stay_where_nothing_can_be_timed(self):
        strings = helper.make_node("Identity", ["x"], ["y"])
        ports = [helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in "xy"]
        model = helper.make_model(helper.make_graph([strings], "strings", ports[:1], ports[1:]),
                                  opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
        file = self.models / "a.tw"
        for given, why in ((model, r"input 'x' is tensor\(string\)"), (dense(), "input 'x' has open sizes")):
            file.write_text("")
            with captured() as lines:
                parts.keep_winners(given, self.models, [file], 1, None)
            self.assertTrue(file.is_file())
            self.assertRegex(lines[-1], "is not timed with its parts, and all of them are kept: " + why)

    def test_a_part_that_nobody_could_try_stays(self):
        file = self.models / "a.tw"
        file.write_text("")
        with mock.patch.object(parts._Race, "ratio", lambda _: 0.9), captured():
            parts.keep_winners(dense(0, 2), self.models, [file], 1, None)
        self.assertTrue(file.is_file())

    def test_a_whole_graph_is_no_part(self):
        self.tuned("matmul:m=2,n=64,k=64,epilogue=[bias]")
        self.hits_of(dense(1, 2))
        self.keep_winners.assert_not_called()

    def test_a_race_takes_every_type_and_no_open_sizes(self):
        ports = [helper.make_tensor_value_info(*port) for port in (
            ("x", TensorProto.FLOAT16, [3]), ("b", TensorProto.BOOL, [3]), ("i", TensorProto.INT64, [3]),
            ("y", TensorProto.FLOAT16, [3]), ("j", TensorProto.INT64, [3]))]
        nodes = [helper.make_node("Where", ["b", "x", "x"], ["y"]), helper.make_node("Neg", ["i"], ["j"])]
        model = helper.make_model(helper.make_graph(nodes, "types", ports[:3], ports[3:]),
                                  opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
        with captured():
            self.assertGreater(parts._Race(model, self.models, 1, None).ratio(), 0)
            with self.assertRaises(parts._Untimed):
                parts._Race(dense(), self.models, 1, None)

    def test_a_part_of_a_graph_has_to_win(self):
        self.tuned("matmul:m=2,n=64,k=64,epilogue=[bias]", "matmul:m=2,n=64,k=64,epilogue=[bias,relu]")
        part = "1 nodes run as before, since .* takes 101% of .* here, of which a part of a graph takes 98% at most"
        for model, slower in ((with_foreign_node().SerializeToString(), part), (dense(1, 2), "claimed 1 of 1 regions")):
            shutil.rmtree(self.models)
            file, = self.hits_of(model)
            with captured():
                session(model, models=self.models)
            verdicts = self.models / (file.name + ".trials")
            key, _, difference = verdicts.read_text().splitlines()[0].split()
            for ratio, said in ((0.97, "claimed 1 of 1 regions"), (1.01, slower)):
                verdicts.write_text(f"{key} {ratio} {difference}\n" * 2)
                self.assertRegex(log_of(model, models=self.models), said)

    def test_without_hits_there_is_one_line(self):
        self.tuned("softmax:m=3,n=5")
        done = self.compiled(dense(0, 2))
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"^\S+models: no file, since no node of \S+model.onnx has a kernel for these threads; .*tune-cli extract DIR/.*\n$")
        self.assertEqual(list(self.models.glob("*.tw")), [])

    def test_a_database_that_does_not_exist(self):
        done = self.compiled(dense(0, 2))
        self.assertEqual(done.returncode, 5)
        self.assertRegex(done.stderr, r"^tune-cli: there is no database '\S+k.db'; 'tune-cli tune SPEC --db FILE' makes one\n$")


class Trials(ProviderTest):
    def log_of(self, model, **options) -> str:
        with captured() as lines:
            session(model, models=self.models, level=1, **options)
        return "\n".join(line for line in lines if "Tilewright" in line)

    def test_wrong_outputs_are_found_out(self):
        right, = self.compile(dense(1, 2))
        wrong, = self.compile(dense(2, 2))
        shutil.copyfile(right, wrong)
        self.assertRegex(self.log_of(dense(2, 2)), "run as before, since .* has outputs that differ .* by [0-9.e-]+ of their")
        with self.assertRaises(Exception), captured():
            session(dense(2, 2), models=self.models, whole=True)

    def test_a_slow_file_is_not_used_and_its_verdict_is_kept(self):
        model = dense(0, 128, 256)
        region, = self.dumped(model)
        done = self.compile_one(region, "--target=generic")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(self.log_of(model), r"takes \d{3,}% of the CPU provider's time here; tune it longer")
        verdicts = self.models / (region.stem + ".tw.trials")
        key, ratio, difference = verdicts.read_text().split()
        self.assertGreater(float(ratio), 1.02)
        self.assertLess(float(difference), 1e-4)
        # Other work may have disturbed the trial, so there is a second one, and no third.
        for _ in range(2):
            self.assertRegex(self.log_of(model), "CPU provider's time here")
            self.assertEqual(len(verdicts.read_text().splitlines()), 2)
        # The next process believes the file.
        verdicts.write_text(f"{key} 0.5 {difference}\n")
        done = self.alone(model, trial=1, count=128, size=256)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(verdicts.read_text().splitlines()), 1)


if __name__ == "__main__":
    main()
