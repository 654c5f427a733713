"""scripts/peer_models goes on with the peer that there is, and installs nothing twice."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "peer_models"

# `python3 -m venv FOLDER` makes a pip that has the packages in $THERE, and a Python that imports what pip installed.
FAKE_PYTHON = """#!/usr/bin/env bash
mkdir -p "$3/bin" && cat > "$3/bin/pip" <<'PIP'
#!/usr/bin/env bash
package="${!#}"
echo "pip $package" >&2
[[ " $THERE " == *" $package "* ]] || exit 1
touch "${0%/bin/pip}/$package"
PIP
cat > "$3/bin/python" <<'PYTHON'
#!/usr/bin/env bash
[[ $2 =~ find_spec\\(\\'([a-z]+)\\'\\) ]] && [[ -e ${0%/bin/python}/${BASH_REMATCH[1]} ]]
PYTHON
chmod +x "$3/bin/pip" "$3/bin/python"
"""


class PeerModels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        python = self.folder / "bin" / "python3"
        python.parent.mkdir()
        python.write_text(FAKE_PYTHON)
        python.chmod(0o755)

    def install(self, there: str, *arguments: str) -> tuple[int, str]:
        env = dict(os.environ, PATH=f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}", THERE=there,
                   TILEWRIGHT_PEERS_PREFIX=str(self.folder / "peers"))
        done = subprocess.run([SCRIPT, *arguments], env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_all_are_installed_once(self):
        code, said = self.install("onnxruntime openvino xllamacpp")
        self.assertEqual(code, 0, said)
        self.assertTrue((self.folder / "peers/models/openvino").exists())
        self.assertEqual(self.install("onnxruntime openvino xllamacpp"), (0, ""))
        self.assertIn("pip openvino", self.install("onnxruntime openvino xllamacpp", "--force")[1])

    def test_one_is_better_than_none(self):
        code, said = self.install("onnxruntime")
        self.assertEqual(code, 0, said)
        self.assertIn("going on without openvino", said)
        self.assertTrue((self.folder / "peers/models/onnxruntime").exists())
        code, said = self.install("", "--force")
        self.assertEqual(code, 4)
        self.assertIn("nothing could be installed", said)

    def test_large_ones_are_installed_by_name_alone(self):
        there = "onnxruntime openvino xllamacpp iree-base-runtime pnnx"
        self.assertNotIn("iree", self.install(there)[1])
        code, said = self.install(there, "iree", "ncnn", "--force")
        self.assertEqual(code, 0, said)
        self.assertIn("pip iree-base-runtime", said)
        self.assertIn("pip pnnx", said)
        self.assertNotIn("pip openvino", said)
        self.assertTrue((self.folder / "peers/models/openvino").exists())

    def test_the_folder_is_printed(self):
        self.assertEqual(self.install("", "--prefix"), (0, f"{self.folder / 'peers/models'}\n"))
        self.assertEqual(self.install("", "--other")[0], 2)


if __name__ == "__main__":
    unittest.main()
