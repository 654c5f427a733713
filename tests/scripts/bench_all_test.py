"""scripts/bench_all: its tables, what it finds short, and which commands it runs."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "bench_all"

# Prints its arguments into a file beside it, answers as tune-cli would, and ends tuning with the
# exit code in the file `code`.
FAKE_TUNE_CLI = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
with open(here / "calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
if sys.argv[1] == "tune":
    sys.exit(int((here / "code").read_text()))
threads = int(sys.argv[sys.argv.index("--threads") + 1])
print(json.dumps({{"results": [{{"spec": "softmax:m=2,n=2", "name": "", "threads": threads,
    "seconds": 1e-6, "gflops": 1.0, "roofline_fraction": 0.5, "default_seconds": 4e-6,
    "peers": {{}}, "ratio": {{}}, "absent": {{}}}}], "peers": {{"onednn": "3.1"}}}}))
"""


def result(spec: str, seconds: float = 1e-3, default: float = 1, roofline: float = 0.9,
           threads: int = 1, name: str = "", **ratio: float) -> dict:
    return {"spec": spec, "name": name, "threads": threads, "seconds": seconds, "gflops": 12.34,
            "roofline_fraction": roofline, "default_seconds": default * seconds or None,
            "peers": {peer: {"seconds": r * seconds} for peer, r in ratio.items()},
            "ratio": ratio, "absent": {}}


def document(*results: dict) -> dict:
    return {"results": list(results), "peers": {"onednn": "3.1"}}


class BenchAll(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def call(self, *arguments: str) -> tuple[int, str, str]:
        done = subprocess.run([sys.executable, str(SCRIPT), *arguments], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def tables(self, *results: dict, options: tuple[str, ...] = ()) -> list[str]:
        (self.folder / "in.json").write_text(json.dumps(document(*results)))
        code, output, errors = self.call("--from", "in.json", *options)
        self.assertEqual(code, 0, errors)
        return output.splitlines()

    def falls_short(self, *results: dict, options: tuple[str, ...] = ()) -> list[str]:
        lines = self.tables(*results, options=options)
        return [line for line in lines[lines.index("## Falls short") + 2:] if line]

    def test_a_row_says_how_fast_against_what(self):
        lines = self.tables(result("matmul:m=1,n=2,k=3", 2.5e-4, 30, 0.876, name="GMM", onednn=1.5,
                                   openblas=0.5))
        self.assertIn("| workload | time | GFLOP/s | of roofline | to default | onednn 3.1 "
                      "| openblas |", lines)
        self.assertIn("| GMM `matmul:m=1,n=2,k=3` | 250 us | 12.3 | 88% | 30.0x | 1.50x | 0.50x |",
                      lines)

    def test_each_number_of_threads_has_its_tables(self):
        lines = self.tables(result("softmax:m=1,n=1", threads=2), result("softmax:m=1,n=1"))
        self.assertLess(lines.index("## 1 thread"), lines.index("## 2 threads"))

    def test_families_have_a_geometric_mean_and_a_minimum(self):
        lines = self.tables(result("conv2d:n=1", onednn=4.0), result("conv1d:n=1", onednn=1.0),
                            result("depthwise_conv2d:n=1", onednn=3.0), result("softmax:m=1"))
        self.assertIn("| conv | 2 | 2.00x, 1.00x |", lines)
        self.assertIn("| depthwise | 1 | 3.00x, 3.00x |", lines)
        self.assertIn("| softmax | 1 |  |", lines)

    def test_weights_in_a_form_of_their_own_are_families(self):
        lines = self.tables(result("matmul:m=1,n=2,k=3,w.dtype=u4,w.group=2", onednn=9.0),
                            result("conv2d:n=1,w=4,w.dtype=i4,w.sparse=2:4", onednn=8.0),
                            result("conv2d:n=1,w=4", onednn=2.0))
        self.assertIn("| low-bit weights | 1 | 9.00x, 9.00x |", lines)
        self.assertIn("| sparse weights | 1 | 8.00x, 8.00x |", lines)
        self.assertIn("| conv | 1 | 2.00x, 2.00x |", lines)

    def test_peers_that_ran_reference_code_or_computed_something_else_do_not_count(self):
        slow, wrong, good = (result(f"matmul:m={m}", onednn=ratio)
                             for m, ratio in ((1, 900.0), (2, 0.5), (3, 1.5)))
        slow["peers"]["onednn"].update(counts=False, reference=True, note="ref:any")
        wrong["peers"]["onednn"].update(counts=False, note="jit")
        good["peers"]["onednn"].update(counts=True, note="jit")
        lines = self.tables(slow, wrong, good)
        self.assertTrue(any(line.endswith("| 900.00x (reference) |") for line in lines))
        self.assertTrue(any(line.endswith("| 0.50x (differs) |") for line in lines))
        self.assertIn("| matmul | 3 | 1.50x, 1.50x |", lines)
        self.assertIn("- onednn ran jit (2), ref:any (1)", lines)
        self.assertEqual(lines[-1], "Nothing.")

    def test_nothing_falls_short_of_what_is_met(self):
        self.assertEqual(self.falls_short(result("matmul:m=1", onednn=1.2, openblas=0.1),
                                          result("matmul:m=2", onednn=0.85),
                                          result("softmax:m=1", onednn=0.1)), ["Nothing."])

    def test_the_mean_of_a_family_falls_short(self):
        self.assertEqual(self.falls_short(result("matmul:m=1", onednn=0.9)),
                         ["- matmul, 1 thread: geometric mean 0.900 of onednn, wanted 1"])

    def test_one_of_a_family_falls_short(self):
        self.assertEqual(self.falls_short(result("conv2d:n=1", onednn=2.0),
                                          result("conv3d:n=1", onednn=0.79, name="C3D")),
                         ["- C3D, 1 thread: 0.790 of onednn, wanted 0.8"])

    def test_a_family_without_the_peer_falls_short(self):
        self.assertEqual(self.falls_short(result("matmul:m=1", openblas=2.0)),
                         ["- matmul, 1 thread: no ratio to onednn"])

    def test_a_threshold_takes_the_place_of_the_default_one(self):
        self.assertEqual(
            self.falls_short(result("matmul:m=1", onednn=0.9, openblas=1.5), options=(
                "--threshold", "matmul:onednn=0.9,0.5", "--threshold", "matmul:openblas=1.9,1")),
            ["- matmul, 1 thread: geometric mean 1.500 of openblas, wanted 1.9"])

    def test_an_operator_needs_its_speedup_or_its_roofline(self):
        self.assertEqual(
            self.falls_short(result("softmax:m=1", default=2, roofline=0.7),
                             result("softmax:m=2", default=3, roofline=0.1),
                             result("softmax:m=3", default=2, roofline=0.69),
                             result("softmax:m=4", default=0, roofline=0.5)),
            ["- softmax:m=3, 1 thread: 2.0x its default and 69% of its roofline, wanted 3x or 70%",
             "- softmax:m=4, 1 thread: its default not measured and 50% of its roofline, "
             "wanted 3x or 70%"])

    def test_a_miss_falls_short_and_strict_tells_by_the_exit_code(self):
        (self.folder / "in.json").write_text(json.dumps(document(
            {"spec": "norm:b=1", "name": "", "threads": 1, "miss": "never tuned"})))
        code, output, _ = self.call("--from", "in.json", "--strict")
        self.assertEqual(code, 1)
        self.assertIn("| `norm:b=1` | miss: never tuned |", output)
        self.assertIn("- norm:b=1, 1 thread: not measured: never tuned\n", output)

    def test_later_results_take_the_place_of_earlier_ones(self):
        for name, ratio in (("a.json", 0.5), ("b.json", 1.5)):
            (self.folder / name).write_text(json.dumps(document(
                result("matmul:m=1", onednn=ratio))))
        _, output, _ = self.call("--from", "a.json", "b.json")
        self.assertIn("| matmul | 1 | 1.50x, 1.50x |", output)

    def test_tunes_then_times_each_number_of_threads(self):
        calls, _ = self.run_with_fake(6, "--time", "9m", "--seed", "5", "spec")
        self.assertEqual(calls, [
            f"tune spec --db bench_all.db --threads {n} --resume --trials 1000 --time 9m --seed 5 "
            "--json" for n in (1, 2)] + [
            f"bench spec --db bench_all.db --threads {n} --rounds 7 --json" for n in (1, 2)])
        written = json.loads((self.folder / "bench_all.json").read_text())
        self.assertEqual([r["threads"] for r in written["results"]], [1, 2])
        self.assertEqual(written["peers"], {"onednn": "3.1"})

    def test_takes_a_database_as_it_is(self):
        calls, output = self.run_with_fake(1, "--no-tune", "--threads", "4", "--db", "k.db", "spec")
        self.assertEqual(calls, ["bench spec --db k.db --threads 4 --rounds 7 --json"])
        self.assertIn("## 4 threads", output)

    def run_with_fake(self, tune_code: int, *arguments: str) -> tuple[list[str], str]:
        code, output, errors = self.call("--tune-cli", self.fake(tune_code), *arguments)
        self.assertEqual(code, 0, errors)
        return (self.folder / "calls").read_text().splitlines(), output

    def fake(self, tune_code: int) -> str:
        path = self.folder / "fake"
        path.write_text(FAKE_TUNE_CLI.format(python=sys.executable))
        path.chmod(0o755)
        (self.folder / "code").write_text(str(tune_code))
        return str(path)

    def test_a_failed_tuning_ends_it_with_its_code(self):
        code, _, errors = self.call("--tune-cli", self.fake(5), "spec")
        self.assertEqual(code, 5)
        self.assertIn("tune ended with 5", errors)
        self.assertFalse((self.folder / "bench_all.json").exists())
        code, _, errors = self.call("--tune-cli", self.fake(130), "spec")
        self.assertEqual(code, 130)
        self.assertIn("interrupted; finished trials are in the database", errors)

    def test_bad_input_is_refused(self):
        (self.folder / "list.json").write_text("[1]")
        for arguments, message in [
                (("--from", "list.json"), "list.json is not what `tune-cli bench --json` prints"),
                (("--from", "none.json"), "cannot read none.json: No such file"),
                (("--threshold", "matmul=1"), "expected FAMILY:PEER=GEOMEAN,MIN"),
                (("--tune-cli", "none"), "no program none; build first")]:
            code, _, errors = self.call(*arguments)
            self.assertEqual(code, 2, errors)
            self.assertIn(message, errors)


if __name__ == "__main__":
    unittest.main()
