"""The example with Optuna leads a search.

usage: proposer_test.py TUNE_CLI"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, enter, main

enter()

EXAMPLE = ROOT / "examples" / "python" / "optuna_proposer.py"
TUNE_CLI = ""
SPECS = ["matmul:m=32,n=64,k=48", "conv1d:n=1,l=16,ci=8,co=16,kernel=3"]


class Proposer(unittest.TestCase):
    def test_optuna_leads_two_workloads(self):
        with tempfile.TemporaryDirectory() as folder:
            seen = pathlib.Path(folder, "seen")
            done = subprocess.run(
                [TUNE_CLI, "tune", *SPECS, "--db", f"{folder}/t.db", "--trials", "20", "--threads", "1",
                 "--json", "--quiet", "--proposer", f"tee {seen} | {sys.executable} {EXAMPLE}"],
                capture_output=True, text=True, check=False)
            requests = [json.loads(line) for line in seen.read_text().splitlines()]
        self.assertEqual(done.returncode, 0, done.stderr)
        for result in json.loads(done.stdout)["results"]:
            self.assertEqual(result["trials"], 20)
        self.assertEqual({request["spec"] for request in requests}, set(SPECS))
        tags = [outcome["tag"] for request in requests for outcome in request["outcomes"] if "tag" in outcome]
        self.assertGreaterEqual(len(tags), 2, "proposals were measured and told")


if __name__ == "__main__":
    TUNE_CLI = sys.argv.pop(1)
    main()
