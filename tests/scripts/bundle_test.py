"""scripts/bundle makes a tree whose tune-cli runs from another place with the libraries beside it.

usage: bundle_test.py BUILD
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "bundle"
BUILD = sys.argv.pop(1)
C_LIBRARY = re.compile(r"(lib(c|m|dl|rt|pthread|resolv)\.so|linux-vdso|.*/ld-linux)")
SPEC = "matmul:m=16,n=16,k=16"


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.temporary.name).resolve()
        # It must do without patchelf, which only the peers need.
        (folder / "bin").mkdir()
        (folder / "bin" / "patchelf").write_text("#!/bin/sh\nexit 1\n")
        (folder / "bin" / "patchelf").chmod(0o755)
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        cls.made = subprocess.run([SCRIPT, "--build", BUILD, "--gpu-check", folder / "first"],
                                  env=dict(os.environ, PATH=path), capture_output=True, text=True,
                                  check=False)
        cls.tree = folder / "elsewhere" / "moved"
        if cls.made.returncode == 0:
            cls.tree.parent.mkdir()
            (folder / "first").rename(cls.tree)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        self.assertEqual(self.made.returncode, 0, self.made.stderr)

    def tune_cli(self, *arguments: str, path: str = os.environ["PATH"]) -> str:
        cache = str(self.tree.parent / "cache")
        done = subprocess.run([self.tree / "bin" / "tune-cli", *arguments], cwd=self.tree.parent,
                              env={"PATH": path, "TILEWRIGHT_CACHE": cache}, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_every_library_resolves_inside(self):
        done = subprocess.run(["ldd", self.tree / "bin" / "tune-cli"], env={"PATH": "/usr/bin:/bin"},
                              capture_output=True, text=True, check=True)
        resolved = dict(re.findall(r"^\s*(\S+) => (\S+)", done.stdout, re.MULTILINE))
        self.assertIn("libxgboost.so.0", resolved)
        self.assertIn("libgomp.so.1", resolved, "what libxgboost loads counts, too")
        for name, path in resolved.items():
            if not C_LIBRARY.match(name):
                found = os.path.realpath(path)
                self.assertTrue(found.startswith(f"{self.tree}/lib/"), f"{name} => {found}")

    def test_runs_and_replays_without_a_compiler(self):
        operators = json.loads(self.tune_cli("ops", "--json"))["ops"]
        self.assertIn("matmul", [operator["op"] for operator in operators])
        self.tune_cli("tune", SPEC, "--trials", "2", "--threads", "1", "--db", "k.db", "--quiet")
        replayed = json.loads(self.tune_cli("replay", SPEC, "--threads", "1", "--db", "k.db",
                                            "--require", "--json", path="/nowhere"))
        self.assertTrue(replayed["results"][0]["checked"], replayed)

    def test_has_what_a_machine_with_a_gpu_needs(self):
        environment = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(self.tree / "lib")}
        tests = subprocess.run([self.tree / "bin" / "test_cli", "--gtest_filter=OnDevice.*",
                                "--gtest_list_tests"], env=environment, capture_output=True,
                               text=True, check=True)
        self.assertIn("WrongKernelsAreFoundOut", tests.stdout)
        script = self.tree / "scripts" / "gpu-check"
        # A driver that is none: whatever GPU this machine has, it is not there.
        checked = subprocess.run([sys.executable, script], cwd=self.tree.parent, check=False,
                                 env=dict(os.environ, TILEWRIGHT_CUDA_DRIVER="/no/driver"),
                                 capture_output=True, text=True)
        self.assertEqual(checked.returncode, 4, checked.stderr)
        self.assertIn("no GPU here", checked.stderr)
        told = subprocess.run([sys.executable, script, "--help"], check=True, capture_output=True,
                              text=True).stdout
        self.assertIn(f"({self.tree})", told.replace("\n", " ").replace(" " * 24, " "))
        workloads = self.tree / "bench" / "workloads"
        self.assertIn("gpu_lowbit.json", [file.name for file in workloads.iterdir()])

    def test_a_library_that_is_left_out_is_told(self):
        library = self.tree / "lib" / "libgomp.so.1"
        aside = library.with_suffix(".aside")
        library.rename(aside)
        try:
            done = subprocess.run([SCRIPT, "--check", self.tree], capture_output=True, text=True,
                                  check=False)
        finally:
            aside.rename(library)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, r"libgomp\.so\.1( \(/.*\)|, which is not found)")

    def test_can_be_made_anew_in_place(self):
        for _ in range(2):
            done = subprocess.run([SCRIPT, "--build", BUILD, self.tree.parent / "twice"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
