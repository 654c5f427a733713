"""scripts/gpu_checks/probe.py and yardstick.py on the driver and the cuBLASLt that stand in for NVIDIA's
in tests: each way in which a machine may be no use, and the folders where the probe finds what tune-cli
does not."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
from gpu_checks import probe, yardstick  # noqa: E402

DRIVER = ROOT / "tests" / "runtime" / "cuda" / "fake_driver.h"
LIBRARIES = DRIVER.with_name("fake_libraries.h")


def text_of(file: pathlib.Path, name: str) -> str:
    """The program that a header of C++ holds under this name."""
    return re.search(name + r' = (?:\w+ \+ )?R"\((.*?)\n\)"', file.read_text(), re.DOTALL).group(1)


def build(folder: pathlib.Path, text: str, name: str = "libcuda.so.1") -> pathlib.Path:
    source, library = folder / "source.cc", folder / name
    source.write_text(text)
    subprocess.run(["g++", "-w", "-shared", "-fPIC", source, "-o", library], check=True)
    return library


class Probe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.library = build(pathlib.Path(cls.folder.name), text_of(DRIVER, "kFakeDriver"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def probe(self, *, library: pathlib.Path | None = None, seconds: float = 60,
              **environment: str) -> dict:
        ran = subprocess.run([sys.executable, probe.__file__, library or self.library], check=True,
                             capture_output=True, text=True, timeout=seconds,
                             env={**os.environ, **environment})
        return json.loads(ran.stdout)

    def test_numbers_of_a_device(self):
        found = self.probe()
        self.assertNotIn("problem", found)
        self.assertEqual((found["device"], found["driver_version"]), ("Fake GPU", 13000))
        # 256 MiB in the 1.5 ms that the stand-in's events are apart.
        self.assertEqual(found["fill_gb_per_second"], 179.0)
        self.assertGreater(found["submission_us"], 0)

    def test_a_device_that_is_missing(self):
        self.assertEqual(self.probe(FAKE_CUDA_NO_DEVICE="1")["problem"], "cuInit: error 100")

    def test_an_old_driver(self):
        found = self.probe(FAKE_CUDA_VERSION="11040")
        self.assertEqual(found["problem"],
                         "the driver is one of CUDA 11.4; kernels for sm_90a need 12.0")
        self.assertNotIn("fill_gb_per_second", found)

    def test_a_fault_names_its_function(self):
        self.assertEqual(self.probe(FAKE_CUDA_FAIL="cuEventSynchronize")["problem"],
                         "cuEventSynchronize: error 700")

    def test_no_driver(self):
        self.assertEqual(self.probe(library=pathlib.Path("/no/libcuda.so.1"))["problem"],
                         "no library of the CUDA driver loads")

    def test_a_driver_without_a_function(self):
        with tempfile.TemporaryDirectory() as folder:
            old = build(pathlib.Path(folder), 'extern "C" int cuInit(unsigned) { return 0; }')
            self.assertEqual(self.probe(library=old)["problem"], "the driver has no cuDriverGetVersion")

    def test_nvrtc_of_a_wheel_is_named_where_there_is_no_other(self):
        with tempfile.TemporaryDirectory() as folder:
            lib = pathlib.Path(folder) / "nvidia" / "cu13" / "lib"
            lib.mkdir(parents=True)
            self.assertIsNone(probe.wheel_toolkit([folder]))
            (lib / "libnvrtc.so.13").write_text("")
            self.assertEqual(probe.wheel_toolkit([folder]), str(lib.parent))
            with unittest.mock.patch.object(probe, "nvrtc_elsewhere", lambda environment: False):
                self.assertEqual(probe.additions({}, [folder])["TILEWRIGHT_CUDA"], str(lib.parent))
                self.assertNotIn("TILEWRIGHT_CUDA", probe.additions({"TILEWRIGHT_CUDA": "/x"}, [folder]))
            with unittest.mock.patch.object(probe, "nvrtc_elsewhere", lambda environment: True):
                self.assertNotIn("TILEWRIGHT_CUDA", probe.additions({}, [folder]))

    def test_a_driver_in_another_place_is_named(self):
        with unittest.mock.patch.object(probe, "DRIVERS", ("/no/libcuda.so.1", str(self.library))):
            self.assertEqual(probe.additions({}, [])["TILEWRIGHT_CUDA_DRIVER"], str(self.library))


class Yardstick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        place = pathlib.Path(cls.folder.name)
        cls.driver = build(place, text_of(DRIVER, "kFakeDriver"))
        build(place, text_of(LIBRARIES, "kFakeProducts") + text_of(LIBRARIES, "kFakeCublasLt"),
              yardstick.LIBRARIES[0])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def measure(self, *, peers: str | None = None, seconds: float = 60, **environment: str) -> dict:
        ran = subprocess.run([sys.executable, yardstick.__file__, self.driver, "16"], check=True,
                             capture_output=True, text=True, timeout=seconds,
                             env={**os.environ, "TILEWRIGHT_PEERS": peers or self.folder.name, **environment})
        return json.loads(ran.stdout)

    def test_the_rate_and_the_clock_that_it_takes(self):
        found = self.measure()
        self.assertNotIn("problem", found)
        self.assertEqual((found["product"], found["version"]), ("bf16 16x16x16", 130102))
        # 20 runs in the 1.5 ms that the stand-in's events are apart; 8192 operations are a rate of 0.
        self.assertAlmostEqual(found["seconds"], 75e-6)
        self.assertEqual((found["tflops"], found["clock_mhz_at_least"]), (0.0, 0))

    def test_the_clock_follows_from_the_rate(self):
        driver = unittest.mock.Mock()
        with (unittest.mock.patch.object(yardstick, "Yardstick") as stick,
              unittest.mock.patch.object(yardstick, "attribute",
                                         lambda _, which: {75: 9, 76: 0, 16: 132}[which])):
            stick.return_value.candidates, stick.return_value.seconds.return_value = [1], 1.5e-3
            found = yardstick.measure(driver, None, 8192)
        self.assertEqual(found, {"seconds": 1.5e-3, "tflops": 733.0, "clock_mhz_at_least": 1356})

    def test_a_wrong_product(self):
        self.assertEqual(self.measure(FAKE_CUDA_LIBRARY="wrong")["problem"], "its product is wrong")

    def test_a_library_that_proposes_nothing(self):
        self.assertEqual(self.measure(FAKE_CUDA_LIBRARY="none")["problem"],
                         "cublasLtMatmulAlgoGetHeuristic: status 15")

    def test_a_device_that_is_missing(self):
        self.assertEqual(self.measure(FAKE_CUDA_NO_DEVICE="1")["problem"], "cuInit: error 100")

    def test_a_fault_names_its_function(self):
        # The stand-in's first algorithm never starts.
        self.assertEqual(self.measure(FAKE_CUDA_FAIL="cuEventSynchronize")["problem"],
                         "cublasLtMatmul: status 14; cuEventSynchronize: error 700")

    def test_a_library_that_hangs_can_be_ended(self):
        with self.assertRaises(subprocess.TimeoutExpired):
            self.measure(seconds=2, FAKE_CUDA_LIBRARY="hang")

    def test_no_library(self):
        with (unittest.mock.patch.object(yardstick, "LIBRARIES", ("libno-such.so",))):
            self.assertEqual(yardstick.yardstick(str(self.driver), {}, 16), {"problem": "no cuBLASLt loads"})


if __name__ == "__main__":
    unittest.main()
