"""All Python packages, as their sdists and wheels: metadata, files, and use in fresh environments with
nothing of the build in sight. The wheels take their content from the finished build, since compiling
it again takes minutes: scripts/check_packages does that. Skipped where pip cannot have what builds
wheels."""
import email
import email.message
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

from support import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["TILEWRIGHT_BUILD"])
VERSION = re.search(r"project\(tilewright VERSION ([0-9.]+)",
                    (ROOT / "CMakeLists.txt").read_text())[1]
TOOLS = ["scikit-build-core>=1.0", "pybind11", "tomlkit", "build"]
# Variables that a program inherits from this test and must do without.
OWN = ("PYTHONPATH", "TILEWRIGHT_TUNE_CLI", "TILEWRIGHT_BUILD", "PYTHON_KERNELS", "LD_LIBRARY_PATH")
C_LIBRARY = re.compile(r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|ld-linux|linux-vdso")


def run(*command, check: bool = True, **options) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          env=environment, stdin=subprocess.DEVNULL, check=False, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name).resolve()
        cls.build_python = cls.environment("build")
        had = run(cls.build_python, "-m", "pip", "install", "--quiet", "--no-input", *TOOLS,
                  check=False)
        if had.returncode != 0:
            raise unittest.SkipTest("pip cannot have " + " and ".join(TOOLS))
        cls.sdists, cls.files, cls.trees, cls.wheels = {}, {}, {}, {}
        for package, setting in (("tilewright", "tilewright"), ("tilewright_runtime", "runtime"),
                                 ("onnxruntime_ep_tilewright", "provider")):
            run(cls.build_python, "-m", "build", "--sdist", "--no-isolation", ROOT, "--outdir",
                cls.folder / package, f"--config-setting=package={setting}")
            cls.sdists[package], = (cls.folder / package).iterdir()
            with tarfile.open(cls.sdists[package]) as archive:
                cls.files[package] = {member.name.partition("/")[2] for member in archive
                                      if member.isfile()}
                archive.extractall(cls.folder / "trees")
            cls.trees[package] = cls.folder / "trees" / f"{package}-{VERSION}"
            run(cls.build_python, "-m", "pip", "wheel", cls.trees[package], "--no-deps",
                "--no-build-isolation", "--wheel-dir", cls.folder / "wheels",
                "--config-settings=cmake.source-dir=python",
                f"--config-settings=cmake.define.TILEWRIGHT_BUILD={BUILD}")
            cls.wheels[package], = (cls.folder / "wheels").glob(f"{package}-*.whl")

    @classmethod
    def environment(cls, name: str, *wheels: pathlib.Path) -> pathlib.Path:
        """The interpreter of a fresh environment; one with wheels sees the system's NumPy."""
        run(sys.executable, "-m", "venv", *["--system-site-packages"] * bool(wheels),
            cls.folder / name)
        python = cls.folder / name / "bin" / "python"
        if wheels:
            run(python, "-m", "pip", "install", "--quiet", "--no-index", *wheels)
        return python

    def metadata(self, package: str) -> email.message.Message:
        with zipfile.ZipFile(self.wheels[package]) as archive:
            name, = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            return email.message_from_bytes(archive.read(name))

    def names(self, package: str) -> list[str]:
        with zipfile.ZipFile(self.wheels[package]) as archive:
            return archive.namelist()

    def test_names_versions_and_tags(self):
        self.assertRegex(self.wheels["tilewright"].name,
                         rf"^tilewright-{re.escape(VERSION)}-py3-none-linux_\w+\.whl$")
        self.assertRegex(self.wheels["tilewright_runtime"].name,
                         rf"^tilewright_runtime-{re.escape(VERSION)}-cp3\d+-cp3\d+-linux_\w+\.whl$")

        self.assertRegex(self.wheels["onnxruntime_ep_tilewright"].name,
                         rf"^onnxruntime_ep_tilewright-{re.escape(VERSION)}-py3-none-linux_\w+\.whl$")

    def test_the_provider_brings_its_library_and_requires_no_runtime(self):
        metadata = self.metadata("onnxruntime_ep_tilewright")
        self.assertEqual((metadata["Name"], metadata["Version"]), ("onnxruntime-ep-tilewright", VERSION))
        self.assertIsNone(metadata.get_all("Requires-Dist"))
        names = self.names("onnxruntime_ep_tilewright")
        libraries = {name for name in names if ".so" in name}
        self.assertEqual(libraries, {f"onnxruntime_ep_tilewright/lib/{name}" for name in (
            "libonnxruntime_ep_tilewright.so", "libsqlite3.so.0", "libsodium.so.23")})
        self.assertIn("onnxruntime_ep_tilewright/__init__.py", names)
        python = self.environment("provider", self.wheels["onnxruntime_ep_tilewright"])
        path = run(python, "-c", "import onnxruntime_ep_tilewright as ep; print(ep.get_library_path(), ep.get_ep_name())",
                   cwd=self.folder).stdout.split()
        self.assertEqual(path[1], "TilewrightExecutionProvider")
        package = pathlib.Path(path[0]).parents[1]
        self.loads_from_inside(package, "lib/libonnxruntime_ep_tilewright.so", "libsqlite3.so.0",
                               "libsodium.so.23")

    def test_metadata(self):
        tuner, runtime = self.metadata("tilewright"), self.metadata("tilewright_runtime")
        self.assertEqual((tuner["Name"], runtime["Name"]), ("tilewright", "tilewright-runtime"))
        self.assertEqual((tuner["Version"], runtime["Version"]), (VERSION, VERSION))
        required = tuner.get_all("Requires-Dist")
        self.assertIn(f"tilewright-runtime=={VERSION}", required)
        self.assertEqual([r for r in runtime.get_all("Requires-Dist") if "extra" not in r],
                         ["numpy>=1.23"])
        for one in (tuner, runtime):
            self.assertEqual(one["License-Expression"], "Apache-2.0")
            self.assertEqual(one["Requires-Python"], ">=3.9")
            licenses = one.get_all("License-File")
            self.assertIn("LICENSE", licenses)
            self.assertIn("THIRD_PARTY/README.md", licenses)
            self.assertIn("THIRD_PARTY/LGPL-2.1.txt", licenses)

    def test_the_tuner_has_the_program_and_no_second_module(self):
        names = self.names("tilewright")
        for name in ("__init__.py", "bin/tune-cli", "lib/libxgboost.so.0", "lib/libsqlite3.so.0",
                     "lib/libgomp.so.1"):
            self.assertIn("tilewright_tuner/" + name, names)
        self.assertEqual([name for name in names if name.startswith("tilewright/")], [])
        self.assertEqual([name for name in names if "libtilewright" in name or "_core" in name], [])

    def test_the_runtime_has_the_module_and_no_tuner(self):
        names = self.names("tilewright_runtime")
        for name in ("__init__.py", "py.typed", "_core.pyi", "torch/__init__.py", "vllm.py", "lib/libtilewright.so.0",
                     "lib/libsqlite3.so.0", "lib/libsodium.so.23"):
            self.assertIn("tilewright/" + name, names)
        with zipfile.ZipFile(self.wheels["tilewright_runtime"]) as archive:
            name, = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
            entries = archive.read(name).decode()
        self.assertIn("[torch_dynamo_backends]\ntilewright = tilewright.torch:backend", entries)
        self.assertIn("[vllm.general_plugins]\ntilewright = tilewright.vllm:register", entries)
        libraries = [name for name in names if ".so" in name]
        self.assertEqual(len(libraries), 4, libraries)
        self.assertEqual([name for name in names if "tune-cli" in name or "xgboost" in name], [])
        self.assertLess(self.wheels["tilewright_runtime"].stat().st_size, 4 << 20, "small")

    def test_wheels_have_only_what_runs(self):
        for package in self.wheels:
            strays = [name for name in self.names(package) if re.search(
                r"\.(h|cc|a|cmake)$|/lib(c|stdc\+\+|gcc_s)\.so|python/", name)]
            self.assertEqual(strays, [], package)

    def test_sdists_have_the_whole_tree(self):
        tracked = run("git", "-C", ROOT, "ls-files", check=False)
        if tracked.returncode != 0:
            self.skipTest("git does not know this tree")
        wanted = {name for name in tracked.stdout.splitlines()
                  if not name.startswith((".github/", ".ci/")) and (ROOT / name).is_file()}
        for package, tree in self.trees.items():
            have = self.files[package]
            self.assertEqual(wanted - have, set(), package)
            self.assertEqual([name for name in have if name.startswith(("build/", "dist/"))], [])
            for name in ("CMakeLists.txt", "tuner/search/pretrained/cpu.ubj", "scripts/packages"):
                self.assertEqual((tree / name).read_bytes(), (ROOT / name).read_bytes())

    def test_the_runtimes_sdist_needs_no_setting(self):
        text = (self.trees["tilewright_runtime"] / "pyproject.toml").read_text()
        self.assertIn('name = "tilewright-runtime"', text)
        self.assertNotRegex(text, r"\n\[+tool\.tilewright")

    def test_an_unknown_package_is_refused(self):
        done = run(self.build_python, "-m", "build", "--sdist", "--no-isolation", ROOT, "--outdir",
                   self.folder / "none", "--config-setting=package=server", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("package=server: no such package; there are: tilewright, runtime, provider",
                      done.stdout + done.stderr)

    def test_an_unpacked_sdist_configures(self):
        tree = self.trees["tilewright"]
        run("cmake", "-S", tree, "-B", self.folder / "configured", "-G", "Ninja",
            "-DTILEWRIGHT_BUILD_TESTS=OFF", "-DTILEWRIGHT_BUILD_PEERS=OFF",
            "-DTILEWRIGHT_BUILD_PYTHON=OFF")
        revision = (self.folder / "configured/generated/revision.cc").read_text()
        self.assertIn(f'return "{VERSION}"', revision)

    def test_it_tunes_replays_and_serves(self):
        python = self.environment("both", self.wheels["tilewright"], self.wheels["tilewright_runtime"])
        database = self.folder / "kernels.db"
        told = json.loads(run(python, ROOT / "tests/python/installed.py", "--keep", database,
                              cwd=self.folder).stdout)
        self.assertEqual((told["trials"], told["outcome"], told["version"]), (2, "hit", VERSION))
        self.assertEqual(told["replayed"], "hit")
        self.assertIn(VERSION, told["tune-cli"])
        self.assertTrue(told["from"].startswith(str(self.folder / "both")), told)
        packages = next((self.folder / "both" / "lib").glob("python3.*/site-packages"))
        self.loads_from_inside(packages / "tilewright_tuner", "bin/tune-cli", "libxgboost.so.0",
                               "libgomp.so.1")

        alone = self.environment("runtime", self.wheels["tilewright_runtime"])
        told = json.loads(run(alone, ROOT / "tests/python/installed.py", "--serve", database,
                              cwd=self.folder).stdout)
        self.assertEqual(told["outcome"], "hit")
        self.assertRegex(told["tune"], "no tune-cli.*pip install tilewright")
        packages = next((self.folder / "runtime" / "lib").glob("python3.*/site-packages"))
        self.loads_from_inside(packages / "tilewright", "_core.*.so", "libtilewright.so.0",
                               "libsqlite3.so.0", "libsodium.so.23")

    def loads_from_inside(self, package: pathlib.Path, file: str, *libraries: str):
        loader, = package.glob(file)
        found = dict(re.findall(r"(lib\S+) => (\S+)", run("ldd", loader).stdout))
        for name in libraries:
            self.assertIn(name, found)
        for name, path in found.items():
            if not C_LIBRARY.match(name):
                self.assertTrue(os.path.realpath(path).startswith(f"{package}/lib/"), path)

    def test_without_a_finished_build_it_says_what_it_needs(self):
        done = run("cmake", "-S", ROOT / "python", "-B", self.folder / "nothing", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("-DTILEWRIGHT_BUILD=DIR", done.stderr)


if __name__ == "__main__":
    main()
