"""scripts/check_words.py measures comments, messages and documents, and fails beyond its limits."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_words.py"
SHORT = "The search stops here. "


def of_words(count: int) -> str:
    """One sentence of so many words."""
    return " ".join(["The"] + ["word"] * (count - 1)) + "."


class CheckWords(unittest.TestCase):
    def run_on(self, files: dict[str, str], *arguments: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, str(SCRIPT), "--root", folder, *arguments],
                capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def refuses(self, files: dict[str, str], check: str, message: str) -> None:
        code, output = self.run_on(files, check)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)

    def accepts(self, files: dict[str, str], check: str) -> None:
        code, output = self.run_on(files, check)
        self.assertEqual(code, 0, output)

    def counts(self, name: str, text: str, opened: int, blocks: int) -> None:
        output = self.run_on({name: text}, "comments")[1]
        self.assertIn(f" {opened} of {blocks:6} comment blocks", output)

    def test_each_opening_is_found(self):
        for word in ("Of", "What", "Those", "Likewise"):
            self.refuses({"ir/a.h": f"// {word} the loops.\n"}, "comments",
                         "1 of 1 comment blocks (100.00%) open with Of, What, Those, Likewise")
        self.refuses({"ir/a.h": "// Likewise, it is kept.\n"}, "comments", "1 of 1")
        self.accepts({"ir/a.h": "// Offsets of the loops.\n// What follows is one block.\n"},
                     "comments")

    def test_the_share_is_that_of_the_tree(self):
        good = "// A loop.\nint x;\n"
        self.accepts({"ir/a.h": good * 99, "tuner/b.h": "// Of it.\n"}, "comments")
        self.refuses({"ir/a.h": good * 98, "tuner/b.h": "// Of it.\n"}, "comments", "1 of 99")

    def test_lines_at_one_column_are_one_block(self):
        self.counts("ir/a.cc", "// One\n// block.\nint x;  // Another.\nint y;  // And another.\n",
                    0, 3)
        self.counts("ir/a.cc", "int x;  // One that\n        // goes on.\n", 0, 1)
        self.counts("ir/a.cc", "/* What it is.\n * And more. */\n", 1, 1)

    def test_strings_hold_no_comments(self):
        self.counts("ir/a.cc", 'f("// Of x");\ng(R"(// What\n// Those)");\nint i = 1\'000; // A.\n',
                    0, 1)

    def test_python_and_scripts_count(self):
        self.counts("scripts/a.py", '"""What it does."""\nx = "# Of"  # Of it.\n', 2, 2)
        self.counts("scripts/a", "#!/usr/bin/env bash\n# Those files.\nrun  # skipped\n", 1, 1)

    def test_golden_text_has_no_comments(self):
        self.accepts({"ir/a.h": "// A loop.\n", "tests/golden/a/b.txt": "# Those files.\n"},
                     "comments")

    def test_messages_open_with_their_subject(self):
        self.refuses({"cli/a.cc": 'int x;\nf("what is stored here is not run");\n'}, "messages",
                     "cli/a.cc:2: a message opens with 'what'")
        self.refuses({"cli/a.cc": 'f("Those kernels are old");\n'}, "messages", "'Those'")
        self.refuses({"scripts/a.py": 'print("of the kernels none runs")\n'}, "messages", "'of'")
        self.accepts({"cli/a.cc": '// what is meant here\nf("the kernels of a run", "of a");\n',
                      "scripts/a.py": '"""Says it.\n\nwhat is it."""\nprint("It is so.")\n'},
                     "messages")

    def test_messages_claim_no_proof(self):
        for claim in ("it proves the kernels right", "The kernel is PROVED right",
                      "a proof of the kernels", "speed is guaranteed here", "nowhere slower than it"):
            self.refuses({"cli/a.cc": f'f("{claim}");\n'}, "messages", "cli/a.cc:1: a message says")
        self.accepts({"cli/a.cc": 'f("proved"); g("{} of {} accesses proved for all sizes");\n',
                      "tests/a.cc": 'f("it proves the kernels right");\n'}, "messages")

    def test_neighbouring_literals_are_one_message(self):
        self.refuses({"cli/a.cc": 'f("the kernels "\n  "are proved");\n'}, "messages",
                     "cli/a.cc:1: a message says 'proved'")
        self.assertIn("2 messages", self.run_on(
            {"cli/a.cc": 'f("one two three", "four five six");\ng(R"(seven eight nine)", "ten");\n'},
            "messages")[1])

    def test_places_are_listed(self):
        output = self.run_on({"ir/a.h": "int x;\n// Of the loops.\n"}, "comments", "--list")[1]
        self.assertIn("ir/a.h:2: Of the loops.", output)
        output = self.run_on({"a.md": f"Title.\n\n{of_words(26)}\n"}, "documents", "--list")[1]
        self.assertIn("a.md:3: 26 words: The word", output)

    def test_the_mean_of_a_document_has_a_limit(self):
        self.accepts({"docs/a.md": f"{of_words(18)} {of_words(18)}\n"}, "documents")
        self.refuses({"docs/a.md": f"{of_words(18)} {of_words(19)}\n"}, "documents",
                     "docs/a.md: 18.5 words per sentence on average; at most 18")

    def test_a_paragraph_has_a_limit(self):
        self.accepts({"a.md": SHORT * 30 + "\n\n" + SHORT * 30}, "documents")
        self.accepts({"a.md": "\n".join(f"- {SHORT}" for _ in range(31))}, "documents")
        self.refuses({"a.md": SHORT + "\n\n" + SHORT * 31}, "documents",
                     "a.md:3: a paragraph of 124 words; at most 120")

    def test_code_tables_headings_and_history_do_not_count(self):
        long = of_words(130)
        for text in (f"```\n{long}\n```\n", f"    {long}\n", f"| {long} |\n", f"## {long}\n"):
            self.accepts({"a.md": SHORT + "\n\n" + text}, "documents")
        self.accepts({"CHANGELOG.md": long}, "documents")
        self.refuses({"docs/CHANGELOG.md": long}, "documents", "a paragraph of 130 words")

    def test_sentences_end_at_stops_only(self):
        output = self.run_on({"a.md": "See `a. B. C` (docs). It is 3.2 of 4, e.g. Two. 5 are new."},
                             "documents")[1]
        self.assertIn("   3 sentences", output)

    def test_links_lead_to_files_and_headings(self):
        files = {"README.md": "[a](docs/a.md#the-c-side), [b](#b), [c](https://x.org/y#z)\n\n# B\n",
                 "docs/a.md": "[up](../README.md)\n\n## The `C` side\n"}
        self.accepts(files, "links")
        self.refuses(files | {"b.md": "x\n[a](docs/b.md)\n"}, "links",
                     "b.md:2: no file docs/b.md")
        self.refuses(files | {"b.md": "[a](docs/a.md#c-side)\n"}, "links",
                     "b.md:1: no heading #c-side in docs/a.md")
        self.accepts({"a.md": "```\nx[i](j)\n```\n`x[i](j)`\n"}, "links")

    def test_an_unknown_check_is_refused_with_those_that_exist(self):
        code, output = self.run_on({}, "spelling")
        self.assertEqual(code, 2)
        self.assertIn("there are: comments, messages, documents, links", output)


if __name__ == "__main__":
    unittest.main()
