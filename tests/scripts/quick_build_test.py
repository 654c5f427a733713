"""The compiler accepts each group of scripts/quickstart's build, whose groups are whole libraries.

Other builds have smaller groups, so a name that two files of a library give to different things may
show up here alone. Nothing is compiled to the end: parsing finds it.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse(entry: dict) -> str:
    """The compiler's errors in the group of `entry`; nothing is written."""
    command = entry["command"].replace(" -o ", " -fsyntax-only -o ")
    done = subprocess.run(command, shell=True, cwd=entry["directory"], capture_output=True, text=True,
                          env=dict(os.environ, CCACHE_DISABLE="1"), check=False)
    return "" if done.returncode == 0 else f"{entry['file']}:\n{done.stderr[:4000]}"


class QuickBuild(unittest.TestCase):
    def test_groups_are_accepted(self):
        with tempfile.TemporaryDirectory() as build:
            done = subprocess.run(["cmake", "--preset", "quick", "-S", ROOT, "-B", build,
                                   "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            entries = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
            groups = [e for e in entries if re.search(r"/tw_\w+\.dir/Unity/unity_\w+\.cxx$", e["file"])]
            self.assertGreater(len(groups), 10)
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                faults = [fault for fault in pool.map(parse, groups) if fault]
            self.assertEqual(faults, [], "\n".join(faults))


if __name__ == "__main__":
    unittest.main()
