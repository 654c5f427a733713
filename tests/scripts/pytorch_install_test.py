"""Stubs of scripts/pytorch/install.py: a library that needs NVIDIA's loads and gets errors from them."""
import ctypes
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from pytorch import install


@unittest.skipUnless(shutil.which("cc") and shutil.which("readelf"), "no cc or readelf")
class Stubs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.libraries = self.folder / "torch" / "lib"
        self.libraries.mkdir(parents=True)

    def build(self, name: str, text: str, *arguments: str) -> pathlib.Path:
        path = self.libraries / name
        source = self.folder / "source.c"
        source.write_text(text)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source, f"-Wl,-soname,{name}", *arguments],
                       check=True)
        return path

    def test_versions_addresses_and_texts(self):
        script = self.folder / "map"
        script.write_text("libcudart.so.99 { global: *; };")
        real = self.build("libcudart.so.99", 'int cudaGet(void) { return 7; }\n'
                          'const char* cudaGetErrorString(int e) { return "real"; }',
                          f"-Wl,--version-script={script}")
        plain = self.build("libcusparseLt.so.9", "int cusparseLtGet(void) { return 7; }")
        user = self.build("libtorch_user.so", """
            int cudaGet(void); int cusparseLtGet(void); const char* cudaGetErrorString(int);
            int (*address)(void) = cudaGet;
            int get(void) { return address() + cusparseLtGet(); }
            const char* text(void) { return cudaGetErrorString(1); }""", str(real), str(plain),
                          "-Wl,-rpath,$ORIGIN")
        real.unlink()
        plain.unlink()
        for _ in range(2):  # a second call makes them again
            self.assertEqual(install.add_stubs(self.folder), 2)
        loaded = ctypes.CDLL(str(user))
        self.assertEqual(loaded.get(), 2 * install.NO_DEVICE)
        loaded.text.restype = ctypes.c_char_p
        self.assertEqual(loaded.text(), b"no device")

    def test_nothing_is_missing(self):
        self.build("libtorch_user.so", "int get(void) { return 1; }")
        self.assertEqual(install.add_stubs(self.folder), 0)


if __name__ == "__main__":
    unittest.main()
