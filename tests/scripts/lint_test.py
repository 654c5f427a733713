"""scripts/lint finds the sources also where git does not tell them."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Lint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("scripts/lint", (ROOT / "scripts" / "lint").read_text())
        shutil.copy(ROOT / ".clang-format", self.root)
        # As where the folder belongs to another user.
        self.write("bin/git", "#!/bin/sh\necho 'fatal: detected dubious ownership' >&2\nexit 128\n")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def lint(self, *arguments: str) -> tuple[int, str]:
        env = dict(os.environ, PATH=f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}")
        done = subprocess.run([self.root / "scripts" / "lint", "format", *arguments], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        return done.returncode, done.stdout

    def test_without_git_every_source_is_looked_at(self):
        self.write("ir/good.h", "int a;\n")
        self.write("build/x/bad.cc", "int   b ;\n")
        self.write(".cache/bad.cc", "int   b ;\n")
        self.assertEqual(self.lint(), (0, "format: 1 files\n"))
        self.write("ir/bad.cc", "int   b ;\n")
        code, output = self.lint()
        self.assertEqual(code, 1)
        self.assertIn("ir/bad.cc\nformat: the files above differ", output)

    def test_a_file_that_is_not_there_is_a_fault(self):
        code, output = self.lint("ir/none.cc")
        self.assertEqual((code, output), (1, "scripts/lint: clang-format failed\n"))

    def test_no_source_at_all_is_a_fault(self):
        code, output = self.lint()
        self.assertEqual(code, 4)
        self.assertIn("holds no C++ files", output)


if __name__ == "__main__":
    unittest.main()
