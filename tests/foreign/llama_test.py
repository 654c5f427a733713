"""The backend of ggml in ggml's own scheduler: each type of weight against exact sums, what the log says on a miss, on a
loser and without a database, and a model of llama.cpp.

usage: llama_test.py TUNE_CLI"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve().parent
LLAMA = pathlib.Path(subprocess.run([ROOT / "scripts" / "llama" / "install", "--prefix"], capture_output=True,
                                    text=True, check=True).stdout.strip())
TYPES = ("q4_0", "q4_1", "q4_K", "q8_0", "f16", "bf16", "f32")
N, K = 64, 512

if not (LLAMA / "include" / "llama.h").exists():
    print(f"skipped: no llama.cpp: scripts/llama/install puts it into {LLAMA}")
    sys.exit(77)


class Llama(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        subprocess.run([ROOT / "scripts" / "llama" / "build", "--build", BUILD], check=True, stdout=subprocess.DEVNULL)
        cls.products = cls.compiled("products", [])
        cls.database, cls.specs = cls.path / "kernels.db", cls.path / "specs.txt"
        for kind in TYPES:
            for rows in (1, 5):
                cls.misses = cls.run_product(kind, rows, options=f"specs={cls.specs}", mode="repacked")
        cls.tune([str(cls.specs)])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def compiled(cls, name: str, more: list) -> pathlib.Path:
        program = cls.path / name
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-Wall", "-Wextra", "-I", ROOT,
                        "-I", ROOT / "include", "-isystem", LLAMA / "include",
                        ROOT / "tests" / "foreign" / "llama" / f"{name}.cc", *more, "-L", LLAMA / "lib", "-lggml",
                        "-lggml-base", f"-Wl,-rpath,{LLAMA / 'lib'}", "-o", program], check=True)
        return program

    @classmethod
    def tune(cls, specs: list) -> None:
        subprocess.run([sys.argv[1], "tune", *specs, "--db", cls.database, "--threads", "1", "--trials", "2",
                        "--quiet"], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def run_product(cls, kind: str, rows: int, options: str = "", mode: str = "", calls: int = 1, threads: int = 1,
                    database: pathlib.Path | None = None, backend: bool = True) -> tuple[dict, list[str]]:
        """The output of the product's program, and our lines of the log."""
        settings = dict(os.environ, TILEWRIGHT_DB=str(database or cls.database),
                        TILEWRIGHT_GGML=",".join(filter(None, ("rows=16", f"threads={threads}", options))))
        if backend:
            settings["GGML_BACKEND_PATH"] = str(BUILD / "libggml-tilewright.so")
        done = subprocess.run([cls.products, kind, str(N), str(K), str(rows), str(threads), str(calls), mode],
                              capture_output=True, text=True, env=settings, check=True)
        return json.loads(done.stdout), [line for line in done.stderr.splitlines() if line.startswith("Tilewright")]

    def test_right_values(self):
        for kind in TYPES:
            for rows in (1, 5, 16, 40):
                with self.subTest(kind=kind, rows=rows):
                    result, lines = self.run_product(kind, rows, "trial=0", calls=2)
                    self.assertEqual(result["backend"], "Tilewright", lines)
                    self.assertLess(result["exact"], 2e-6)

    def test_weights_that_ggml_would_repack(self):
        for kind in ("q4_0", "q4_K"):
            result, lines = self.run_product(kind, 5, "trial=0", mode="repacked")
            self.assertEqual((result["backend"], lines), ("Tilewright", []))
            if self.run_product(kind, 5, mode="repacked", backend=False)[0]["backend"] == "CPU" and result["own_buffer"]:
                self.assertLess(result["exact"], 2e-6)

    def test_two_threads(self):
        result, _ = self.run_product("q4_1", 40, "trial=0", threads=2, calls=3)
        self.assertEqual(result["backend"], "Tilewright")
        self.assertLess(result["exact"], 2e-6)

    def test_changed_weights_are_packed_again(self):
        result, _ = self.run_product("q8_0", 1, "trial=0", mode="rewritten", calls=3)
        self.assertLess(result["exact"], 2e-6)

    def test_a_miss_names_the_next_command(self):
        path = self.path / "missed.txt"
        for _ in range(2):  # a spec is listed once
            done, lines = self.run_miss(path)
            self.assertEqual(done["backend"], "CPU")
            self.assertIn(f"tune-cli tune {path} --db {self.database} --threads 1", lines[0])
        self.assertEqual(path.read_text(), "matmul:m=2..32,n=64,k=512,w.dtype=u4,w.group=32,w.scale=f16,w.offset=f16\n")

    def run_miss(self, path):
        return self.run_product("q4_1", 5, f"rows=32,specs={path}")

    def test_a_kernel_that_differs_is_dropped(self):
        # ggml rounds activations to 8 bits, so nothing is equal.
        result, lines = self.run_product("q4_1", 1, "tolerance=0", calls=3)
        self.assertEqual(result["backend"], "CPU")
        self.assertGreater(result["exact"], 1e-4)
        self.assertIn("differ from ggml's", lines[0])

    def test_a_trial_ends_with_a_verdict(self):
        result, lines = self.run_product("q4_1", 16, calls=40)
        verdict = [line for line in lines if "of the CPU backend's time" in line]
        self.assertEqual(len(verdict), 1, lines)
        is_lost = "it is not used" in verdict[0]
        self.assertEqual(result["backend"], "CPU" if is_lost else "Tilewright")
        result, lines = self.run_product("q4_1", 16)  # the next process knows it
        self.assertEqual((result["backend"], lines), ("CPU" if is_lost else "Tilewright", []))
        self.assertEqual(result["exact"] < 2e-6, not is_lost)

    def test_a_slower_kernel_is_dropped(self):
        objects = sorted((BUILD / "ggml_backend").glob("*.o"))
        trials = self.compiled("trials", [o for o in objects if o.name != "backend.o"] +
                               ["-L", str(BUILD), "-ltilewright", f"-Wl,-rpath,{BUILD}", "-fopenmp"])
        done = subprocess.run([trials], capture_output=True, text=True, check=False)
        self.assertEqual((done.stdout, done.returncode), ("", 0))

    def test_wrong_settings(self):
        for options, said in (("speed=1", "there is no 'speed'; there are specs, threads"),
                              ("rows=20", "rows is '20'; expected a multiple of 16"),
                              ("trial", "'trial' is no NAME=VALUE")):
            result, lines = self.run_product("q4_1", 1, options)
            self.assertEqual(result["backend"], "CPU")
            self.assertIn(said, lines[0])

    def test_the_example_tunes_what_a_program_misses(self):
        settings = dict(os.environ, TILEWRIGHT_DB=str(self.path / "example.db"), TUNE_CLI=sys.argv[1],
                        GGML_BACKEND_PATH=str(BUILD / "libggml-tilewright.so"))
        program = [self.products, "q8_0", str(N), str(K), "1", "1", "1", ""]
        done = subprocess.run([ROOT / "examples" / "llama" / "tuned.sh", "1", "2s", *program], capture_output=True,
                              text=True, env=settings, check=True)
        json.loads(done.stdout.splitlines()[-1])
        self.assertIn("w.dtype=i8", done.stdout)
        self.assertEqual(done.stderr.count("stays with ggml's CPU backend"), 1, done.stderr)

    def test_no_database(self):
        result, lines = self.run_product("q4_1", 1, database=self.path / "nowhere.db")
        self.assertEqual(result["backend"], "CPU")
        self.assertIn("everything stays with ggml's CPU backend: there is no database", lines[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
