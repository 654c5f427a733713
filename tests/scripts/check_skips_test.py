"""scripts/check_skips.py counts skipped tests by reason, and scripts/test fails with it."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = """
[[skip]]
reason = '^no wheel'
most = 2
[[skip]]
reason = '^no processor at all'
unless = "{fact}"
most = 5
"""
# A fact that holds wherever this test runs, and one that does not.
HOLDS, LACKS = ("root", "another user") if os.geteuid() == 0 else ("another user", "root")


def gtest(reason: str) -> str:
    return f"[ RUN      ] X.Y\n/a/x_test.cc:12: Skipped\n{reason}\n\n[  SKIPPED ] X.Y (0 ms)\n"


def case(name: str, output: str | None = None, status: str = "notrun") -> str:
    """A test that was skipped with this output; without any, one that ran."""
    if output is None:
        return f'<testcase name="{name}" status="run"><system-out>fine</system-out></testcase>'
    return (f'<testcase name="{name}" status="{status}"><skipped message="by its output"/>'
            f"<system-out>{escape(output)}</system-out></testcase>")


def junit(*cases: str) -> str:
    return f'<?xml version="1.0"?><testsuite name="(empty)">{"".join(cases)}</testsuite>'


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class CheckSkips(Folder):
    def check(self, *cases: str, fact: str = LACKS, table: str = TABLE,
              text: str | None = None) -> tuple[int, str, str]:
        results, allowed = self.folder / "results.xml", self.folder / "allowed.toml"
        results.write_text(junit(*cases) if text is None else text)
        allowed.write_text(table.format(fact=fact))
        done = subprocess.run([sys.executable, ROOT / "scripts" / "check_skips.py", results,
                               "--table", allowed], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_counts_by_reason(self):
        code, out, err = self.check(
            case("ran"), case("a", gtest("no wheel")), case("b", gtest("no wheel of size 3")),
            case("c", "test_x (X) ... skipped 'no processor at all'\n"))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, "\nSkipped: 3 of 4 tests\n     2  no wheel  (at most 2)\n"
                              "     1  no processor at all  (at most 5)\n")

    def test_none_is_fine(self):
        self.assertEqual(self.check(case("ran")), (0, "\nSkipped: 0 of 1 tests\n", ""))

    def test_more_than_expected_fail(self):
        code, _, err = self.check(*(case(f"t{i}", gtest("no wheel")) for i in range(3)))
        self.assertEqual(code, 1)
        self.assertIn("3 tests were skipped for 'no wheel', at most 2 may be: t0, t1, t2\n", err)

    def test_a_machine_that_can_run_a_test_must(self):
        code, out, err = self.check(case("a", gtest("no processor at all")), fact=HOLDS)
        self.assertEqual(code, 1)
        self.assertIn(f"(none: this machine has {HOLDS})", out)
        self.assertIn(f"none: this machine has {HOLDS} may be: a\n", err)

    def test_an_unknown_reason_fails(self):
        for output, reason in ((gtest("no luck"), "no luck"), ("skipped: no cable\n", "no cable"),
                               ("nothing said", "no reason given")):
            code, out, err = self.check(case("a", output))
            self.assertEqual(code, 1)
            self.assertIn(f"     1  {reason}  (not in the table)", out)
            self.assertIn(f"a was skipped for a reason that the table lacks: {reason}\n", err)

    def test_a_failure_is_no_skip(self):
        output = "/a/x_test.cc:9: Failure\nValue of: x\n" + gtest("no wheel")
        code, _, err = self.check(case("a", output))
        self.assertEqual(code, 1)
        self.assertIn("a failed, and was then skipped", err)

    def test_a_disabled_test_fails(self):
        text = junit('<testcase name="a" status="disabled"><system-out>Disabled</system-out></testcase>')
        code, _, err = self.check(text=text)
        self.assertEqual(code, 1)
        self.assertIn("a is disabled", err)

    def test_damaged_results_and_tables_fail(self):
        self.assertEqual(self.check(text="<testsuite>")[0], 1)
        for table in ("[[skip]]\nreason = 'x'\n", "[[skip]]\nmost = 1\n",
                      "[[skip]]\nreason = 'x'\nmost = 1\nunles = 'root'\n"):
            code, _, err = self.check(case("ran"), table=table)
            self.assertEqual(code, 1)
            self.assertIn("a row has a reason, a number 'most', and may have 'unless'", err)
        code, _, err = self.check(case("ran"), fact="a horse")
        self.assertEqual(code, 1)
        self.assertIn("'a horse' is none of avx2, ", err)

    def test_the_table_of_the_tree_is_whole(self):
        done = subprocess.run([sys.executable, ROOT / "scripts" / "check_skips.py", os.devnull],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no element found", done.stderr, "the table was read, and then the results")


# A ctest that says how it went and leaves the results that it is told to.
FAKE_CTEST = """#!/usr/bin/env bash
while [[ $# -gt 0 && $1 != --output-junit ]]; do shift; done
[[ -z ${RESULTS:-} ]] || printf '%s' "$RESULTS" > "$2"
echo "100% tests passed, 0 tests failed out of 7"
exit "$CTEST_CODE"
"""


class Test(Folder):
    """scripts/test in a tree of its own, with a cmake and a ctest that do nothing."""

    def setUp(self):
        super().setUp()
        (self.folder / "tests").mkdir()
        (self.folder / "scripts").mkdir()
        (self.folder / "build" / "release").mkdir(parents=True)
        (self.folder / "bin").mkdir()
        for name in ("test", "check_skips.py", "cuda_tools"):
            shutil.copy(ROOT / "scripts" / name, self.folder / "scripts" / name)
        (self.folder / "tests" / "allowed_skips.toml").write_text(TABLE.format(fact=LACKS))
        for name, text in (("cmake", "#!/bin/sh\n"), ("ctest", FAKE_CTEST)):
            (self.folder / "bin" / name).write_text(text)
            (self.folder / "bin" / name).chmod(0o755)

    def run_tests(self, results: str, ctest_code: int) -> tuple[int, str]:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        env = dict(os.environ, PATH=path, RESULTS=results, CTEST_CODE=str(ctest_code))
        done = subprocess.run([self.folder / "scripts" / "test", "--no-deps"], env=env,
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def test_the_table_follows_the_summary(self):
        code, out = self.run_tests(junit(case("a", gtest("no wheel"))), 0)
        self.assertEqual(code, 0)
        self.assertEqual(out, "100% tests passed, 0 tests failed out of 7\n\nSkipped: 1 of 1 tests\n"
                              "     1  no wheel  (at most 2)\n")

    def test_exit_codes(self):
        fine, many = junit(case("ran")), junit(case("a", gtest("no luck")))
        self.assertEqual(self.run_tests(many, 0)[0], 1)
        self.assertEqual(self.run_tests(fine, 8)[0], 8)
        self.assertEqual(self.run_tests(many, 8)[0], 8, "ctest's own code comes first")

    def test_results_of_an_earlier_run_do_not_count(self):
        (self.folder / "build" / "release" / "test-results.xml").write_text(
            junit(case("a", gtest("no luck"))))
        code, out = self.run_tests("", 0)
        self.assertEqual(code, 0)
        self.assertNotIn("Skipped", out)


if __name__ == "__main__":
    unittest.main()
