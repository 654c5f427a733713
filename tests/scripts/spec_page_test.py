"""scripts/spec_page.py writes the page of operators from what tune-cli says of them."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "spec_page.py"
sys.path.insert(0, str(SCRIPT.parent))
import spec_page

# Knows one operator, and refuses values as tune-cli does.
FAKE = r'''#!/usr/bin/env python3
import json, re, sys
if sys.argv[1] == "ops":
    print(json.dumps({"ops": [{"op": "scale", "summary": "X times a | factor", "operands": "X[m]",
        "example": "scale:m=4,kernel=[1,2]", "keys": [
            {"name": "m", "required": True, "doc": "rows"},
            {"name": "kernel", "required": False, "default": "1", "doc": "window"},
            {"name": "rows", "required": False, "doc": "count"},
            {"name": "fn", "required": False, "default": "relu", "doc": "function"},
            {"name": "label", "required": False, "doc": "any"}]}]}))
    sys.exit(0)
key, value = re.search(r"(\w+)=([^=]*)$", sys.argv[2]).groups()
kinds = {"m": (r"\d+(\.\.\d+)?", "a whole number from 1 to 9"),
         "kernel": (r"\d+(x\d+)?", "a whole number from 1 to 9"),
         "rows": (r"\d+", "a whole number from 1 to 9"),
         "fn": (r"relu|tanh", "one of relu, tanh"), "label": (r".*", "")}
pattern, expected = kinds[key]
if not re.fullmatch(pattern, value):
    print(f"tune-cli: spec: {key}: expected {expected}, got '{value}'\n  more", file=sys.stderr)
    sys.exit(2)
'''


class SpecPage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name, "tune-cli")
        self.program.write_text(FAKE, encoding="utf-8")
        self.program.chmod(0o755)
        self.page = pathlib.Path(folder.name, "spec.md")

    def run_script(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(SCRIPT), "--tune-cli", str(self.program), "--page", str(self.page),
             *arguments], capture_output=True, text=True, check=False)

    def test_values_are_those_that_a_refusal_names(self):
        self.assertEqual(self.run_script().returncode, 0)
        text = self.page.read_text(encoding="utf-8")
        for row in ("| [scale](#scale) | X times a \\| factor |",
                    "| `m` | a size or a range of sizes | **required** | rows |",
                    "| `kernel` | a whole number, 1 to 9, or one per axis such as `3x5` | `1` |",
                    "| `rows` | a whole number, 1 to 9 | (derived) | count |",
                    "| `fn` | `relu` `tanh` | `relu` | function |",
                    "| `label` | text | (derived) | any |"):
            self.assertIn(row, text)

    def test_a_page_that_is_not_current_is_found(self):
        self.assertEqual(self.run_script("--check").returncode, 1)
        self.run_script()
        self.assertEqual(self.run_script("--check").returncode, 0)
        old = self.page.read_text(encoding="utf-8")
        self.page.write_text(old.replace("| rows |", "| lines |"), encoding="utf-8")
        done = self.run_script("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("**required** | lines |\nand should be", done.stdout)

    def test_examples_are_taken_apart(self):
        example = 'expr:expr="C[i,j] = A[i,j]",dims.i=4,weights=[B,D]'
        self.assertEqual(spec_page.with_value(example, "dims.i", "@"),
                         'expr:expr="C[i,j] = A[i,j]",weights=[B,D],dims.i=@')
        self.assertEqual(spec_page.with_value("softmax:m=1,n=2", "dtype", "@"),
                         "softmax:m=1,n=2,dtype=@")


if __name__ == "__main__":
    unittest.main()
