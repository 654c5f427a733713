"""scripts/check_examples.py finds specs, commands and options that tune-cli does not have."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_examples.py"
sys.path.insert(0, str(SCRIPT.parent))
import check_examples

# Knows two commands, and an operator with one key.
FAKE = r'''#!/usr/bin/env python3
import sys
words = sys.argv[1:]
if words == ["ops", "--json"]:
    print('{"ops": [{"op": "scale"}, {"op": "expr"}]}')
elif words[-1] == "--help":
    if words[:-1] not in (["tune"], ["db", "info"]):
        sys.exit(2)
    print("  --trials INT   how many\n  --one-order   one")
elif words[0] == "show" and not words[1].startswith(("scale:m=", "expr:expr=")):
    print("tune-cli: spec: scale: no such key\n  more", file=sys.stderr)
    sys.exit(2)
'''


class CheckExamples(unittest.TestCase):
    def run_on(self, text: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "tune-cli")
            program.write_text(FAKE, encoding="utf-8")
            program.chmod(0o755)
            pathlib.Path(folder, "a.md").write_text(text, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, str(SCRIPT), "--root", folder, "--tune-cli", str(program)],
                capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def refuses(self, text: str, message: str) -> None:
        code, output = self.run_on(text)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)

    def test_good_examples_pass(self):
        code, output = self.run_on(
            "tune-cli tune 'scale:m=4' --trials 8 --one-order\n"
            "`tune-cli db info` and `scale:m=1..4`; `scale:n=…` is elided\n")
        self.assertEqual(code, 0, output)
        self.assertIn("1 documents: no fault", output)

    def test_each_fault_is_found(self):
        self.refuses("x\ntune-cli tun scale:m=4\n", "a.md:2: tune-cli has no command 'tun'")
        self.refuses("tune-cli tune scale:m=4 --trial 3\n",
                     "a.md:1: tune-cli tune has no option '--trial'")
        self.refuses("see `scale:k=4`\n", "a.md:1: tune-cli: spec: scale: no such key: 'scale:k=4'")

    def test_specs_are_cut_out_whole(self):
        for line, found in (
                ("'expr:expr=\"C[i] = max(A[i], 0)\",dims.i=4'",
                 ['expr:expr="C[i] = max(A[i], 0)",dims.i=4']),
                ('f("scale:m=1..64,w=2") # x', ["scale:m=1..64,w=2"]),
                ("a `scale:m=1`, then scale:m=2. The scale: large", ["scale:m=1", "scale:m=2"])):
            self.assertEqual(check_examples.specs_in(line, ["scale", "expr"]), found)


if __name__ == "__main__":
    unittest.main()
