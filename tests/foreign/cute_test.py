"""tests/golden/cute holds what the programs in tests/foreign/cute print with CUTLASS's headers
(scripts/cutlass_headers). The tests of instructions compare our tables with these files.

TILEWRIGHT_UPDATE_GOLDEN=1 writes the files anew.

usage: cute_test.py [COMPILER]"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "tests" / "foreign" / "cute").glob("*.cc"))
SCRIPT = ROOT / "scripts" / "cutlass_headers"
COMPILER = "g++"
# Functions of the device take addresses of shared memory. On a host they say so and give 0.
NO_ADDRESS = "ERROR: cast_smem_ptr_to_uint"


def script(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)


def tables_of(program: pathlib.Path, folder: str) -> str:
    """What the program prints. CUTLASS calls functions of the device in templates that nobody
    instantiates here, which compilers of a host let pass with -fpermissive."""
    headers = pathlib.Path(script("--prefix").stdout.strip())
    compiled = pathlib.Path(folder) / program.stem
    subprocess.run([COMPILER, "-std=c++20", "-O0", "-w", "-fpermissive", "-isystem",
                    headers / "include", program, "-o", compiled], check=True)
    printed = subprocess.run([compiled], capture_output=True, text=True, check=True).stdout
    lines = [line for line in printed.splitlines() if not line.startswith(NO_ADDRESS)]
    version = (headers / "installed").read_text().split()[0].replace("==", " ")
    return "\n".join([f"# {version}, {program.relative_to(ROOT)}", *lines]) + "\n"


class Tables(unittest.TestCase):
    def test_are_those_of_cute(self):
        self.assertGreater(len(PROGRAMS), 0)
        with tempfile.TemporaryDirectory() as folder:
            for program in PROGRAMS:
                with self.subTest(program.stem):
                    golden = ROOT / "tests" / "golden" / "cute" / f"{program.stem}.txt"
                    text = tables_of(program, folder)
                    if os.environ.get("TILEWRIGHT_UPDATE_GOLDEN") == "1":
                        golden.write_text(text)
                    self.assertEqual(golden.read_text(), text)


if __name__ == "__main__":
    if script("--check").returncode != 0:
        print("skipped: no headers of CUTLASS: scripts/deps --cutlass installs them")
        sys.exit(77)
    if len(sys.argv) > 1:
        COMPILER = sys.argv.pop(1)
    unittest.main()
