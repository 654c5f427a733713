"""scripts/cli_page.py writes the commands below the marker and leaves the text above it."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "cli_page.py"
sys.path.insert(0, str(SCRIPT.parent))
import cli_page  # noqa: E402


def option(*names: str, **more: object) -> dict:
    return {"names": names, "value": "", "description": "Does it", "default": "", "choices": [],
            "required": False, "repeatable": False} | more


def command(name: str, *options: dict, **more: object) -> dict:
    return {"command": name, "description": f"Runs {name}", "examples": "", "arguments": [],
            "options": list(options), "commands": []} | more


JSON = option("--json")
TREE = command("", option("--version"), commands=[
    command("tune", option("-s", "--seed", value="UINT", default="0", description="a|b"), JSON,
            arguments=[option("spec", value="TEXT", required=True)],
            examples="More of it.\n\nExamples:\n  tune-cli tune x\n  tune-cli tune y"),
    command("db", JSON, option("--unused"), commands=[
        command("db info", JSON), command("db prune", JSON, option("--keep", value="INT"))])])


class CliPage(unittest.TestCase):
    def run_on(self, text: str, *arguments: str) -> tuple[int, str, str]:
        with tempfile.TemporaryDirectory() as folder:
            page, program = pathlib.Path(folder, "cli.md"), pathlib.Path(folder, "tune-cli")
            page.write_text(text, encoding="utf-8")
            program.write_text(f"#!/bin/sh\n[ \"$1 $2\" = 'help --json' ] && cat <<'E'\n"
                               f"{json.dumps(TREE)}\nE\n", encoding="utf-8")
            program.chmod(0o755)
            done = subprocess.run([sys.executable, str(SCRIPT), "--page", str(page), "--tune-cli",
                                   str(program), *arguments], capture_output=True, text=True,
                                  check=False)
            return done.returncode, page.read_text(encoding="utf-8"), done.stdout + done.stderr

    def test_the_reference_follows_the_marker(self):
        code, page, output = self.run_on(f"# Mine\n\n{cli_page.MARKER}\nold\n")
        self.assertEqual(code, 0, output)
        self.assertTrue(page.startswith(f"# Mine\n\n{cli_page.MARKER}\n\n## Options of the program"))
        self.assertNotIn("old", page)
        for line in ("| [tune](#tune) | Runs tune |", "### tune", "#### db prune",
                     "`tune-cli tune [options] spec`", "| `spec` | Does it; **required** |",
                     "| `-s`, `--seed UINT` | a\\|b; default `0` |", "| `--keep INT` | Does it |",
                     "More of it.", "```\ntune-cli tune x\ntune-cli tune y\n```"):
            self.assertIn(line, page)

    def test_options_of_several_commands_stand_once(self):
        page = self.run_on(cli_page.MARKER)[1]
        self.assertEqual(page.count("| `--json` |"), 1)
        self.assertIn("## Common options\n\n| option | meaning |\n| --- | --- |\n| `--json`", page)
        self.assertEqual(page.count("[Common options](#common-options): `--json`."), 4)

    def test_a_check_writes_nothing_and_names_the_first_difference(self):
        current = self.run_on(cli_page.MARKER)[1]
        self.assertEqual(self.run_on(current, "--check")[0], 0)
        old = current.replace("Runs tune", "Ran tune")
        code, page, output = self.run_on(old, "--check")
        self.assertEqual((code, page), (1, old))
        self.assertIn("Ran tune", output)

    def test_a_page_without_the_marker_is_refused(self):
        code, page, output = self.run_on("# Mine\n")
        self.assertNotEqual(code, 0)
        self.assertEqual(page, "# Mine\n")
        self.assertIn("lacks the line", output)


if __name__ == "__main__":
    unittest.main()
