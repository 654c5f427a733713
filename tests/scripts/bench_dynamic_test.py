"""scripts/bench_dynamic.py: at which sizes it measures, and what it makes of the times."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "bench_dynamic.py"
SPEC = importlib.util.spec_from_file_location("bench_dynamic", SCRIPT)
bench_dynamic = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench_dynamic)

# Answers as tune-cli would; the database of one kernel takes twice the time.
FAKE_TUNE_CLI = """#!{python}
import json, sys
words = sys.argv[1:]
db = words[words.index("--db") + 1]
if words[0] == "tune":
    open(db, "a").close()
    last = 1 if "m=1..1" in words[1] else 64
    row = {{"dispatch": {{"dim": "m", "ranges": [{{"first": 1, "last": last, "record": "0123456789"}}],
           "points": [{{"size": 1}}, {{"size": 8}}, {{"size": 64}}]}}}}
    if "n=1.." in words[1]:
        row["dispatch"]["dims"] = [row["dispatch"].pop("dim"), "n"]
else:
    size = int(words[words.index("--dim") + 1].split("=")[1])
    seconds = size * (2e-6 if "single" in db else 1e-6)
    row = {{"seconds": seconds, "default_seconds": 8e-6 * size if size > 2 else 1e-6}}
print(json.dumps({{"results": [row]}}))
"""


class BenchDynamic(unittest.TestCase):
    def test_sizes_are_fresh_and_within_the_range(self):
        sizes = bench_dynamic.fresh_sizes(1, 64, {1, 2, 4, 8, 16, 32, 64}, 6)
        self.assertEqual(sizes, sorted(set(sizes)))
        self.assertFalse({1, 2, 4, 8, 16, 32, 64} & set(sizes))
        self.assertTrue(all(1 <= size <= 64 for size in sizes))
        self.assertEqual(bench_dynamic.fresh_sizes(1, 2, {1, 2}, 4), [])

    def test_ratios_are_geometric_means(self):
        points = [{"seconds": 1, "single_seconds": 2, "default_seconds": 4},
                  {"seconds": 1, "single_seconds": 8, "default_seconds": None},
                  {"seconds": 1, "single_seconds": 4, "default_seconds": 0.25}]
        found = bench_dynamic.summary(points)
        self.assertAlmostEqual(found["against_single"], 4)
        self.assertAlmostEqual(found["against_default"], 1)
        self.assertEqual(found["slower_than_default"], 1)

    def run_script(self, spec: str) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as folder:
            fake = pathlib.Path(folder) / "tune-cli"
            fake.write_text(FAKE_TUNE_CLI.format(python=sys.executable))
            fake.chmod(0o755)
            return subprocess.run([sys.executable, str(SCRIPT), spec, "--tune-cli", str(fake),
                                   "--sizes", "3"], capture_output=True, text=True, check=False)

    def test_where_no_size_is_left_there_is_no_ratio(self):
        ran = self.run_script("softmax:m=1..1,n=8")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        result = json.loads(ran.stdout)["results"][0]
        self.assertEqual(result["points"], [])
        self.assertIsNone(result["against_single"])
        self.assertIn("tuning has measured every size", ran.stderr)

    def test_two_ranges_are_refused_by_their_names(self):
        ran = self.run_script("matmul:m=1..64,n=1..8,k=8")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("expected one range, got those of m and n", ran.stderr)

    def test_the_whole_run(self):
        ran = self.run_script("softmax:m=1..64,n=8")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        result = json.loads(ran.stdout)["results"][0]
        self.assertEqual([p["size"] for p in result["points"]], [2, 9, 32])
        self.assertAlmostEqual(result["against_single"], 2)
        self.assertEqual(result["slower_than_default"], 1)
        self.assertIn("2.00 times as fast as the best single kernel", ran.stderr)


if __name__ == "__main__":
    unittest.main()
