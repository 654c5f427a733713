"""The example runs, and its numbers are NumPy's."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import main

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "low_bit_layer.py"


class Example(unittest.TestCase):
    def test_low_bit_layer(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, EXAMPLE, f"{folder}/kernels.db", "2"],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"i4,w\.group=32 m=1\.\.\d+: hit, [0-9.]+ us\n")
        self.assertRegex(done.stdout, r"1, 5 and 16 rows, largest error \d\.\de-0[4-9]\n$")


if __name__ == "__main__":
    main()
