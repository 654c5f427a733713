#!/usr/bin/env python3
"""libtilewright.so as a file: what it shows, what it needs, what it does when it is loaded.

Usage: serving_library_test.py LIBRARY HEADER
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

LIBRARY = ""
HEADER = ""
# SQLite, libsodium, and what every C++ program has: the runtimes of the languages and the loader.
NEEDED = re.compile(r"lib(sqlite3|sodium|stdc\+\+|gcc_s|m|c|pthread|dl|atomic)\.so\.\d+|ld-linux.*\.so\.\d+")
MOST_BYTES = 3 << 20
# Starting programs and talking over a network are no part of serving kernels.
FOREIGN = re.compile(r"(exec[lv]|posix_spawn|v?fork|system|popen|socket|connect)")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class ServingLibrary(unittest.TestCase):
    def test_shows_the_functions_of_its_header_and_nothing_else(self):
        text = pathlib.Path(HEADER).read_text(encoding="utf-8")
        declared = set(re.findall(r"^TW_API [^;]*?\b(tw_\w+)\(", text, re.MULTILINE))
        self.assertGreater(len(declared), 20)
        shown = {line.split()[-1].split("@")[0]
                 for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()
                 if " A " not in line}
        self.assertEqual(shown, declared)

    def test_needs_sqlite_and_libsodium_alone(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", LIBRARY))
        self.assertIn("libsqlite3.so.0", needed)
        for library in needed:
            self.assertRegex(library, NEEDED)
        self.assertNotIn("not found", run("ldd", "-r", LIBRARY))

    def test_starts_no_programs(self):
        undefined = [line.split()[-1].split("@")[0]
                     for line in run("nm", "-D", "--undefined-only", LIBRARY).splitlines()]
        self.assertIn("dlopen", undefined)
        self.assertEqual([name for name in undefined if FOREIGN.match(name)], [])

    def test_does_nothing_when_it_is_loaded(self):
        # Two entries are the compiler's own: frame_dummy, and the one that reads the processor's features for
        # functions in several versions. A constructor of ours would be another.
        sections = run("readelf", "-SW", LIBRARY)
        size = re.search(r"\.init_array\s+INIT_ARRAY\s+\w+ \w+ (\w+)", sections)
        self.assertIsNotNone(size)
        own = sum(f" t {name}\n" in run("nm", LIBRARY) for name in ("frame_dummy", "__cpu_indicator_init"))
        self.assertEqual(int(size.group(1), 16), 8 * own)
        self.assertNotIn("_GLOBAL__sub_I", run("nm", LIBRARY))

    def test_is_small(self):
        with tempfile.TemporaryDirectory() as folder:
            stripped = os.path.join(folder, "stripped.so")
            run("strip", "-o", stripped, LIBRARY)
            size = os.path.getsize(stripped)
        print(f"stripped: {size} bytes of at most {MOST_BYTES}")
        self.assertLess(size, MOST_BYTES)


if __name__ == "__main__":
    LIBRARY, HEADER = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
