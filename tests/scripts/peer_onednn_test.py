"""scripts/peer_onednn keeps a whole installation or none."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "peer_onednn"

# `python3 -m venv FOLDER` makes a pip that lays out what the wheels would.
FAKE_PYTHON = """#!/usr/bin/env bash
mkdir -p "$3/bin" && cat > "$3/bin/pip" <<'PIP'
#!/usr/bin/env bash
venv="$(dirname "$0")/.."
mkdir -p "$venv/include/oneapi/dnnl" "$venv/lib"
echo header > "$venv/include/oneapi/dnnl/dnnl.hpp"
for name in $WHEEL_LIBRARIES; do echo "${name%%.*}" > "$venv/lib/$name"; done
exit "$PIP_CODE"
PIP
chmod +x "$3/bin/pip"
"""
FAKE_PATCHELF = "#!/bin/sh\nexit 0\n"
# Copies headers, fails at libraries: a full disk.
FAILING_CP = '#!/bin/sh\nif [ "$1" = -a ]; then exit 1; fi\nexec /bin/cp "$@"\n'


class PeerOnednn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.prefix = self.folder / "peers"
        self.program("python3", FAKE_PYTHON)
        self.program("patchelf", FAKE_PATCHELF)

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def install(self, *arguments: str, pip_code: int = 0,
                libraries: str = "libdnnl.so.3 libdnnl.so.3.1 libtbb.so.12") -> tuple[int, str]:
        env = dict(os.environ, PATH=f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                   TILEWRIGHT_PEERS_PREFIX=str(self.prefix), PIP_CODE=str(pip_code),
                   WHEEL_LIBRARIES=libraries)
        done = subprocess.run([SCRIPT, *arguments], env=env, capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stderr

    def test_installs_both_and_is_then_quiet(self):
        code, errors = self.install()
        self.assertEqual(code, 0, errors)
        self.assertEqual(sorted(os.listdir(self.prefix)), ["onednn", "onednn_omp"])
        self.assertTrue((self.prefix / "onednn/include/oneapi/dnnl/dnnl.hpp").exists())
        libraries = self.prefix / "onednn/lib"
        self.assertEqual(sorted(os.listdir(libraries)),
                         ["libdnnl.so.3", "libdnnl.so.3.1", "libtbb.so.12"])
        self.assertTrue((libraries / "libdnnl.so.3.1").is_symlink())
        # The two go into one process, so the second has another name.
        self.assertEqual(sorted(os.listdir(self.prefix / "onednn_omp/lib")),
                         ["libdnnl_omp.so.3", "libtbb.so.12"])
        self.assertEqual(self.install(pip_code=1), (0, ""))

    def refuses(self, code: int, errors: str) -> None:
        self.assertEqual(code, 4, errors)
        self.assertIn("onednn could not be installed; nothing of it is kept", errors)
        self.assertEqual(os.listdir(self.prefix), [])

    def test_a_failed_copy_leaves_nothing(self):
        self.program("cp", FAILING_CP)
        self.refuses(*self.install())

    def test_a_failed_download_leaves_nothing(self):
        self.refuses(*self.install(pip_code=1))

    def test_wheels_without_the_library_are_refused(self):
        code, errors = self.install(libraries="libtbb.so.12")
        self.assertIn("the wheels hold no oneapi/dnnl/dnnl.hpp or no libdnnl.so.3", errors)
        self.refuses(code, errors)

    def test_a_failed_update_keeps_what_was_there(self):
        self.install()
        self.program("cp", FAILING_CP)
        code, _ = self.install("--force")
        self.assertEqual(code, 4)
        self.assertTrue((self.prefix / "onednn/lib/libdnnl.so.3").exists())


if __name__ == "__main__":
    unittest.main()
