"""scripts/fuzz on programs that stand in for fuzzers: seeds, turns, failures and how to see them again."""
import pathlib
import re
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "fuzz"

# As fuzz_schedule: COUNT FIRST_SEED.
CASES = """#!/usr/bin/env bash
echo "$2" >> "$(dirname "$0")/seeds"
{fail}
echo "$1 cases, 0 failures"
"""
FAILING_CASES = CASES.format(fail='echo "seed 4711: matmul:m=1"; echo "it is wrong"; exit 1')
FAULTING_CASES = CASES.format(fail="kill -SEGV $$")
# As a parser's program, with and without libFuzzer.
PARSER = """#!/usr/bin/env bash
echo "1234 executions, 0 failures, 99 per second"
"""
LIBFUZZER = """#!/usr/bin/env bash
echo "stat::number_of_executed_units: 777" >&2
echo "Test unit written to /tmp/crash-1" >&2
exit 77
"""


class Fuzz(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name) / "release"
        self.parsers = pathlib.Path(folder.name) / "fuzz"
        self.build.mkdir()
        self.parsers.mkdir()

    def write(self, path: pathlib.Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def fuzz(self, *arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [SCRIPT, "--minutes", "0.01", "--build", self.build, "--parsers", self.parsers,
             *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_tells_executions_of_every_fuzzer(self):
        self.write(self.build / "fuzz_schedule", CASES.format(fail=""))
        self.write(self.build / "npy_fuzz", PARSER)
        self.write(self.build / "README", "no program")
        code, output, errors = self.fuzz("--seed", "5")
        self.assertEqual(code, 0, output + errors)
        self.assertTrue(output.startswith("seed 5\n"))
        self.assertRegex(output, r"fuzz_schedule +[1-9][0-9]* executions .* 0 failures")
        self.assertRegex(output, r"npy_fuzz +[1-9][0-9]* executions .* 0 failures")
        self.assertRegex(output, r"2 fuzzers, \d+ executions, 0 failures\n$")

    def test_seeds_follow_from_the_first_and_are_fresh_without(self):
        self.write(self.build / "fuzz_schedule", CASES.format(fail="sleep 0.2"))

        def first_seed(*arguments: str) -> str:
            (self.build / "seeds").unlink(missing_ok=True)
            self.fuzz("--jobs", "1", *arguments)
            return (self.build / "seeds").read_text().splitlines()[0]

        self.assertEqual(first_seed("--seed", "5"), first_seed("--seed", "5"))
        self.assertNotEqual(first_seed("--seed", "5"), first_seed("--seed", "6"))
        self.assertNotEqual(first_seed(), first_seed())

    def test_a_failing_case_is_reproduced_by_its_seed(self):
        self.write(self.build / "fuzz_schedule", FAILING_CASES)
        code, output, _ = self.fuzz("--jobs", "1")
        self.assertEqual(code, 1)
        self.assertIn(f"reproduce: {self.build / 'fuzz_schedule'} 1 4711\n", output)
        self.assertNotRegex(output, r" 0 failures\n$")

    def test_a_fault_is_reproduced_by_the_slice(self):
        self.write(self.build / "fuzz_formats", FAULTING_CASES)
        code, output, _ = self.fuzz("--jobs", "1")
        self.assertEqual(code, 1)
        seed = (self.build / "seeds").read_text().splitlines()[0]
        self.assertRegex(output, rf"reproduce: \S+/fuzz_formats \d+ {seed}\n")

    def test_libfuzzer_takes_the_place_of_mutations(self):
        self.write(self.build / "npy_fuzz", PARSER)
        self.write(self.parsers / "npy_fuzz", LIBFUZZER)
        code, output, _ = self.fuzz("--jobs", "1")
        self.assertEqual(code, 1)
        self.assertEqual(int(re.search(r"(\d+) executions", output)[1]) % 777, 0)
        self.assertIn(f"reproduce: {self.parsers / 'npy_fuzz'} /tmp/crash-1\n", output)

    def test_only_what_was_asked_for(self):
        self.write(self.build / "npy_fuzz", PARSER)
        self.write(self.build / "job_fuzz", PARSER)
        code, output, _ = self.fuzz("--only", "job_fuzz")
        self.assertEqual(code, 0)
        self.assertNotIn("npy_fuzz", output)
        code, _, errors = self.fuzz("--only", "elf")
        self.assertEqual(code, 2)
        self.assertIn("no fuzzer 'elf' is built; there are: job_fuzz, npy_fuzz", errors)

    def test_nothing_built_is_told(self):
        code, _, errors = self.fuzz()
        self.assertEqual(code, 4)
        self.assertIn("no fuzzer is built", errors)


if __name__ == "__main__":
    unittest.main()
