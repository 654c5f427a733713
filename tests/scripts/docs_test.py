"""scripts/docs gathers the pages of the site; their links lead where they led in the tree."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "docs"
loader = importlib.machinery.SourceFileLoader("docs_script", str(SCRIPT))
docs = importlib.util.module_from_spec(importlib.util.spec_from_loader("docs_script", loader))
loader.exec_module(docs)

FILES = {"README.md": "# R", "CONTRIBUTING.md": "[tour](docs/a.md#b)", "ir/x.h": "int x;",
         "docs/a.md": "# A", "docs/deep/b.md": "# B", "docs/c.svg": "<svg/>"}


class Docs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in FILES.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def moved(self, source: str, text: str) -> str:
        return docs.moved(text, source, docs.pages_of(self.root), self.root)

    def test_links_between_pages_stay(self):
        self.assertEqual(self.moved("docs/a.md", "[b](deep/b.md#x) ![c](c.svg)"),
                         "[b](deep/b.md#x) ![c](c.svg)")
        self.assertEqual(self.moved("docs/deep/b.md", "[a](../a.md)"), "[a](../a.md)")

    def test_pages_of_the_project_move_beside_those_of_docs(self):
        self.assertEqual(self.moved("docs/a.md", "[x](../CONTRIBUTING.md#y)"),
                         "[x](CONTRIBUTING.md#y)")
        self.assertEqual(self.moved("docs/deep/b.md", "[x](../../CONTRIBUTING.md)"),
                         "[x](../CONTRIBUTING.md)")
        self.assertEqual(self.moved("CONTRIBUTING.md", "[a](docs/a.md), [r](README.md)"),
                         "[a](a.md), [r](index.md)")

    def test_links_to_sources_become_words(self):
        self.assertEqual(self.moved("docs/a.md", "see [its header](../ir/x.h) and"),
                         "see its header and")

    def test_links_that_lead_nowhere_stay_for_mkdocs_to_refuse(self):
        self.assertEqual(self.moved("docs/a.md", "[n](none.md)"), "[n](none.md)")

    def test_code_and_addresses_stay(self):
        for text in ("```\n[x](../ir/x.h)\n```", "[x](https://x.org/y)", "[x](#here)"):
            self.assertEqual(self.moved("docs/a.md", text), text)

    def test_a_page_with_drawings_loads_the_copy_of_mermaid(self):
        drawing = "```mermaid\ngraph TD\n```\n"
        for place, source in (("index.md", "javascripts"), ("a.md", "../javascripts"),
                              ("deep/b.md", "../../javascripts"),
                              ("deep/index.md", "../javascripts")):
            self.assertTrue(docs.with_drawings(drawing, place).endswith(
                f'```\n\n<script src="{source}/mermaid.min.js"></script>\n'), place)
        for text in ("# No drawing\n", "```cpp\nint x;\n```\n", "the word ```mermaid\n"):
            self.assertEqual(docs.with_drawings(text, "a.md"), text)

    def test_the_tree_itself_is_gathered(self):
        done = subprocess.run([sys.executable, str(SCRIPT), "--stage-only", "--output",
                               str(self.root / "site")], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for page in ("index.md", "architecture.md", "CONTRIBUTING.md", "benchmarks/zen4.md"):
            self.assertTrue((self.root / "site" / "pages" / page).exists(), page)
        tour = (self.root / "site" / "pages" / "architecture.md").read_text(encoding="utf-8")
        self.assertIn('<script src="../javascripts/mermaid.min.js"></script>', tour)


if __name__ == "__main__":
    unittest.main()
