"""Shared by the tests of the Python package."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import tilewright

SKIPPED = 77  # what ctest takes for a skipped test
DYNAMIC = "matmul:m=1..64,n=8,k=16"  # packs B, and needs a workspace
OTHER = "matmul:m=100..128,n=8,k=16"  # packs B, too, and adds 5
PLAIN = "matmul:m=4,n=8,k=16"  # reads B as it is, and adds 7


def aligned(values) -> np.ndarray:
    """A copy that kernels take."""
    values = np.asarray(values)
    made = tilewright.empty(values.shape, values.dtype)
    made[...] = values
    return made


def numbers(*shape: int, seed: int = 0, dtype=np.float32) -> np.ndarray:
    """Small whole numbers, whose products and sums are exact."""
    return aligned(np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype))


class Kernels(unittest.TestCase):
    """With a database of kernels made by hand, opened as `library`, its log in `lines`."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.database = pathlib.Path(cls.folder.name, "kernels.db")
        subprocess.run([os.environ["PYTHON_KERNELS"], cls.database], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.lines = []
        self.library = tilewright.Library(self.database, log=self.lines.append)

    def kernel(self, spec: str = DYNAMIC) -> tilewright.Kernel:
        return self.library.prepare(spec)[spec]

    def refuses(self, kind: type, pattern: str, function, *arguments, **options) -> None:
        """The call raises exactly this exception, with a sentence that matches."""
        with self.assertRaisesRegex(kind, pattern) as caught:
            function(*arguments, **options)
        self.assertIs(type(caught.exception), kind)


def main() -> None:
    """unittest.main() that tells ctest when everything was skipped."""
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and len(result.skipped) >= result.testsRun else 0)
