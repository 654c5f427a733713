"""The version and the licenses, which every package has from one place.

usage: packages_test.py BUILD
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1))
THIRD_PARTY = ROOT / "THIRD_PARTY"
DECLARATION = re.compile(r"^project\(tilewright VERSION ([0-9.]+)", re.MULTILINE)
VERSION = DECLARATION.search((ROOT / "CMakeLists.txt").read_text())[1]
# Parts of the C library, which no package brings or links statically.
C_LIBRARY = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv))\.so")


def output(*command) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True,
                          text=True).stdout


def loaded(binary: pathlib.Path) -> set[str]:
    """Names of the shared libraries, without their versions."""
    lines = [line.split()[0] for line in output("ldd", binary).splitlines() if line.strip()]
    return {pathlib.Path(name).name.split(".so")[0] for name in lines
            if not C_LIBRARY.match(pathlib.Path(name).name)}


class Version(unittest.TestCase):
    def test_program_library_and_header_have_cmakes(self):
        self.assertRegex(output(BUILD / "tune-cli", "version"), rf"\b{re.escape(VERSION)}\b")
        library = ctypes.CDLL(str(BUILD / "libtilewright.so"))
        library.tw_version.restype = ctypes.c_char_p
        self.assertEqual(library.tw_version().decode(), VERSION)
        header = (BUILD / "generated" / "tilewright" / "version.h").read_text()
        self.assertIn(f'#define TILEWRIGHT_VERSION "{VERSION}"', header)

    def test_cmake_package_and_pkg_config_have_it(self):
        config = (BUILD / "tilewrightConfigVersion.cmake").read_text()
        self.assertIn(f'set(PACKAGE_VERSION "{VERSION}")', config)
        self.assertIn(f"Version: {VERSION}\n", (BUILD / "tilewright.pc").read_text())
        self.assertIn(f'set(CPACK_PACKAGE_VERSION "{VERSION}")',
                      (BUILD / "CPackConfig.cmake").read_text())

    def test_the_changelog_begins_with_it(self):
        first = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d|unreleased)\)$",
                          (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
        self.assertIsNotNone(first, "## VERSION (DATE)")
        self.assertEqual(first[1], VERSION)

    def test_no_other_setting_names_it(self):
        settings = [ROOT / "pyproject.toml", ROOT / "Dockerfile", ROOT / "CMakePresets.json",
                    *(ROOT / "cmake").iterdir(), *(ROOT / "python").rglob("*.py"),
                    *(ROOT / "scripts").iterdir()]
        for path in settings:
            if not path.is_file():
                continue
            for line in path.read_text(encoding="utf-8").splitlines():
                # Examples in comments and messages say "as in" or "e.g."; another project's follows =.
                if (re.search(rf"(?<![\d.=]){re.escape(VERSION)}(?![\d.])", line)
                        and not re.search(r"e\.g\.|as in", line)):
                    self.fail(f"{path}: {line.strip()}")


class ThirdParty(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = (THIRD_PARTY / "README.md").read_text()
        rows = [line.split("|")[1:-1] for line in cls.text.splitlines() if line.startswith("| [")]
        # Library, packages with a copy, texts.
        cls.rows = [(cell[1], cell[2].split(), cell[5]) for cell in rows]

    def packages_of(self, library: str) -> list[str]:
        found = [copies for names, copies, _ in self.rows if f"`{library}`" in names]
        self.assertEqual(len(found), 1, f"rows of {library} in THIRD_PARTY/README.md")
        return found[0]

    def test_every_library_that_is_loaded_has_a_row(self):
        tuner, runtime = loaded(BUILD / "tune-cli"), loaded(BUILD / "libtilewright.so")
        self.assertIn("libxgboost", tuner)
        self.assertIn("libsqlite3", runtime)
        for library in tuner - {"libstdc++", "libgcc_s"}:
            self.assertIn("T", self.packages_of(library), library)
            self.assertIn("A", self.packages_of(library), library)
            self.assertEqual("R" in self.packages_of(library), library in runtime, library)
        for library in tuner | runtime:
            self.packages_of(library)

    def test_every_row_has_a_text_that_is_here(self):
        for names, _, texts in self.rows:
            links = re.findall(r"\]\(([^)]+)\)", texts)
            self.assertTrue(links or "none needed" in texts, names)
            for link in links:
                self.assertTrue((THIRD_PARTY / link).is_file(), link)

    def test_every_text_is_of_a_row(self):
        texts = {path.name for path in THIRD_PARTY.iterdir()} - {"README.md"}
        self.assertEqual({name for name in texts if f"({name})" not in self.text}, set())

    def test_headers_that_are_compiled_in_have_a_row(self):
        """Every library that CMakeLists.txt looks for is named."""
        named = {"fmt": "fmt", "nlohmann_json": "JSON for Modern C++", "spdlog": "spdlog",
                 "SQLite3": "SQLite", "CLI11": "CLI11", "Boost": "Boost.Context",
                 "sodium": "libsodium", "xxhash.h": "xxHash", "xgboost/c_api.h": "XGBoost",
                 "seccomp.h": "libseccomp", "Threads": None}
        lists = (ROOT / "CMakeLists.txt").read_text()
        looked_for = (re.findall(r"find_package\((\w+)", lists) +
                      re.findall(r"find_path\(\w+ (\S+)", lists))
        self.assertEqual(set(looked_for), set(named), "who adds one adds its row")
        for project in filter(None, named.values()):
            self.assertIn(f"| [{project}](", self.text)


if __name__ == "__main__":
    unittest.main()
