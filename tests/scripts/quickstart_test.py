"""scripts/quickstart builds what it runs, names its steps, and goes on without a peer."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Writes down how it was called. What it builds writes down the same.
RECORDER = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >>"{log}"
{more}
"""
BUILDS = """mkdir -p "{root}/build/quick"
cp "{root}/bin/recorder" "{root}/build/quick/tune-cli"
"""


class Quickstart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.log = self.root / "log"
        (self.root / "scripts").mkdir()
        (self.root / "bin").mkdir()
        shutil.copy(ROOT / "scripts" / "quickstart", self.root / "scripts")
        for name in ["deps", "peer_onednn", "peer_ggml"]:
            self.program(f"scripts/{name}")
        self.program("bin/recorder")
        self.program("bin/cmake", BUILDS.format(root=self.root))

    def program(self, path: str, more: str = "") -> None:
        (self.root / path).write_text(RECORDER.format(log=self.log, more=more))
        (self.root / path).chmod(0o755)

    def quickstart(self, *arguments: str) -> tuple[int, list[str], str]:
        """The exit code, the calls in their order, and what it said."""
        env = dict(os.environ, PATH=f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}")
        done = subprocess.run([self.root / "scripts" / "quickstart", "--threads", "2", *arguments],
                              env=env, cwd=self.root, capture_output=True, text=True, check=False)
        calls = self.log.read_text().splitlines() if self.log.exists() else []
        return done.returncode, calls, done.stderr

    def targets(self, calls: list[str]) -> list[str]:
        return [call.split("--target ")[1] for call in calls if "--target" in call]

    def test_it_builds_what_it_runs_and_fetches_no_slow_peer(self):
        code, calls, said = self.quickstart("--trials", "9")
        self.assertEqual(code, 0, said)
        self.assertEqual(calls[0], "deps --debian --tune --peers")
        self.assertEqual(self.targets(calls), ["tune-cli tw_serving", "peers"])
        self.assertTrue(all("--preset quick " in call for call in calls if "--preset" in call))
        self.assertIn("peer_onednn ", calls)
        self.assertFalse([call for call in calls if call.startswith("peer_ggml")])
        used = [call.split()[:2] for call in calls if call.startswith("tune-cli")]
        self.assertEqual(used, [["tune-cli", "tune"], ["tune-cli", "replay"], ["tune-cli", "bench"]])
        self.assertIn("--trials 9 --threads 2", next(c for c in calls if " tune " in c))

    def test_each_step_says_what_it_does_and_how_long_it_took(self):
        said = self.quickstart()[2]
        lines = [line for line in said.splitlines() if line]
        self.assertEqual(len([line for line in lines if line.startswith("== ")]), 7, said)
        for heading, time in zip(lines[0:14:2], lines[1:14:2]):
            self.assertTrue(heading.startswith("== "), said)
            self.assertTrue(re.fullmatch(r"   [0-9]+ s", time), said)
        self.assertTrue(re.fullmatch(r"All of it took [0-9]+ s\.", lines[14]), said)

    def test_its_last_lines_can_be_pasted(self):
        said = self.quickstart("--db", "own.db")[2]
        last = [line.strip() for line in said.splitlines()[-3:]]
        self.assertEqual(last[0], f'export PATH="{self.root / "build" / "quick"}:$PATH"')
        for command, line in zip(["replay", "explain"], last[1:]):
            self.assertEqual(line, f"tune-cli {command} 'matmul:m=512,n=768,k=768' --db own.db --threads 2")
            pasted = subprocess.run(["bash", "-c", f"{last[0]}\n{line}"], cwd=self.root, check=False)
            self.assertEqual(pasted.returncode, 0)

    def test_ggml_on_request(self):
        code, calls, said = self.quickstart("--ggml")
        self.assertEqual(code, 0, said)
        self.assertLess(calls.index("peer_ggml "),
                        next(i for i, c in enumerate(calls) if "--target peers" in c))

    def test_without_peers_nothing_of_them_is_made(self):
        code, calls, said = self.quickstart("--no-peers")
        self.assertEqual(code, 0, said)
        self.assertEqual(calls[0], "deps --debian --tune")
        self.assertEqual(self.targets(calls), ["tune-cli tw_serving"])
        self.assertFalse([call for call in calls if call.startswith("peer_")])

    def test_without_packages_nothing_is_fetched(self):
        calls = self.quickstart("--no-deps")[1]
        self.assertFalse([c for c in calls if c.startswith(("deps", "peer_"))])
        self.assertEqual(self.targets(calls), ["tune-cli tw_serving", "peers"])

    def test_it_goes_on_without_a_peer_that_cannot_be_fetched(self):
        self.program("scripts/peer_onednn", "echo no network >&2; exit 4")
        code, calls, said = self.quickstart()
        self.assertEqual(code, 0, said)
        self.assertIn("no network\nscripts/quickstart: going on without oneDNN", said)
        self.assertIn("bench", calls[-1])

    def test_a_failed_build_ends_it(self):
        self.program("bin/cmake", "exit 1")
        code, calls, _ = self.quickstart("--no-peers")
        self.assertNotEqual(code, 0)
        self.assertFalse([call for call in calls if call.startswith("tune-cli")])


if __name__ == "__main__":
    unittest.main()
