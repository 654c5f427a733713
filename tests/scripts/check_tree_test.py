"""scripts/check_tree.py finds each kind of fault, and nothing in a tree without one."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_tree.py"
sys.path.insert(0, str(SCRIPT.parent))
import check_tree  # noqa: E402


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
        self.accepts({"runtime/a.cc": '#include "kernel/kernel_abi.h"\n'}, "layers")
        self.accepts({"cli/a.cc": '#include "tilewright/version.h"\n'}, "layers")

    def test_a_folder_may_not_include_a_later_one(self):
        self.refuses({"base/a.h": '#include "ir/b.h"\n'}, "layers",
                     'base/a.h:1: base/ may not include "ir/b.h"; it may: nothing else')
        self.refuses({"database/a.cc": '\n#include "runtime/b.h"\n'}, "layers",
                     'database/a.cc:2: database/ may not include "runtime/b.h"; it may: base')
        self.refuses({"codegen/a.cc": '#include "runtime/b.h"\n'}, "layers", "codegen/ may not")
        self.refuses({"runtime/a.cc": '#include "codegen/codegen.h"\n'}, "layers",
                     "it may: base, ir, kernel")
        self.refuses({"bench/a.cc": '#include "cli/b.h"\n'}, "layers", "bench/ may not")

    def test_the_layers_form_no_circle(self):
        layers = check_tree.LAYERS
        for number, (folder, granted) in enumerate(layers.items()):
            self.assertLessEqual(granted, set(list(layers)[:number]), folder)

    def test_folders_within_a_folder_form_no_circle(self):
        self.accepts({"ir/a/x.h": '#include "ir/b/y.h"\n', "ir/b/y.h": '#include "ir/z.h"\n',
                      "ir/z.h": '#include "ir/a/w.h"\n'}, "circles")
        self.refuses({"ir/a/x.h": '#include "ir/b/y.h"\n', "ir/b/c/y.h": '#include "ir/a/w.h"\n'},
                     "circles", 'ir: a -> b -> a is a circle: ir/a/x.h:1: "ir/b/y.h"; '
                     'ir/b/c/y.h:1: "ir/a/w.h"')
        self.refuses({"ir/a/x.h": '#include "ir/b/y.h"\n', "ir/b/y.h": '#include "ir/c/z.h"\n',
                      "ir/c/z.h": '\n#include "ir/a/w.h"\n'}, "circles", "a -> b -> c -> a")
        self.refuses({"ir/x.h": '#include "base/y.h"\n', "base/y.h": '#include "ir/w.h"\n'},
                     "circles", "the tree: base -> ir -> base")

    def test_a_folder_holds_few_files(self):
        files = {f"ir/f{number}.h": "" for number in range(41)}
        self.refuses(files, "rooms", "ir: 41 files; the most allowed are 40")
        del files["ir/f0.h"]
        self.accepts({**files, "ir/ops/g.h": ""}, "rooms")
        self.refuses({**files, "ir/notes.txt": ""}, "rooms", "ir: 41 files")

    def test_includes_start_at_the_root(self):
        self.refuses({"ir/a.cc": '#include "expr.h"\n'}, "layers", "written from the root")
        self.refuses({"ir/a.cc": '#include "../ir/expr.h"\n'}, "layers", "written from the root")
        self.refuses({"ir/a.cc": '#include "tests/x.h"\n'}, "layers", "from outside the layers")

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
        self.assertIn("there are: layers, circles, rooms, length, words, headers", output)


if __name__ == "__main__":
    unittest.main()
