"""scripts/bench_chart.py draws the ratios of a page or of bench --json."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "bench_chart.py"
PAGE = """# A machine

Of 2026-01-02.

## 2 threads

| workload | time | GFLOP/s | of roofline | to default | ours 1.0 (x) | other 2.0 |
| --- | --- | --- | --- | --- | --- | --- |
| A `matmul:m=1,n=1,k=1` | 1 us | 1 | 1% | 9.0x | 2.00x |  |
| `matmul:m=2,n=1,k=1` | 1 us | 1 | 1% | 9.0x | 0.50x | 4.00x |
| `norm:m=2,n=1` | 1 us | 1 | 1% | 9.0x | 700.0x |  |

## Later

| workload | time | GFLOP/s | of roofline | to default | third |
| --- | --- | --- | --- | --- | --- |
| `matmul:m=1,n=1,k=1` | 1 us | 1 | 1% | 9.0x | 3.00x |
"""


class BenchChart(unittest.TestCase):
    def run_on(self, name: str, text: str, *arguments: str) -> tuple[int, str, str]:
        with tempfile.TemporaryDirectory() as folder:
            source, chart = pathlib.Path(folder, name), pathlib.Path(folder, "chart.svg")
            source.write_text(text, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, str(SCRIPT), "--from", str(source), "-o", str(chart), *arguments],
                capture_output=True, text=True, check=False)
            drawn = chart.read_text(encoding="utf-8") if chart.exists() else ""
            return done.returncode, drawn, done.stdout + done.stderr

    def test_a_page_gives_means_and_spans(self):
        code, drawn, output = self.run_on("page.md", PAGE)
        self.assertEqual(code, 0, output)
        self.assertIn("matmul beside ours 1.0: 1.00x (0.50x to 2.00x)", drawn)
        self.assertIn("matmul beside other 2.0: 4.00x (4.00x to 4.00x)", drawn)
        self.assertIn("A machine, 2 threads, 2026-01-02", drawn)
        for absent in ("norm", "third"):
            self.assertNotIn(absent, drawn)

    def test_bars_end_at_their_ratio(self):
        drawn = self.run_on("page.md", PAGE.replace("0.50x", "2.00x"))[1]
        ends = [float(x) + float(width) for x, width in
                re.findall(r'<rect x="([\d.]+)" y="\d+" width="([\d.]+)" height="11" fill="#\w+"><t',
                           drawn)]
        # The scale is logarithmic: 1x to 2x is as wide as 2x to 4x.
        one = float(re.search(r'class="one" d="M([\d.]+)', drawn).group(1))
        self.assertAlmostEqual(ends[1] - ends[0], ends[0] - one, delta=0.3)

    def test_json_gives_the_same(self):
        text = json.dumps({"results": [
            {"spec": "softmax:m=1,n=2", "ratio": {"onednn": 2.0, "default": 9.0}},
            {"spec": "softmax:m=2,n=2", "ratio": {"onednn": 8.0}},
            {"spec": "softmax:m=3,n=2", "disturbed": True, "ratio": None}]})
        code, drawn, output = self.run_on("bench.json", text)
        self.assertEqual(code, 0, output)
        self.assertIn("softmax beside onednn: 4.00x (2.00x to 8.00x)", drawn)
        self.assertNotIn("default", drawn)

    def test_what_has_no_ratio_is_refused(self):
        self.assertIn("no ratio", self.run_on("bench.json", '{"results": []}')[2])
        self.assertIn("no heading '## 1 thread'",
                      self.run_on("page.md", PAGE, "--heading", "1 thread")[2])
        self.assertIn("no table", self.run_on("page.md", "# A\n\n## 2 threads\n\nNone.\n")[2])

    def test_an_old_chart_is_a_fault(self):
        code, drawn, output = self.run_on("page.md", PAGE, "--check")
        self.assertEqual((code, drawn), (1, ""))
        self.assertIn("is not current", output)


if __name__ == "__main__":
    unittest.main()
