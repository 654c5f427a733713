"""scripts/peer_ggml keeps a whole installation or none."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "peer_ggml"

# `python3 -m venv FOLDER` makes a pip that downloads an archive of $ARCHIVED.
FAKE_PYTHON = """#!/usr/bin/env bash
mkdir -p "$3/bin" && cat > "$3/bin/pip" <<'PIP'
#!/usr/bin/env bash
[[ $PIP_CODE = 0 ]] || exit "$PIP_CODE"
while [[ $1 != --dest ]]; do shift; done
made="$(mktemp -d)"
mkdir -p "$made/llama_cpp_python-1/$ARCHIVED" && echo text > "$made/llama_cpp_python-1/$ARCHIVED/file"
tar -czf "$2/llama_cpp_python-1.tar.gz" -C "$made" llama_cpp_python-1
rm -rf "$made"
PIP
chmod +x "$3/bin/pip"
"""
# Builds nothing, and installs $BUILT.
FAKE_CMAKE = """#!/usr/bin/env bash
echo "cmake $*"
case "$1" in
  --build) exit "$BUILD_CODE" ;;
  --install)
    tree="$(cat "$2/prefix")"
    mkdir -p "$tree/include" "$tree/lib"
    for name in $BUILT; do echo "$name" > "$tree/$name"; done ;;
  *)
    for argument in "$@"; do
      case "$argument" in -DCMAKE_INSTALL_PREFIX=*) tree="${argument#*=}" ;; esac
      [[ $last = -B ]] && folder="$argument"
      [[ $last = -S && ! -e $argument/CMakeLists.txt ]] && exit 1
      last="$argument"
    done
    mkdir -p "$folder" && echo "$tree" > "$folder/prefix" ;;
esac
"""
WHOLE = "include/ggml-cpu.h lib/libggml-cpu.so"


class PeerGgml(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.prefix = self.folder / "peers"
        for name, text in (("python3", FAKE_PYTHON), ("cmake", FAKE_CMAKE)):
            path = self.folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)

    def install(self, *arguments: str, pip_code: int = 0, build_code: int = 0, built: str = WHOLE,
                archived: str = "vendor/llama.cpp/ggml") -> tuple[int, str]:
        env = dict(os.environ, PATH=f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                   TILEWRIGHT_PEERS_PREFIX=str(self.prefix), PIP_CODE=str(pip_code),
                   BUILD_CODE=str(build_code), BUILT=built, ARCHIVED=archived)
        done = subprocess.run([SCRIPT, *arguments], env=env, capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stderr

    def test_installs_and_is_then_quiet(self):
        code, errors = self.install()
        self.assertEqual(code, 0, errors)
        self.assertEqual(os.listdir(self.prefix), ["ggml"])
        self.assertTrue((self.prefix / "ggml/lib/libggml-cpu.so").exists())
        self.assertEqual(self.install(pip_code=1), (0, ""))

    def refuses(self, code: int, errors: str) -> None:
        self.assertEqual(code, 4, errors)
        self.assertIn("ggml could not be installed; nothing of it is kept", errors)
        self.assertEqual(os.listdir(self.prefix), [])

    def test_a_failed_download_leaves_nothing(self):
        self.refuses(*self.install(pip_code=1))

    def test_a_failed_build_leaves_nothing_and_shows_its_last_lines(self):
        code, errors = self.install(build_code=1)
        self.assertIn("cmake --build", errors)
        self.refuses(code, errors)

    def test_a_package_without_the_sources_is_refused(self):
        code, errors = self.install(archived="vendor/elsewhere")
        self.assertIn("the package holds no vendor/llama.cpp/ggml", errors)
        self.refuses(code, errors)

    def test_a_build_without_the_library_is_refused(self):
        code, errors = self.install(built="include/ggml-cpu.h")
        self.assertIn("the build gave no ggml-cpu.h or no libggml-cpu.so", errors)
        self.refuses(code, errors)

    def test_a_failed_update_keeps_what_was_there(self):
        self.install()
        code, _ = self.install("--force", build_code=1)
        self.assertEqual(code, 4)
        self.assertTrue((self.prefix / "ggml/include/ggml-cpu.h").exists())


if __name__ == "__main__":
    unittest.main()
