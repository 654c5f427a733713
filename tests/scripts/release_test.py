"""scripts/release refuses a tree that is no release, and tags one that is."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHANGELOG = """# Changelog

## 1.2.3 (2026-01-31)

- A line of this version.

## 1.2.2 (2026-01-01)

- An older line.
"""
# Stands for the script that builds for minutes.
PACKAGES = """#!/bin/sh
echo "built: $*"
for out; do :; done
mkdir -p "$out" && touch "$out/tilewright-1.2.3.tar.gz"
"""


class Release(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.out = pathlib.Path(temporary.name, "dist")
        self.tree = pathlib.Path(temporary.name, "tree")
        (self.tree / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "release", self.tree / "scripts" / "release")
        (self.tree / "scripts" / "packages").write_text(PACKAGES)
        (self.tree / "scripts" / "packages").chmod(0o755)
        (self.tree / "CMakeLists.txt").write_text("project(tilewright VERSION 1.2.3 LANGUAGES C)\n")
        (self.tree / "CHANGELOG.md").write_text(CHANGELOG)
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments: str) -> str:
        return subprocess.run(["git", "-C", self.tree, *arguments], check=True, capture_output=True,
                              text=True, env=self.environment()).stdout

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "a state")

    @staticmethod
    def environment(**more: str) -> dict:
        names = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER")
                 for part, value in (("NAME", "somebody"), ("EMAIL", "somebody@example.org"))}
        return os.environ | names | {"GIT_CONFIG_GLOBAL": "/dev/null"} | more

    def release(self, *arguments: str, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run([self.tree / "scripts" / "release", "--output", self.out, *arguments],
                              capture_output=True, text=True, check=False,
                              env=self.environment(**more))

    def refuses(self, pattern: str, *arguments: str, code: int = 1, **more: str):
        done = self.release(*arguments, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertRegex(done.stderr, pattern)
        self.assertNotIn("built:", done.stdout)
        self.assertFalse(self.out.exists())

    def test_a_release_is_built_and_tagged_with_its_section(self):
        done = self.release("1.2.3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"built: {self.out}", done.stdout)
        self.assertIn("git push origin v1.2.3", done.stdout)
        self.assertEqual(self.git("rev-parse", "v1.2.3^{commit}"), self.git("rev-parse", "HEAD"))
        message = self.git("for-each-ref", "--format=%(contents)", "refs/tags/v1.2.3")
        self.assertTrue(message.startswith("Tilewright 1.2.3\n\n"), message)
        self.assertIn("- A line of this version.", message)
        self.assertNotIn("older", message)

    def test_a_dry_run_builds_and_tags_nothing(self):
        done = self.release("--dry-run", "1.2.3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.out / "tilewright-1.2.3.tar.gz").exists())
        self.assertEqual(self.git("tag"), "")

    def test_a_check_builds_nothing(self):
        done = self.release("--check", "1.2.3")
        self.assertEqual((done.returncode, self.out.exists(), self.git("tag")), (0, False, ""))

    def test_pythons_are_handed_on(self):
        done = self.release("--dry-run", "--python", "python3.11", "--python", "python3.12", "1.2.3")
        self.assertIn(f"built: --python python3.11 --python python3.12 {self.out}", done.stdout)

    def test_a_changed_tree_is_refused(self):
        (self.tree / "notes").write_text("x")
        self.refuses(r"the tree has changes.*\n\?\? notes", "1.2.3")

    def test_another_version_than_cmakes_is_refused(self):
        self.refuses(r"CMakeLists.txt has version 1\.2\.3", "1.2.4")

    def test_a_version_that_the_changelog_lacks_is_refused(self):
        for heading in ("## 1.2.3 (unreleased)", "## 1.2.30 (2026-01-31)", "## 1x2.3 (2026-01-31)"):
            (self.tree / "CHANGELOG.md").write_text(
                CHANGELOG.replace("## 1.2.3 (2026-01-31)", heading))
            self.commit()
            self.refuses(r"CHANGELOG.md has no section '## 1\.2\.3 \(\d{4}-", "1.2.3")

    def test_an_empty_section_is_refused(self):
        (self.tree / "CHANGELOG.md").write_text(
            CHANGELOG.replace("- A line of this version.\n", ""))
        self.commit()
        self.refuses("section of 1.2.3 in CHANGELOG.md is empty", "1.2.3")

    def test_a_tag_that_exists_is_refused(self):
        self.git("tag", "v1.2.3")
        self.refuses("the tag v1.2.3 exists", "1.2.3")

    def test_without_a_name_to_tag_with_it_is_refused(self):
        self.refuses("git has no name", "1.2.3", GIT_COMMITTER_NAME="", GIT_COMMITTER_EMAIL="")

    def test_versions_are_three_numbers(self):
        for version in ("1.2", "v1.2.3", "1.2.3rc1", ""):
            self.refuses("expected three numbers", version, code=2)


if __name__ == "__main__":
    unittest.main()
