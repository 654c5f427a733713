"""The worker of docs/containers.md where a container's image has next to nothing: no compiler, no tune-cli, no
home, no folder for temporary files, and a database that nobody may write."""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tilewright
from support import main

WORKER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "container_worker.py"
SPEC, OTHER = "matmul:m=4,n=32,k=16", "matmul:m=4,n=48,k=16"


class Container(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        tilewright.tune(SPEC, db=cls.folder / "kernels.db", trials=2, threads=1, progress=None)
        cls.image = cls.folder / "image"
        cls.image.mkdir()
        cls.file = cls.image / "serve.db"
        subprocess.run([os.environ["TILEWRIGHT_TUNE_CLI"], "db", "export", "--db", cls.folder / "kernels.db",
                        "--serve", cls.file], check=True, capture_output=True)
        cls.image.chmod(0o555)
        cls.addClassCleanup(cls.image.chmod, 0o755)

    def start(self, *specs, database=None):
        environment = {"PATH": "/nowhere", "HOME": "/nowhere", "TMPDIR": "/nowhere",
                       "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.environ["PYTHONPATH"]}
        return subprocess.Popen([sys.executable, WORKER, database or self.file, *specs], env=environment,
                                cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_several_workers_at_once(self):
        before = hashlib.sha256(self.file.read_bytes()).hexdigest()
        workers = [self.start(SPEC) for _ in range(4)]
        for worker in workers:
            out, errors = worker.communicate()
            self.assertEqual(worker.returncode, 0, errors)
            self.assertRegex(out, rf"^{SPEC}: hit, largest difference (0e\+00|\de-\d+)\n$")
            self.assertEqual(errors, "")
        self.assertEqual(sorted(path.name for path in self.image.iterdir()), ["serve.db"])
        self.assertEqual(hashlib.sha256(self.file.read_bytes()).hexdigest(), before)
        self.assertEqual(self.file.stat().st_mode & 0o222, 0)

    def test_a_miss_is_one_line_with_the_command(self):
        worker = self.start(SPEC, OTHER)
        out, errors = worker.communicate()
        self.assertEqual(worker.returncode, 0, errors)
        self.assertIn(f"{SPEC}: hit", out)
        self.assertIn(f"{OTHER}: miss", out)
        self.assertEqual(errors, f"tilewright: {OTHER}: miss: never tuned: the database has no record of it; this would "
                         f"tune it: tune-cli tune {OTHER} --db DATABASE --threads 1\n")

    def test_a_volume_that_others_may_write_is_not_run(self):
        open_file = self.folder / "open.db"
        open_file.write_bytes(self.file.read_bytes())
        open_file.chmod(0o666)
        out, errors = self.start(SPEC, database=open_file).communicate()
        self.assertIn(f"{SPEC}: miss", out)
        self.assertRegex(errors, r"open\.db")


if __name__ == "__main__":
    main()
