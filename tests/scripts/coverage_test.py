"""scripts/coverage on a project of three files: shares by folder, also when a test fails."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "coverage"

SOURCES = {
    "ir/half.h": "inline int half(int x) {\n"
                 "  if (x > 0) return 1;\n"
                 "  return 2;\n"
                 "}\n",
    "ir/a.cc": '#include "ir/half.h"\n'
               "int a(int x) { return half(x); }\n",
    "cli/b.cc": "int a(int);\n"
                "int b() {\n"
                "  return a(1);\n"
                "}\n"
                "int c() { return 3; }\n",
    "tests/main.cc": "int b();\n"
                     "int main() { return b() - 1; }\n",
}

# As scripts/test: builds, and without --build-only runs and fails.
FAKE_TEST = """#!/usr/bin/env bash
echo "$*" >> calls
[[ $* == *--build-only* ]] || exit 8
"""


class Coverage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(SCRIPT, self.root / "scripts" / "coverage")
        test = self.root / "scripts" / "test"
        test.write_text(FAKE_TEST)
        test.chmod(0o755)

    def build_and_run(self) -> None:
        build = self.root / "build" / "coverage"
        build.mkdir(parents=True)
        for name, text in SOURCES.items():
            path = self.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        objects = []
        for name in SOURCES:
            if name.endswith(".cc"):
                objects.append(name.replace("/", "_") + ".o")
                # As the compiler's cache calls the compiler.
                self.must("c++", "--coverage", "-I../..", "-c", f"../../{name}", "-o", objects[-1])
        self.must("c++", "--coverage", *objects, "-o", "main")
        self.must("./main")

    def must(self, *command: str) -> None:
        subprocess.run(command, cwd=self.root / "build" / "coverage", check=True)

    def coverage(self, *arguments: str) -> tuple[int, str, str]:
        done = subprocess.run([self.root / "scripts" / "coverage", *arguments],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_prints_a_line_a_folder(self):
        self.build_and_run()
        code, output, errors = self.coverage("--no-run")
        self.assertEqual(code, 0, errors)
        # In cli, b() of two lines ran and c() did not; in ir, `return 2` alone did not.
        self.assertEqual(output, "cli           66.7% of 3 lines\n"
                                 "ir            75.0% of 4 lines\n")
        self.assertFalse((self.root / "calls").exists())

    def test_prints_it_also_when_a_test_fails(self):
        self.build_and_run()
        code, output, _ = self.coverage()
        self.assertEqual(code, 8)
        self.assertIn("ir            75.0% of 4 lines\n", output)
        self.assertEqual((self.root / "calls").read_text(),
                         "--preset coverage --build-only\n--preset coverage --no-deps\n")

    def test_nothing_to_read_is_told(self):
        code, _, errors = self.coverage("--no-run")
        self.assertEqual(code, 4)
        self.assertIn("nothing was built yet", errors)
        (self.root / "build" / "coverage").mkdir(parents=True)
        code, _, errors = self.coverage("--no-run")
        self.assertEqual(code, 4)
        self.assertIn("no test left counts in", errors)


if __name__ == "__main__":
    unittest.main()
