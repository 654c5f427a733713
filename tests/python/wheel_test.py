"""A wheel is built of the installed build, installed into a fresh environment, and used there, from
another folder and with nothing of the build in sight. Skipped where pip cannot have what builds
wheels."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

from support import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["TILEWRIGHT_BUILD"])
TOOLS = ["scikit-build-core", "pybind11"]
# Variables that a program inherits from this test and must do without.
OWN = ("PYTHONPATH", "TILEWRIGHT_TUNE_CLI", "TILEWRIGHT_BUILD", "PYTHON_KERNELS", "LD_LIBRARY_PATH")

SMOKE = """
import json, sys
import numpy as np
import tilewright
spec = "matmul:m=1..8,n=16,k=16"
result, = tilewright.tune(spec, db=sys.argv[1], trials=2, threads=1, progress=None)
kernel = tilewright.Library(sys.argv[1]).prepare(spec, threads=1)[spec]
a, b = tilewright.empty((3, 16)), tilewright.empty((16, 16))
a[:], b[:] = np.arange(48).reshape(a.shape) % 5, np.arange(256).reshape(b.shape) % 7
np.testing.assert_array_equal(kernel(a, weights=kernel.pack({"B": b})), a @ b)
print(json.dumps({"version": tilewright.__version__, "from": tilewright.__file__,
                  "trials": result["trials"]}))
"""


def run(*command, check: bool = True, **options) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          env=environment, stdin=subprocess.DEVNULL, check=False, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name).resolve()
        build_python = cls.environment("build")
        had = run(build_python, "-m", "pip", "install", "--quiet", "--no-input", *TOOLS, check=False)
        if had.returncode != 0:
            raise unittest.SkipTest("pip cannot have " + " and ".join(TOOLS))
        run("cmake", "--install", BUILD, "--prefix", cls.folder / "installed", "--strip")
        run(build_python, "-m", "pip", "wheel", ROOT / "python", "--no-deps", "--no-build-isolation",
            "--wheel-dir", cls.folder / "wheels",
            f"--config-settings=cmake.define.TILEWRIGHT_INSTALLED={cls.folder / 'installed'}",
            f"--config-settings=build-dir={cls.folder / 'wheel-build'}")
        cls.wheel, = (cls.folder / "wheels").iterdir()
        cls.python = cls.environment("fresh", "--system-site-packages")  # for NumPy
        run(cls.python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", cls.wheel)

    @classmethod
    def environment(cls, name: str, *options: str) -> pathlib.Path:
        run(sys.executable, "-m", "venv", *options, cls.folder / name)
        return cls.folder / name / "bin" / "python"

    def test_what_is_in_it(self):
        version = re.search(r"project\(tilewright VERSION ([0-9.]+)",
                            (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertRegex(self.wheel.name, rf"^tilewright-{re.escape(version)}-cp3\d+-cp3\d+-linux_")
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            license_file, = [name for name in names if name.endswith("/LICENSE")]
            self.assertEqual(archive.read(license_file), (ROOT / "LICENSE").read_bytes())
            metadata, = [name for name in names if name.endswith("/METADATA")]
            self.assertIn("License-Expression: Apache-2.0", archive.read(metadata).decode())
        for name in ("__init__.py", "py.typed", "_core.pyi", "torch.py", "bin/tune-cli",
                     "lib/libtilewright.so.0", "lib/libxgboost.so.0", "lib/libsqlite3.so.0",
                     "lib/libsodium.so.23"):
            self.assertIn("tilewright/" + name, names)
        strays = [name for name in names if re.search(r"\.(h|cc|a|cmake)$|/libc\.so", name)]
        self.assertEqual(strays, [], "only what runs")

    def test_it_loads_nothing_from_outside(self):
        package = next((self.folder / "fresh" / "lib").glob("python3.*/site-packages/tilewright"))
        run(ROOT / "scripts" / "bundle", "--check", package)
        module, = package.glob("_core.*.so")
        found = re.findall(r"(lib(?:tilewright|sqlite3|sodium)\.so\.\d+) => (\S+)",
                           run("ldd", module).stdout)
        self.assertEqual({name for name, path in found},
                         {"libtilewright.so.0", "libsqlite3.so.0", "libsodium.so.23"})
        for _, path in found:
            self.assertTrue(os.path.realpath(path).startswith(f"{package}/lib/"), path)

    def test_it_tunes_and_serves(self):
        told = json.loads(run(self.python, "-c", SMOKE, self.folder / "kernels.db",
                              cwd=self.folder).stdout)
        self.assertEqual(told["trials"], 2)
        self.assertTrue(told["from"].startswith(str(self.folder / "fresh")), told)
        self.assertIn(f"-{told['version']}-", self.wheel.name)

    def test_without_the_sources_or_a_tree_it_says_what_it_needs(self):
        alone = self.folder / "alone"
        alone.mkdir()
        for name in ("CMakeLists.txt", "wheel.cmake"):
            (alone / name).write_text((ROOT / "python" / name).read_text())
        done = run("cmake", "-S", alone, "-B", alone / "build", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("-DTILEWRIGHT_INSTALLED=DIR", done.stderr)


if __name__ == "__main__":
    main()
