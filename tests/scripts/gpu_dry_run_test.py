"""scripts/gpu-check with the tune-cli that was built, on the driver that stands in for NVIDIA's: each way
in which a device may fail, as the report tells it.

usage: gpu_dry_run_test.py BUILD
Exits 77 where NVRTC is missing."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from gpu_check_test import gpu_check
from gpu_probe_test import DRIVER, LIBRARIES, build, text_of
from gpu_checks import probe

BUILD = pathlib.Path()
SPEC, TARGET = "elementwise:shape=64,fn=relu", "cuda:sm_80"
# No library proposes a product, whose 8192 rows the stand-in would take hours for.
QUIET = {"FAKE_CUDA_LIBRARY": "none", "FAKE_CUDA_ANY": "1"}


class DryRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.here = pathlib.Path(cls.folder.name)
        driver = build(cls.here, text_of(DRIVER, "kFakeDriver"))
        build(cls.here, text_of(LIBRARIES, "kFakeProducts") + text_of(LIBRARIES, "kFakeCublasLt"),
              "libcublasLt.so.13")
        cls.environment = {**QUIET, "TILEWRIGHT_CUDA_DRIVER": str(driver),
                           "TILEWRIGHT_PEERS": str(cls.here), "TILEWRIGHT_DB": str(cls.here / "no.db")}
        cls.rung = {"feature": "elements", "target": TARGET, "spec": SPEC, "config": {"Y.threads": 256}}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, *, rungs: bool = False, checks: bool = True,
              **environment: str) -> tuple[int, dict, str]:
        """The exit code, the report, and what stands on standard error."""
        constant = {**self.rung, "constant": "nothing", "variants": [{"name": "same", "config": {}}]}
        files = {"rungs": [self.rung] if rungs else [], "workloads": [],
                 "constants": [constant] if rungs else []}
        for name, rows in files.items():
            (self.here / f"{name}.json").write_text(json.dumps(rows))
        out, err = self.here / "out.json", io.StringIO()
        out.unlink(missing_ok=True)
        with (mock.patch.object(gpu_check, "CHECKS", [SPEC] if checks else []),
              mock.patch.object(gpu_check, "RUNGS", self.here / "rungs.json"),
              mock.patch.object(gpu_check, "CONSTANTS", self.here / "constants.json"),
              mock.patch.object(gpu_check, "device_tests"),
              mock.patch.object(gpu_check.ladder, "MOST_RUNG", 8.0),
              mock.patch.dict("os.environ", {**self.environment, **environment}),
              contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err)):
            code = gpu_check.main(["--build", str(BUILD), "--out", str(out), "--minutes", "2",
                                   "--workloads", str(self.here / "workloads.json")])
        return code, json.loads(out.read_text()) if out.exists() else {}, err.getvalue()

    def test_kernels_that_are_right(self):
        code, report, said = self.check(rungs=True)
        self.assertEqual(code, 0, said)
        self.assertEqual([row["state"] for row in report["ladder"] + report["checks"]], ["right", "right"])
        # The stand-in's events are 1.5 ms apart.
        self.assertAlmostEqual(report["constants"][0]["seconds"], 1.5e-3)
        self.assertEqual(report["yardstick"]["problem"], "cublasLtMatmulAlgoGetHeuristic: status 15")

    def test_a_device_that_is_missing(self):
        code, report, said = self.check(FAKE_CUDA_NO_DEVICE="1")
        self.assertEqual((code, report), (4, {}))
        self.assertIn("gpu-check: cuInit: error 100", said)

    def test_an_old_driver(self):
        code, report, _ = self.check(FAKE_CUDA_VERSION="11040")
        self.assertEqual(report["probe"]["problem"],
                         "the driver is one of CUDA 11.4; kernels for sm_90a need 12.0")
        # Its kernels for older devices run.
        self.assertEqual((code, report["checks"][0]["state"]), (0, "right"))

    def test_no_nvrtc(self):
        code, report, _ = self.check(TILEWRIGHT_CUDA="off")
        self.assertEqual((code, report["checks"][0]["state"]), (0, "refused"))
        self.assertIn("NVRTC is switched off", report["checks"][0]["reason"])

    def test_a_wrong_result(self):
        code, report, said = self.check(rungs=True, FAKE_CUDA_KERNEL="wrong")
        self.assertEqual(code, 3)
        self.assertEqual([row["state"] for row in report["ladder"] + report["checks"]], ["wrong", "wrong"])
        self.assertIn("wrong on the device: elements", said)

    def test_a_fault(self):
        code, report, said = self.check(rungs=True, checks=False, FAKE_CUDA_KERNEL="fault")
        self.assertEqual((code, report["ladder"][0]["state"]), (3, "faults"))
        self.assertIn("wrong on the device: elements", said)

    def test_a_hang_takes_its_rung_alone(self):
        script = self.here / "script"
        # The first process with a launch never ends.
        script.write_text("h")
        code, report, said = self.check(rungs=True, FAKE_CUDA_SCRIPT=str(script))
        self.assertEqual((code, report["ladder"][0]["state"]), (3, "hangs"))
        self.assertEqual(report["checks"][0]["state"], "right")
        self.assertIn("wrong on the device: elements", said)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1))
    if not probe.nvrtc_elsewhere(dict(os.environ)):
        print("skipped: no NVRTC; scripts/deps --cuda installs it")
        sys.exit(77)
    unittest.main()
