"""scripts/gpu-check: what it runs, what it writes, and how it ends."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu-check"


def load_script():
    """The script as a module: cases that ask nothing of it as a program run it in this process."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = write
    return module


gpu_check = load_script()

# Answers as tune-cli would on a machine with the GPU in the file `device`; a candidate of each spec that
# the file `wrong`, `runtime` or `timeout` names has that verdict, and of those in `silent` nothing is heard.
FAKE_TUNE_CLI = """#!{python} -IS
import json, pathlib, sys
here = pathlib.Path(__file__).parent
command, arguments = sys.argv[1], sys.argv[2:]
with open(here / "calls", "a") as calls:
    import os
    watchdog, macros = map(os.environ.get, ("TILEWRIGHT_CUDA_WATCHDOG", "TILEWRIGHT_CUDA_MACROS"))
    print(command, *arguments, *(["watchdog=" + watchdog] if watchdog else []),
          *(["macros=" + macros] if macros else []), file=calls)
device = (here / "device").read_text() or None
if command == "best":
    print(json.dumps({{"results": []}}))
    sys.exit(0)
if command == "targets":
    print(json.dumps({{"targets": [{{"target": "native"}}, {{"target": "cuda:sm_80", "device": device,
                                    "device_facts": {{"driver": "CUDA 13.0", "clock_mhz": 1410,
                                                      "memory_clock_mhz": 1512}}}},
                                   {{"target": "cuda:sm_90a", "device": None}}]}}))
    sys.exit(0)
spec = arguments[1]
if command == "tune":
    def named(how):
        return (here / how).exists() and spec in (here / how).read_text().split()
    if named("silent"):
        import time
        time.sleep(60)
    invalid = {{how: int(named(how)) for how in ("wrong", "runtime", "timeout")}}
    (here / "predicted").unlink(missing_ok=True)
    print(json.dumps({{"results": [{{"spec": spec, "valid": 3 - sum(invalid.values()),
                                     "best": {{"config": "{{}}", "seconds": 3e-6}},
                                     "invalid": invalid}}]}}))
elif (here / "hangs").exists():
    import time
    time.sleep(60)
elif (here / "faulty").exists():
    print(json.dumps({{"results": [{{"spec": "matmul:m=1,n=2,k=3", "fault": "C[0] is 1"}}]}}))
else:
    kinds = (here / "kinds").read_text() if (here / "kinds").exists() else ""
    kinds = {{"kinds": json.loads(kinds)}} if kinds and "--kinds" in arguments else {{}}
    print(json.dumps({{"results": [{{"spec": "matmul:m=1,n=2,k=3", "seconds": 2.5e-6, "gflops": 4.0,
                                     "roofline_fraction": 0.5, "absent": {{}},
                                     "predicted": (here / "predicted").exists(), **kinds,
                                     "peers": {{"cublaslt": {{"seconds": 2e-6}}}},
                                     "ratio": {{"cublaslt": 0.8}}}}],
                       "peers": {{"cublaslt": "13.1.0"}}}}))
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.here = pathlib.Path(self.folder.name)
        tool = self.here / "tune-cli"
        tool.write_text(FAKE_TUNE_CLI.format(python=sys.executable))
        tool.chmod(0o755)
        (self.here / "device").write_text("NVIDIA A100")
        (self.here / "wrong").write_text("")
        (self.here / "few.json").write_text(
            json.dumps({"workloads": [{"op": "matmul", "m": 1, "n": 2, "k": 3}]}))

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, *arguments: str, checks: list[str] | None = None,
                   workloads: list[pathlib.Path] | None = None,
                   rungs: list[dict] | None = None,
                   constants: list[dict] | None = None) -> subprocess.CompletedProcess:
        """With few of the kernels that are checked, each of which takes a process of tune-cli, and with no
        driver to probe."""
        (self.here / "rungs.json").write_text(json.dumps(rungs or []))
        (self.here / "constants.json").write_text(json.dumps(constants or []))
        few = ["softmax:m=33,n=1000", "matmul:m=33,n=50,k=20,batch=3"]
        line = ["--build", str(self.here), "--out", str(self.here / "out.json"), "--workloads",
                *map(str, workloads or [self.here / "few.json"]), *arguments]
        out, err = io.StringIO(), io.StringIO()
        with (mock.patch.object(gpu_check, "CHECKS", few if checks is None else checks),
              mock.patch.object(gpu_check, "RUNGS", self.here / "rungs.json"),
              mock.patch.object(gpu_check, "CONSTANTS", self.here / "constants.json"),
              mock.patch.dict("os.environ", {"TILEWRIGHT_CUDA_DRIVER": "/no/libcuda.so.1"}),
              contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)):
            code = gpu_check.main(line)
        return subprocess.CompletedProcess(line, code, out.getvalue(), err.getvalue())

    def test_is_a_program_that_explains_itself(self):
        ran = subprocess.run([sys.executable, str(SCRIPT), "--help"], capture_output=True, text=True,
                             check=True)
        self.assertIn("Without a GPU it says so and ends with exit code 4", ran.stdout)
        for option in ("--build", "--out", "--minutes", "--workloads"):
            self.assertIn(option, ran.stdout)

    def test_writes_what_the_device_showed(self):
        ran = self.run_script(checks=gpu_check.CHECKS)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        report = json.loads((self.here / "out.json").read_text())
        self.assertEqual((report["device"], report["target"]), ("NVIDIA A100", "cuda:sm_80"))
        self.assertGreater(len(report["checks"]), 30)
        self.assertEqual({row["state"] for row in report["checks"]}, {"right"})
        self.assertEqual(report["measured"], [{
            "spec": "matmul:m=1,n=2,k=3", "state": "right", "seconds": 2.5e-6, "gflops": 4.0,
            "roofline_fraction": 0.5, "predicted": False, "peers": {"cublaslt": {"seconds": 2e-6}},
            "ratio": {"cublaslt": 0.8}, "absent": {}, "peer_versions": {"cublaslt": "13.1.0"}}])
        self.assertEqual(report["tests"], [{"test": "OnDevice", "state": "not built"}])
        self.assertEqual(report["device_facts"]["driver"], "CUDA 13.0")
        table = (self.here / "out.md").read_text()
        self.assertIn("| `matmul:m=1,n=2,k=3` | right | 2.5 | 50% | 0.80x |", table)
        self.assertIn("| cublaslt 13.1.0 |", table)
        self.assertIn("driver CUDA 13.0; clocks up to 1410 MHz, memory 1512 MHz", table)
        self.assertEqual(ran.stdout, table)
        self.assertTrue(report["complete"])
        self.assertEqual(list(self.here.glob("*.part")), [])

    def test_a_kernel_that_is_wrong_faults_or_does_not_end_is_an_error_that_names_it(self):
        for verdict in ("wrong", "runtime", "timeout"):
            with self.subTest(verdict):
                (self.here / verdict).write_text("softmax:m=33,n=1000")
                ran = self.run_script()
                self.assertEqual(ran.returncode, 3)
                self.assertIn("wrong on the device: softmax:m=33,n=1000", ran.stderr)
                (self.here / verdict).write_text("")

    RUNGS = [{"feature": feature, "target": target, "spec": spec, "config": {"C.tile": feature}}
             for feature, target, spec in (("cp.async", "cuda:sm_80", "softmax:m=1,n=1"),
                                           ("TMA", "cuda:sm_80", "softmax:m=2,n=2"),
                                           ("clusters", "cuda:sm_90a", "softmax:m=3,n=3"))]

    def ladder(self) -> tuple[list[tuple], subprocess.CompletedProcess]:
        ran = self.run_script(checks=[], rungs=self.RUNGS)
        rows = json.loads((self.here / "out.json").read_text())["ladder"]
        return [(row["feature"], row["state"]) for row in rows], ran

    def test_a_rung_of_the_ladder_names_its_feature(self):
        for verdict, state in (("wrong", "wrong"), ("runtime", "faults"), ("timeout", "hangs")):
            with self.subTest(verdict):
                (self.here / verdict).write_text("softmax:m=2,n=2")
                rows, ran = self.ladder()
                # The target of the device has no clusters.
                self.assertEqual(rows, [("cp.async", "right"), ("TMA", state)])
                self.assertEqual(ran.returncode, 3)
                self.assertIn("wrong on the device: TMA", ran.stderr)
                self.assertIn(f"Kernels of one feature each: ", (self.here / "out.md").read_text())
                self.assertIn(f"TMA {state}", (self.here / "out.md").read_text())
                (self.here / verdict).write_text("")

    def test_a_rung_that_does_not_answer_takes_no_other_with_it(self):
        (self.here / "silent").write_text("softmax:m=1,n=1")
        with mock.patch.object(gpu_check.ladder, "MOST_RUNG", 0.5):
            rows, _ = self.ladder()
        self.assertEqual(rows, [("cp.async", "hangs"), ("TMA", "right")])

    def test_rungs_are_watched_and_their_kernels_kept_apart(self):
        self.ladder()
        calls = (self.here / "calls").read_text().splitlines()
        rungs = [call for call in calls if "--config" in call]
        self.assertEqual(len(rungs), 2)
        self.assertTrue(all("out.ladder.db" in call and "watchdog=2000" in call for call in rungs), rungs)
        self.assertFalse(any("watchdog=2000" in call for call in calls if call not in rungs))

    CONSTANTS = [{"constant": "scope: of arrivals", "target": "cuda:sm_80", "spec": "softmax:m=4,n=4",
                  "config": {"C.stages": 3}, "variants": [
                      {"name": "block", "config": {}},
                      {"name": "cluster", "config": {"C.stages": 4}, "macros": "TW_CLUSTER_SCOPE"}]},
                 {"constant": "clusters", "target": "cuda:sm_90a", "spec": "softmax:m=5,n=5",
                  "config": {}, "variants": [{"name": "1x1", "config": {}}]}]

    def test_variants_of_a_constant_are_timed_apart_from_all_else(self):
        ran = self.run_script(checks=[], constants=self.CONSTANTS)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = json.loads((self.here / "out.json").read_text())["constants"]
        # The target of the device has no clusters.
        self.assertEqual([(row["feature"], row["state"], row["seconds"]) for row in rows],
                         [("scope: of arrivals: block", "right", 3e-6),
                          ("scope: of arrivals: cluster", "right", 3e-6)])
        self.assertIn("| scope: of arrivals: cluster | `softmax:m=4,n=4` | 3.0, 1.00x |",
                      (self.here / "out.md").read_text())
        calls = [call for call in (self.here / "calls").read_text().splitlines() if "--config" in call]
        self.assertTrue(all("out.constants.db" in call and "watchdog" not in call for call in calls), calls)
        self.assertEqual([call.rpartition("macros=")[2] for call in calls if "macros=" in call],
                         ["TW_CLUSTER_SCOPE"])

    def test_a_variant_that_hangs_faults_or_is_wrong_is_an_error_that_names_it(self):
        for verdict, state in (("wrong", "wrong"), ("runtime", "faults"), ("timeout", "hangs")):
            with self.subTest(verdict):
                (self.here / verdict).write_text("softmax:m=4,n=4")
                ran = self.run_script(checks=[], constants=self.CONSTANTS)
                self.assertEqual(ran.returncode, 3)
                self.assertIn("wrong on the device: scope: of arrivals: block", ran.stderr)
                row = json.loads((self.here / "out.json").read_text())["constants"][0]
                self.assertEqual((row["state"], "seconds" in row), (state, False))
                (self.here / verdict).write_text("")

    def planned(self, kinds: dict) -> tuple[dict, subprocess.CompletedProcess]:
        plan = self.here / "plan.db"
        plan.write_text("kernels")
        (self.here / "kinds").write_text(json.dumps(kinds))
        with mock.patch.object(gpu_check, "LEAST_SHARE", 1e9):
            ran = self.run_script("--plan", str(plan), checks=[])
        return json.loads((self.here / "out.json").read_text())["measured"][0], ran

    def test_a_plan_is_timed_by_kinds_of_kernels(self):
        kinds = {"clusters": {"seconds": 2e-6}, "mma": {"seconds": 5e-6}}
        row, ran = self.planned(kinds)
        self.assertEqual((row["state"], row["kinds"], ran.returncode), ("right", kinds, 0))
        table = (self.here / "out.md").read_text()
        self.assertIn("| by kind |", table)
        self.assertIn("| clusters 2.0, mma 5.0 |", table)

    def test_a_wrong_kernel_of_another_kind_is_an_error(self):
        row, ran = self.planned({"clusters": {"fault": "C[0] is 1"}, "mma": {"seconds": 5e-6}})
        self.assertEqual((row["state"], row["reason"], ran.returncode), ("wrong", "clusters: C[0] is 1", 3))
        self.assertIn("clusters wrong, mma 5.0", (self.here / "out.md").read_text())

    def test_a_driver_that_hangs_or_dies_takes_its_program_alone(self):
        program = self.here / "yardstick.py"
        for text, problem in (("import time; time.sleep(60)", "the yardstick did not answer in 0.5 s"),
                              ("import os; os.abort()", "the yardstick ended with -6: "),
                              ("print('no document')", "the yardstick ended with 0: ")):
            program.write_text(text)
            with mock.patch.object(gpu_check, "MOST_PROBE", 0.5):
                self.assertEqual(gpu_check.told_by(str(program), {}), {"problem": problem})

    def test_the_yardstick_stands_in_the_report(self):
        told = {"version": 130102, "product": "bf16 8192x8192x8192", "tflops": 702.5,
                "clock_mhz_at_least": 1299}
        for stick, line in ((told, "cuBLASLt 130102 computes bf16 8192x8192x8192 at 702.5 TFLOP/s: tensor "
                                   "cores run at 1299 MHz or more."),
                            ({"problem": "no cuBLASLt loads"}, "cuBLASLt as a yardstick: no cuBLASLt loads.")):
            with mock.patch.object(gpu_check, "told_by", lambda program, environment, s=stick: s):
                self.run_script(checks=[])
            self.assertIn(line, (self.here / "out.md").read_text())
            self.assertEqual(json.loads((self.here / "out.json").read_text())["yardstick"], stick)

    def test_the_sanitizer_and_the_profiler_run_where_they_are_installed(self):
        for program, code in (("compute-sanitizer", 99), ("ncu", 0)):
            fake = self.here / program
            fake.write_text(f"#!/bin/sh\necho a race >&2\nexit {code}\n")
            fake.chmod(0o755)
        with mock.patch.dict("os.environ", {"PATH": str(self.here)}):
            _, ran = self.ladder()
        rows = json.loads((self.here / "out.json").read_text())["tools"]
        self.assertEqual([row["state"] for row in rows], ["wrong"] * 6 + ["right"] * 2)
        self.assertEqual(rows[0]["reason"], "a race")
        self.assertEqual(ran.returncode, 3)
        with mock.patch.dict("os.environ", {"PATH": "/none"}):
            self.ladder()
        rows = json.loads((self.here / "out.json").read_text())["tools"]
        self.assertEqual({row["state"] for row in rows}, {"not installed"})

    def test_a_check_that_nothing_is_heard_of_is_an_error_that_names_it(self):
        (self.here / "silent").write_text("softmax:m=33,n=1000")
        with mock.patch.object(gpu_check, "GRACE", 0.0), mock.patch.object(gpu_check,
                                                                           "CHECKS_UNTIL", 0.3):
            ran = self.run_script("--minutes", "0.05")
        self.assertEqual(ran.returncode, 3)
        self.assertIn("wrong on the device: softmax:m=33,n=1000", ran.stderr)
        row = json.loads((self.here / "out.json").read_text())["checks"][0]
        self.assertIn("no answer in", row["reason"])

    def test_a_kernel_that_bench_finds_wrong_is_an_error(self):
        (self.here / "faulty").write_text("")
        ran = self.run_script()
        self.assertEqual(ran.returncode, 3)
        self.assertIn("wrong on the device: matmul:m=1,n=2,k=3", ran.stderr)

    def device_tests(self, program: str,
                     *arguments: str) -> tuple[list, subprocess.CompletedProcess]:
        tests = self.here / "test_cli"
        tests.write_text(f"#!{sys.executable} -IS\n" + program)
        tests.chmod(0o755)
        ran = self.run_script(*arguments)
        return json.loads((self.here / "out.json").read_text())["tests"], ran

    # A test program of three cases.
    TESTS = """import json, os, sys, time
if "--gtest_list_tests" in sys.argv:
    sys.exit(print("Running main()\\nOnDevice.\\n  A\\n  B\\n  C  # of numbers"))
out = [a for a in sys.argv if a.startswith("--gtest_output=json:")][0].split(":", 1)[1]
name = [a for a in sys.argv if a.startswith("--gtest_filter=")][0].split(".", 1)[1]
case = {"A": {"result": "COMPLETED"}, "B": {"result": "SKIPPED"},
        "C": {"result": "COMPLETED", "failures": [{"failure": "C[3] is off"}]}}[name]
BEFORE
json.dump({"testsuites": [{"name": "OnDevice", "testsuite": [{"name": name, **case}]}]},
          open(out, "w"))
"""

    def test_the_tests_of_the_device_are_told(self):
        rows, ran = self.device_tests(self.TESTS.replace("BEFORE", ""))
        self.assertEqual([(row["test"], row["state"]) for row in rows],
                         [("OnDevice.A", "right"), ("OnDevice.B", "skipped"),
                          ("OnDevice.C", "wrong")])
        self.assertEqual(rows[2]["reason"], "C[3] is off")
        self.assertEqual(ran.returncode, 3)
        self.assertIn("wrong on the device: OnDevice.C", ran.stderr)

    def test_a_test_that_never_ends_takes_no_other_with_it(self):
        stuck = "if name == 'A': os.fork(); time.sleep(60)"
        with mock.patch.object(gpu_check, "LEAST_TEST", 0.0):
            rows, ran = self.device_tests(self.TESTS.replace("BEFORE", stuck), "--minutes", "1")
        self.assertEqual([(row["test"], row["state"]) for row in rows],
                         [("OnDevice.A", "timed out"), ("OnDevice.B", "skipped"),
                          ("OnDevice.C", "wrong")], ran.stderr)

    def test_a_test_program_that_dies_is_an_error(self):
        rows, ran = self.device_tests("print('a crash'); raise SystemExit(139)\n")
        self.assertEqual(rows, [{"test": "OnDevice", "state": "wrong", "reason": "a crash\n"}])
        self.assertEqual(ran.returncode, 3)
        rows, ran = self.device_tests(self.TESTS.replace(
            "BEFORE", "print('a late crash'); sys.exit(139)"))
        self.assertEqual(rows[0], {"test": "OnDevice.A", "state": "wrong",
                                   "reason": "a late crash\n"})

    def test_a_tool_that_never_answers_is_ended_and_told(self):
        (self.here / "hangs").write_text("")
        with mock.patch.object(gpu_check, "MOST_BENCH", 0.5):
            ran = self.run_script(checks=[])
        row, = json.loads((self.here / "out.json").read_text())["measured"]
        self.assertEqual(row["state"], "timed out", ran.stderr)
        self.assertIn("no answer in", row["reason"])

    def test_an_end_before_time_leaves_what_is_known(self):
        with mock.patch.object(gpu_check, "tune_all", side_effect=KeyboardInterrupt):
            ran = self.run_script()
        self.assertEqual(ran.returncode, 130, ran.stderr)
        report = json.loads((self.here / "out.json").read_text())
        self.assertFalse(report["complete"])
        self.assertEqual([row["state"] for row in report["checks"]], ["right", "right"])
        self.assertEqual([row["state"] for row in report["measured"]], ["not reached"])
        self.assertIn("Ended before it was done.", (self.here / "out.md").read_text())

    def test_every_step_is_written_at_once(self):
        seen = []
        original = gpu_check.check_kernel

        def look(*arguments):
            seen.append(len(json.loads((self.here / "out.json").read_text())["checks"]))
            return original(*arguments)

        with mock.patch.object(gpu_check, "check_kernel", look):
            self.run_script()
        self.assertEqual(seen, [0, 1])

    def test_kernels_of_a_plan_are_timed_before_any_is_tuned(self):
        plan = self.here / "plan.db"
        plan.write_text("kernels")
        (self.here / "predicted").write_text("")
        two = self.here / "two.json"
        two.write_text(json.dumps([{"op": "matmul", "m": m, "n": 2, "k": 3} for m in (1, 2)]))
        # No time to tune.
        with mock.patch.object(gpu_check, "LEAST_SHARE", 1e9):
            self.run_script("--plan", str(plan), checks=[], workloads=[two])
        rows = json.loads((self.here / "out.json").read_text())["measured"]
        self.assertEqual([(row["state"], row["predicted"]) for row in rows], [("right", True)] * 2)
        self.assertIn("| right, model | 2.5 |", (self.here / "out.md").read_text())
        self.assertEqual((self.here / "out.db").read_text(), "kernels")
        (self.here / "calls").unlink()
        self.run_script("--plan", str(plan), checks=[], workloads=[two])
        self.assertEqual([line.split()[0] for line in (self.here / "calls").read_text().splitlines()],
                         ["targets", "bench", "bench", "tune", "bench", "tune", "bench"])
        rows = json.loads((self.here / "out.json").read_text())["measured"]
        self.assertEqual([row["predicted"] for row in rows], [False, False], "tuned meanwhile")

    def test_a_plan_is_prepared_with_no_device(self):
        (self.here / "device").write_text("")
        ran = self.run_script("--prepare", "cuda:sm_90a", "--plan", str(self.here / "plan.db"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("has kernels of 1 of 1 workloads", ran.stdout)
        call = (self.here / "calls").read_text()
        self.assertIn("--target cuda:sm_90a", call)
        self.assertIn("--offline --trials 200", call)
        self.assertFalse((self.here / "out.json").exists())

    def test_a_plan_that_is_not_there_is_refused(self):
        for line, why in ((("--plan", "/no/plan.db"), "there is no plan '/no/plan.db'"),
                          (("--prepare", "cuda:sm_80"), "--prepare needs --plan FILE")):
            ran = subprocess.run([sys.executable, str(SCRIPT), *line], capture_output=True, text=True,
                                 check=False)
            self.assertEqual(ran.returncode, 2)
            self.assertIn(why, ran.stderr)

    def test_a_bundle_is_a_tree_as_well(self):
        (self.here / "bin").mkdir()
        for name in ("tune-cli", "device", "wrong"):
            (self.here / name).rename(self.here / "bin" / name)
        ran = self.run_script()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        tree = gpu_check.Tree(self.here)
        with mock.patch.dict("os.environ", {"LD_LIBRARY_PATH": "/cuda"}):
            self.assertEqual(tree.environment()["LD_LIBRARY_PATH"], f"/cuda:{self.here / 'lib'}")

    def benched(self, *files: pathlib.Path, minutes: float = 7.5) -> list[dict]:
        ran = self.run_script("--minutes", str(minutes), checks=[], workloads=list(files))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return [json.loads(line.split(" --json ")[1].split(" --target")[0])
                for line in (self.here / "calls").read_text().splitlines()
                if line.startswith("bench")]

    def test_each_kind_comes_first_then_other_numbers_of_rows(self):
        file = self.here / "kinds.json"
        file.write_text(json.dumps([
            {"op": "matmul", "m": m, "n": n, "k": 3, "trans_b": True, "dtype": dtype}
            for dtype in ("f16", "i8") for m in (4096, 1) for n in (2, 5)]))
        self.assertEqual([(w["dtype"], w["m"], w["n"]) for w in self.benched(file)],
                         [("f16", 4096, 2), ("i8", 4096, 2), ("f16", 1, 2), ("i8", 1, 2),
                          ("f16", 4096, 5), ("i8", 4096, 5), ("f16", 1, 5), ("i8", 1, 5)])
        self.assertIn("All 8 workloads were reached.", (self.here / "out.md").read_text())

    def test_what_comes_later_is_left_out_where_time_is_short(self):
        file = self.here / "many.json"
        file.write_text(json.dumps([{"op": "matmul", "m": m, "n": 2, "k": 3} for m in (1, 2)]))
        # Less than a search needs is left for any of them.
        self.assertEqual(self.benched(file, minutes=0.1), [])
        table = (self.here / "out.md").read_text()
        self.assertIn("2 of 2 workloads were not reached in the time.", table)
        self.assertIn('"m": 2, "n": 2, "k": 3}` | not reached |', table)

    def test_workloads_come_in_turns_from_each_file(self):
        more = self.here / "more.json"
        more.write_text(json.dumps([{"op": "softmax", "m": 1, "n": 2}]))
        few = self.here / "few.json"
        few.write_text(json.dumps({"workloads": [{"op": "matmul", "m": m, "n": 2, "k": 3}
                                                 for m in (1, 2)]}))
        benched = self.benched(few, more)
        self.assertEqual([w["op"] for w in benched], ["matmul", "softmax", "matmul"])

    def test_without_a_device_it_says_so_and_runs_nothing(self):
        (self.here / "device").write_text("")
        ran = self.run_script()
        self.assertEqual(ran.returncode, 4)
        self.assertIn("no GPU here", ran.stderr)
        self.assertFalse((self.here / "out.json").exists())
        self.assertEqual((self.here / "calls").read_text(), "targets --json\n")

    def test_what_the_time_does_not_reach_is_told(self):
        ran = self.run_script("--minutes", "0")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        report = json.loads((self.here / "out.json").read_text())
        self.assertEqual({row["state"] for row in report["checks"] + report["measured"]},
                         {"not reached"})

    def test_a_tree_without_the_tool_is_refused(self):
        (self.here / "tune-cli").unlink()
        ran = self.run_script()
        self.assertEqual(ran.returncode, 2)
        self.assertIn("there is no tune-cli in", ran.stderr)


if __name__ == "__main__":
    unittest.main()
