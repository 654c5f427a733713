"""scripts/gpu-check: what it runs, what it writes, and how it ends."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu-check"

# Answers as tune-cli would on a machine with the GPU in the file `device`; candidates of specs that
# the file `wrong` names are wrong.
FAKE_TUNE_CLI = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
command, arguments = sys.argv[1], sys.argv[2:]
with open(here / "calls", "a") as calls:
    print(command, *arguments, file=calls)
device = (here / "device").read_text() or None
if command == "targets":
    print(json.dumps({{"targets": [{{"target": "native"}}, {{"target": "cuda:sm_80", "device": device}},
                                   {{"target": "cuda:sm_90a", "device": None}}]}}))
    sys.exit(0)
spec = arguments[1]
if command == "tune":
    wrong = int(spec in (here / "wrong").read_text().split())
    print(json.dumps({{"results": [{{"spec": spec, "valid": 3 - wrong,
                                     "invalid": {{"wrong": wrong, "runtime": 0}}}}]}}))
else:
    print(json.dumps({{"results": [{{"spec": "matmul:m=1,n=2,k=3", "hit": True, "checked": True,
                                     "seconds": 2.5e-6, "max_rel_error": 1e-4}}]}}))
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

    def run_script(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, str(SCRIPT), "--build", str(self.here), "--out",
             str(self.here / "out.json"), "--workloads", str(self.here / "few.json"), *arguments],
            capture_output=True, text=True, check=False)

    def test_writes_what_the_device_showed(self):
        ran = self.run_script()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        report = json.loads((self.here / "out.json").read_text())
        self.assertEqual((report["device"], report["target"]), ("NVIDIA A100", "cuda:sm_80"))
        self.assertGreater(len(report["checks"]), 30)
        self.assertEqual({row["state"] for row in report["checks"]}, {"right"})
        self.assertEqual(report["measured"], [{"spec": "matmul:m=1,n=2,k=3", "state": "right",
                                               "seconds": 2.5e-6, "max_rel_error": 1e-4}])
        table = (self.here / "out.md").read_text()
        self.assertIn("| `matmul:m=1,n=2,k=3` | right | 2.5 |", table)
        self.assertEqual(ran.stdout, table)

    def test_a_wrong_kernel_is_an_error_that_names_it(self):
        (self.here / "wrong").write_text("softmax:m=33,n=1000")
        ran = self.run_script()
        self.assertEqual(ran.returncode, 3)
        self.assertIn("wrong on the device: softmax:m=33,n=1000", ran.stderr)

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
