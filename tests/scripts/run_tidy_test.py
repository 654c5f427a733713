"""scripts/run_tidy.py reads a source again only when something that it includes has changed."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "run_tidy.py"

# Notes which file it was asked for; a file that says `fault` has a finding.
FAKE_CLANG_TIDY = """#!{python}
import pathlib, sys
if sys.argv[1] == "--version":
    sys.exit(print("fake 1"))
with open("{folder}/asked", "a") as asked:
    print(sys.argv[-1], file=asked)
if "fault" in pathlib.Path(sys.argv[-1]).read_text():
    sys.exit(print(str(pathlib.Path(sys.argv[-1]).resolve()) + ":1:1: error: a finding") or 1)
"""

SOURCES = {
    "ir/a.cc": '#include "ir/a.h"\n',
    "ir/b.cc": '#include "tilewright/version.h"\n',
    "ir/c.cc": "\n",
    "ir/a.h": '#include "ir/deep.h"\n',
    "ir/deep.h": "\n",
    "build/generated/tilewright/version.h": "\n",
    ".clang-tidy": "\n",
    "build/compile_commands.json": json.dumps(
        [{"directory": "..", "file": f"ir/{name}.cc"} for name in "abc"]),
}


class RunTidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.root = self.folder / "tree"
        for name, text in SOURCES.items():
            text = text.replace('".."', json.dumps(str(self.root)))
            self.write(name, text)
        program = self.folder / "bin" / "clang-tidy"
        program.parent.mkdir()
        program.write_text(FAKE_CLANG_TIDY.format(python=sys.executable, folder=self.folder))
        program.chmod(0o755)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
                       cwd=self.root, check=True, capture_output=True)

    def tidy(self, *arguments: str) -> tuple[int, list[str], str]:
        """The exit code, the files that clang-tidy read, and the last line."""
        asked = self.folder / "asked"
        asked.unlink(missing_ok=True)
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        # A tree of its own, also where the temporary folder lies inside a repository.
        env = dict(os.environ, PATH=path, XDG_CACHE_HOME=str(self.folder / "cache"),
                   GIT_CEILING_DIRECTORIES=str(self.folder))
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "--root", str(self.root), "--build",
             str(self.root / "build"), "--jobs", "1", *arguments, "ir/a.cc", "ir/b.cc", "ir/c.cc"],
            env=env, capture_output=True, text=True, check=False)
        read = asked.read_text().split() if asked.exists() else []
        return done.returncode, read, done.stdout.strip() + done.stderr

    def test_a_clean_file_is_known_from_then_on(self):
        code, read, line = self.tidy()
        self.assertEqual((code, read), (0, ["ir/a.cc", "ir/b.cc", "ir/c.cc"]))
        self.assertEqual(line, "tidy: 3 of 3 files clean (0 known from before), 0 with findings")
        code, read, line = self.tidy()
        self.assertEqual((code, read), (0, []))
        self.assertEqual(line, "tidy: 3 of 3 files clean (3 known from before), 0 with findings")

    def test_a_header_voids_those_that_include_it(self):
        self.tidy()
        self.write("ir/deep.h", "// other\n")
        self.assertEqual(self.tidy()[1], ["ir/a.cc"])
        self.write("build/generated/tilewright/version.h", "// other\n")
        self.assertEqual(self.tidy()[1], ["ir/b.cc"])
        self.write("ir/c.cc", "// other\n")
        self.assertEqual(self.tidy()[1], ["ir/c.cc"])

    def test_other_checks_void_all(self):
        self.tidy()
        self.write(".clang-tidy", "Checks: x\n")
        self.assertEqual(len(self.tidy()[1]), 3)

    def test_a_finding_fails_and_is_not_remembered(self):
        self.write("ir/b.cc", "fault\n")
        for _ in range(2):
            code, read, line = self.tidy()
            self.assertEqual(code, 1)
            self.assertIn("ir/b.cc", read)
            self.assertIn("1 with findings", line)
            self.assertIn("ir/b.cc:1:1: error: a finding", line)

    def test_a_unity_build_has_no_commands_for_sources(self):
        group = str(self.root / "build/CMakeFiles/tw_ir.dir/Unity/unity_0_cxx.cxx")
        self.write("build/compile_commands.json",
                   json.dumps([{"directory": str(self.root), "file": group}]))
        code, read, line = self.tidy()
        self.assertEqual((code, read), (4, []))
        self.assertIn("compiles sources in groups", line)

    def test_a_budget_that_ended_tells_the_share_that_is_left(self):
        code, read, line = self.tidy("--budget", "1e-9")
        self.assertEqual((code, read), (0, []))
        self.assertIn("3 (100%) left when the budget ended", line)

    def test_what_differs_from_the_default_branch_comes_first(self):
        self.git("init", "-q", "-b", "main")
        self.git("add", "ir", ".clang-tidy")
        self.git("commit", "-qm", "all")
        self.git("checkout", "-qb", "topic")
        self.write("ir/c.cc", "// changed\n")
        self.git("commit", "-qam", "one")
        self.write("ir/deep.h", "// changed, not committed\n")
        self.assertEqual(self.tidy()[1], ["ir/c.cc", "ir/a.cc", "ir/b.cc"])

    def test_on_the_default_branch_the_last_commit_is_what_changed(self):
        self.git("init", "-q", "-b", "main")
        self.git("add", "ir", ".clang-tidy")
        self.git("commit", "-qm", "all")
        self.write("ir/c.cc", "fault\n")
        self.git("commit", "-qam", "one")
        code, read, _ = self.tidy()
        self.assertEqual((code, read[0]), (1, "ir/c.cc"))


if __name__ == "__main__":
    unittest.main()
