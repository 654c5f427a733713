"""scripts/cuda_tools puts the files that are needed into a folder of this user, or fails."""
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "cuda_tools"

# `python3 -m venv FOLDER` makes a pip that writes the wheels; other modules are Python's own.
FAKE_PYTHON = """#!/usr/bin/env bash
[[ $2 == venv ]] || exec {python} "$@"
mkdir -p "$3/bin" && cat > "$3/bin/pip" <<'PIP'
#!/usr/bin/env bash
while [[ $1 != --dest ]]; do shift; done
{python} - "$2" <<'END'
import os, pathlib, sys, zipfile
pathlib.Path(sys.argv[1]).mkdir()
with zipfile.ZipFile(sys.argv[1] + "/all.whl", "w") as wheel:
    for name in os.environ["WHEEL_FILES"].split():
        wheel.writestr("nvidia/cu13/" + name, name)
END
exit "$PIP_CODE"
PIP
chmod +x "$3/bin/pip"
"""
WHEEL = ("include/nvrtc.h lib/libnvrtc.so.13 lib/libnvrtc.alt.so.13 lib/libnvrtc-builtins.so.13.0 "
         "bin/nvdisasm")


class CudaTools(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.prefix = self.folder / "cache" / "tilewright" / "cuda"
        python = self.folder / "bin" / "python3"
        python.parent.mkdir()
        python.write_text(FAKE_PYTHON.format(python=sys.executable))
        python.chmod(0o755)

    def tools(self, *arguments: str, pip_code: int = 0, files: str = WHEEL) -> tuple[int, str]:
        env = dict(os.environ, PATH=f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                   XDG_CACHE_HOME=str(self.folder / "cache"), PIP_CODE=str(pip_code),
                   WHEEL_FILES=files)
        done = subprocess.run([SCRIPT, *arguments], env=env, capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout + done.stderr

    def installed(self) -> list[str]:
        return sorted(str(f.relative_to(self.prefix)) for f in self.prefix.rglob("*")
                      if f.is_file())

    def test_installs_what_is_needed_and_is_then_quiet(self):
        code, said = self.tools("--force")
        self.assertEqual(code, 0, said)
        self.assertEqual(self.installed(), ["bin/nvdisasm", "lib/libnvrtc-builtins.so.13.0",
                                            "lib/libnvrtc.so.13"])
        self.assertTrue(os.access(self.prefix / "bin" / "nvdisasm", os.X_OK))
        for folder in (self.prefix, self.prefix / "lib"):
            self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        self.assertEqual(self.tools(pip_code=1), (0, ""))
        self.assertEqual(self.tools("--check"), (0, ""))

    def test_a_failed_download_leaves_nothing(self):
        code, said = self.tools("--force", pip_code=1)
        self.assertEqual(code, 4, said)
        self.assertIn("cannot download nvidia-cuda-nvrtc==", said)
        self.assertEqual(self.installed(), [])

    def test_wheels_without_the_library_are_refused(self):
        code, said = self.tools("--force", files="bin/nvdisasm lib/libnvrtc-builtins.so.13.0")
        self.assertEqual(code, 4, said)
        self.assertIn("the wheels hold no lib/libnvrtc.so.*", said)

    def test_prefix_is_where_the_runtime_looks(self):
        self.assertEqual(self.tools("--prefix"), (0, f"{self.prefix}\n"))


if __name__ == "__main__":
    unittest.main()
