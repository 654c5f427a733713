"""scripts/check_tree.py finds each kind of fault, and nothing in a tree without one."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_tree.py"


class CheckTree(unittest.TestCase):
    def run_on(self, files: dict[str, str], check: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, str(SCRIPT), "--root", folder, check],
                capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def refuses(self, files: dict[str, str], check: str, message: str) -> None:
        code, output = self.run_on(files, check)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)

    def accepts(self, files: dict[str, str], check: str) -> None:
        code, output = self.run_on(files, check)
        self.assertEqual(code, 0, output)

    def test_a_folder_may_include_itself_and_those_before_it(self):
        self.accepts({"schedule/a.cc": '#include "schedule/b.h"\n#include "ir/expr.h"\n'}, "layers")
        self.accepts({"runtime/a.cc": '#include "codegen/kernel_abi.h"\n'}, "layers")
        self.accepts({"cli/a.cc": '#include "tilewright/version.h"\n'}, "layers")

    def test_a_folder_may_not_include_a_later_one(self):
        self.refuses({"ir/a.h": '#include "schedule/b.h"\n'}, "layers",
                     'ir/a.h:1: ir/ may not include "schedule/b.h"; it may: nothing else')
        self.refuses({"database/a.cc": '\n#include "runtime/b.h"\n'}, "layers",
                     'database/a.cc:2: database/ may not include "runtime/b.h"; it may: ir')
        self.refuses({"codegen/a.cc": '#include "runtime/b.h"\n'}, "layers", "codegen/ may not")

    def test_runtime_knows_only_the_kernels_interface(self):
        self.refuses({"runtime/a.cc": '#include "codegen/printer.h"\n'}, "layers",
                     "codegen/tensor_map.h, codegen/tensor_sums.h, codegen/wgmma_rows.h, ir")

    def test_includes_start_at_the_root(self):
        self.refuses({"ir/a.cc": '#include "expr.h"\n'}, "layers", "written from the root")
        self.refuses({"ir/a.cc": '#include "../ir/expr.h"\n'}, "layers", "written from the root")
        self.refuses({"ir/a.cc": '#include "bench/x.h"\n'}, "layers", "from outside the layers")

    def test_the_length_has_a_limit(self):
        self.accepts({"ir/a.cc": "\n" * 500}, "length")
        self.refuses({"ir/a.cc": "\n" * 501}, "length", "ir/a.cc: 501 lines")

    def test_machine_paths_and_marks_are_refused(self):
        self.refuses({"README.md": "see /ho" "me/someone/x\n"}, "words", "a path of one machine")
        self.refuses({"ir/a.cc": "// FIX" "ME later\n"}, "words", "a mark of unfinished work")
        self.accepts({"README.md": "a/wo" "rk/b and $HOME/wo" "rk/c\n"}, "words")

    def test_the_top_holds_no_stray_files(self):
        self.refuses({"NOTES.txt": ""}, "top", "NOTES.txt: no file of that name belongs at the top")
        self.accepts({"README.md": "", "docs/NOTES.txt": ""}, "top")

    def test_build_folders_are_no_part_of_an_unpacked_archive(self):
        self.accepts({"build/x/flags.txt": "-I/ho" "me/someone/x\n", ".cache/y": "FIX" "ME\n"},
                     "words")

    def test_headers_guard_themselves_and_stay_light(self):
        self.accepts({"ir/a.h": "#pragma once\n#include <string>\n"}, "headers")
        self.refuses({"ir/a.h": "int x;\n"}, "headers", "neither #pragma once")
        self.refuses({"ir/a.h": "#pragma once\n#include <nlohmann/json.hpp>\n"}, "headers",
                     "ir/a.h:2: a heavy header in a header")

    def test_an_unknown_check_is_refused_with_those_that_exist(self):
        code, output = self.run_on({}, "spelling")
        self.assertEqual(code, 2)
        self.assertIn("there are: layers, length, words, headers", output)


if __name__ == "__main__":
    unittest.main()
