#!/usr/bin/env python3
"""Prints how many tests of a run were skipped, by reason, and fails where these are too many.

Reads ctest's JUnit file. The table of reasons (tests/allowed_skips.toml) says how many tests each
one may skip, and on which machines: a test that this machine can run must run. Exits with 1 for a
reason that the table lacks, for too many tests, and for a test that failed and was called skipped.
"""
import argparse
import collections
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cpu_flags() -> set[str]:
    """The processor's features that tests may use: TILEWRIGHT_CPU_WITHOUT hides some."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    hidden = [plain(h) for h in os.environ.get("TILEWRIGHT_CPU_WITHOUT", "").split(",") if h]
    flags = {plain(flag) for flag in (found.group(1).split() if found else [])}
    return {flag for flag in flags if not flag.startswith(tuple(hidden))}


def plain(flag: str) -> str:
    return re.sub(r"[_-]", "", flag.strip())


def has_cuda_tool(package: str) -> bool:
    if os.environ.get("TILEWRIGHT_CUDA") == "off":
        return False
    done = subprocess.run([ROOT / "scripts" / "cuda_tools", "--check"], capture_output=True,
                          text=True, check=False)
    return package not in done.stdout


def has_browser() -> bool:
    """A Chromium with what drives it, as scripts/deps --browser installs them."""
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    return all(map(shutil.which, ("chromium", "chromedriver"))) and subprocess.run(
        [python, "-c", "import selenium"], capture_output=True, check=False).returncode == 0


def has_foreign_files() -> bool:
    done = subprocess.run([ROOT / "scripts" / "foreign_files", "--check"], capture_output=True, check=False)
    return done.returncode == 0


def has_triton() -> bool:
    done = subprocess.run([ROOT / "scripts" / "foreign_files", "--triton", "--check"], capture_output=True, check=False)
    return done.returncode == 0


def has_cutlass() -> bool:
    done = subprocess.run([ROOT / "scripts" / "cutlass_headers", "--check"], capture_output=True, check=False)
    return done.returncode == 0


def has_llama() -> bool:
    done = subprocess.run([ROOT / "scripts" / "llama" / "install", "--prefix"], capture_output=True, text=True,
                          check=False)
    return (pathlib.Path(done.stdout.strip()) / "include" / "llama.h").exists()


# Facts of a machine, by the names that the table uses.
FACTS = {
    "avx2": lambda: "avx2" in cpu_flags(),
    "avx512": lambda: {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= cpu_flags(),
    "avx512bf16": lambda: "avx512bf16" in cpu_flags(),
    "avx512vnni": lambda: "avx512vnni" in cpu_flags(),
    "amx": lambda: {"amxtile", "amxbf16", "amxint8"} <= cpu_flags(),
    "gpu": lambda: any(os.path.exists(p) for p in ("/dev/nvidiactl", "/dev/dxg")),
    "nvrtc": lambda: has_cuda_tool("nvrtc"),
    "nvdisasm": lambda: has_cuda_tool("nvdisasm"),
    "root": lambda: os.geteuid() == 0,
    "another user": lambda: os.geteuid() != 0,
    "two processors": lambda: len(os.sched_getaffinity(0)) > 1,
    "aarch64 tools": lambda: all(map(shutil.which, ("aarch64-linux-gnu-gcc", "qemu-aarch64"))),
    "browser": has_browser,
    "foreign files": has_foreign_files,
    "triton": has_triton,
    "cutlass": has_cutlass,
    "llama.cpp": has_llama,
    "fish": lambda: shutil.which("fish") is not None,
    "groff": lambda: shutil.which("groff") is not None,
    "script": lambda: shutil.which("script") is not None,
}


@functools.cache
def has(fact: str) -> bool:
    return FACTS[fact]()


def reason_of(output: str) -> str:
    """The first line that GoogleTest, unittest or an `echo` gives for a skipped test."""
    for pattern in (r"^\S+:\d+: Skipped\n+(.+)$", r"\.\.\. skipped '(.*)'$", r"^skipped: (.*)$"):
        found = re.search(pattern, output, re.MULTILINE)
        if found:
            return found.group(1).strip()
    return "no reason given"


def read_table(path: pathlib.Path) -> list[dict]:
    """The rows of the table. A row that could never match, or means nothing, is an error."""
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("skip", [])
    for row in rows:
        unknown = set(row) - {"reason", "unless", "most"}
        if unknown or "reason" not in row or not isinstance(row.get("most"), int):
            sys.exit(f"{path}: a row has a reason, a number 'most', and may have 'unless': {row}")
        if row.get("unless", "root") not in FACTS:
            sys.exit(f"{path}: '{row['unless']}' is none of {', '.join(FACTS)}")
    return rows


def judge(junit: ElementTree.Element, rows: list[dict]) -> tuple[list[tuple[str, int, str]], list[str]]:
    """Each reason with its number of tests and verdict, most frequent first, and the faults."""
    tests: dict[int, list[tuple[str, str]]] = collections.defaultdict(list)  # row -> (test, reason)
    lines, faults = [], []
    for case in junit.iter("testcase"):
        name, output = case.get("name", ""), case.findtext("system-out") or ""
        if case.get("status") == "disabled":
            faults.append(f"{name} is disabled")
        if case.find("skipped") is None:
            continue
        if re.search(r"^\[  FAILED  \]|: Failure$", output, re.MULTILINE):
            faults.append(f"{name} failed, and was then skipped")
        reason = reason_of(output)
        row = next((i for i, r in enumerate(rows) if re.search(r["reason"], reason)), len(rows))
        if row == len(rows):
            faults.append(f"{name} was skipped for a reason that the table lacks: {reason}")
        tests[row].append((name, reason))
    for row, skipped in sorted(tests.items(), key=lambda item: -len(item[1])):
        limit = "not in the table"
        if row < len(rows):
            fact, most = rows[row].get("unless"), rows[row]["most"]
            limit = f"at most {most}"
            if fact and has(fact):
                most, limit = 0, f"none: this machine has {fact}"
            if len(skipped) > most:
                names = ", ".join(name for name, _ in skipped[:3])
                faults.append(f"{len(skipped)} tests were skipped for '{skipped[0][1]}', {limit} "
                              f"may be: {names}{', …' if len(skipped) > 3 else ''}")
        lines.append((skipped[0][1], len(skipped), limit))
    return lines, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("junit", type=pathlib.Path, help="results by ctest --output-junit")
    parser.add_argument("--table", type=pathlib.Path, default=ROOT / "tests" / "allowed_skips.toml")
    arguments = parser.parse_args()
    rows = read_table(arguments.table)
    try:
        junit = ElementTree.parse(arguments.junit).getroot()
    except (OSError, ElementTree.ParseError) as error:
        print(f"check_skips: {arguments.junit}: {error}", file=sys.stderr)
        return 1
    lines, faults = judge(junit, rows)
    total = sum(count for _, count, _ in lines)
    print(f"\nSkipped: {total} of {len(list(junit.iter('testcase')))} tests")
    for reason, count, limit in lines:
        print(f"{count:6}  {reason}  ({limit})")
    for fault in faults:
        print(f"check_skips: {fault}", file=sys.stderr)
    if faults:
        print(f"check_skips: {arguments.table} says which tests may be skipped", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
