"""What tune-cli prints with --json is what the schemas in docs/schemas/ say.

usage: json_schemas_test.py TUNE_CLI
Exits 77 where the module jsonschema is missing."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    print("skipped: no Python module jsonschema; scripts/deps installs it")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
TUNE_CLI = ""
SPEC = "matmul:m=32,n=48,k=32"
RANGE = "softmax:m=1..8,n=64"


def inlined(node: object, common: dict) -> object:
    """References to common.json replaced by what stands there."""
    if isinstance(node, list):
        return [inlined(item, common) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return inlined(common["$defs"][node["$ref"].rpartition("/")[2]], common)
    return {key: inlined(value, common) for key, value in node.items()}


def schema(name: str) -> dict:
    common = json.loads((SCHEMAS / "common.json").read_text(encoding="utf-8"))
    if name == "error":
        return inlined(common["$defs"]["error"], common)
    return inlined(json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8")), common)


def faults(document: object, name: str) -> list[str]:
    validator = jsonschema.Draft202012Validator(schema(name))
    return [f"{'/'.join(map(str, fault.path))}: {fault.message}"
            for fault in validator.iter_errors(document)]


def field(number: int, value: bytes | int) -> bytes:
    """A field of a protocol buffer: a varint below 128, or bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def onnx_model() -> bytes:
    """y = A B, then a node of an unknown operator."""
    def value(name: bytes, *shape: int) -> bytes:
        dims = b"".join(field(1, field(1, size)) for size in shape)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))

    product = field(1, b"A") + field(1, b"B") + field(2, b"y") + field(4, b"MatMul")
    mystery = field(1, b"y") + field(2, b"z") + field(4, b"Mystery")
    graph = (field(1, product) + field(1, mystery) + field(2, b"g") + field(11, value(b"A", 4, 16))
             + field(11, value(b"B", 16, 8)) + field(12, value(b"z", 4, 8)))
    return field(1, 8) + bytes([7 << 3 | 2, len(graph)]) + graph + field(8, field(2, 13))


class Schemas(unittest.TestCase):
    folder: tempfile.TemporaryDirectory
    documents: dict[str, list] = {}

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.at = pathlib.Path(cls.folder.name)
        # One database for all cases: two workloads, the second with a dispatch table.
        cls.tuned = cls.document("tune", SPEC, RANGE, "--trials", "3", "--threads", "1")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    @classmethod
    def document(cls, *arguments: str, code: int = 0) -> dict:
        """The one document that the command prints."""
        environment = os.environ | {"TILEWRIGHT_DB": str(cls.at / "k.db"),
                                    "TILEWRIGHT_CONFIG": "off"}
        done = subprocess.run([TUNE_CLI, *arguments, "--json"], capture_output=True, text=True,
                              check=False, cwd=cls.at, env=environment, stdin=subprocess.DEVNULL)
        if done.returncode != code:
            raise AssertionError(f"{arguments}: exit code {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def valid(self, name: str, document: dict) -> dict:
        self.assertEqual(faults(document, name), [], name)
        return document

    def test_every_schema_is_one_and_describes_each_field(self):
        def check(node: object, path: str) -> None:
            if isinstance(node, dict):
                for name, field in node.get("properties", {}).items():
                    self.assertTrue(field.get("description"), f"{path}: {name}")
                for key, value in node.items():
                    check(value, f"{path}/{key}")
        for file in SCHEMAS.glob("*.json"):
            if file.stem != "common":
                jsonschema.Draft202012Validator.check_schema(schema(file.stem))
                check(schema(file.stem), file.stem)

    def test_a_schema_refuses_what_is_not_so(self):
        def refused(change) -> None:
            document = copy.deepcopy(self.tuned)
            change(document["results"][0])
            self.assertNotEqual(faults(document, "tune"), [])
        refused(lambda row: row.pop("spec"))
        refused(lambda row: row.update(trials="3"))
        refused(lambda row: row.update(new_field=1))
        refused(lambda row: row["invalid"].pop("wrong"))
        refused(lambda row: row["best"].update(seconds=-1))

    def test_tune(self):
        self.valid("tune", self.tuned)
        self.assertEqual(self.tuned["results"][0]["dispatch"], None)
        self.assertIn("ranges", self.tuned["results"][1]["dispatch"])
        self.valid("tune-plan", self.document("tune", SPEC, "--dry-run"))
        offline = self.valid("tune", self.document(
            "tune", "matmul:m=64,n=64,k=64,dtype=f16", "--target", "cuda:sm_80", "--offline",
            "--trials", "2", "--db", "gpu.db"))
        self.assertTrue(offline["results"][0]["predicted"])
        self.valid("best", self.document("best", "--target", "cuda:sm_80", "--db", "gpu.db"))
        self.valid("explain", self.document("explain", offline["results"][0]["spec"], "--target",
                                            "cuda:sm_80", "--db", "gpu.db"))

    def test_best_and_explain(self):
        best = self.valid("best", self.document("best", "--threads", "1"))
        self.assertEqual(len(best["results"]), 2)
        self.valid("best", self.document("best", "softmax:m=3,n=5"))
        explained = self.valid("explain", self.document("explain", SPEC, RANGE, "--threads", "1"))
        self.assertIn("sizes", explained["results"][1])

    def test_replay_and_bench(self):
        replayed = self.valid("replay", self.document("replay", SPEC, RANGE, "--threads", "1"))
        self.assertTrue(replayed["results"][0]["checked"])
        self.valid("replay", self.document("replay", "softmax:m=3,n=5"))
        self.valid("bench", self.document("bench", SPEC, RANGE, "--threads", "1", "--rounds", "1"))
        self.valid("bench", self.document("bench", "softmax:m=3,n=5", "--rounds", "1"))

    def test_run_show_and_export(self):
        for name, shape in (("A", (32, 32)), ("B", (32, 48))):
            self.write_npy(name, shape)
        ran = self.valid("run", self.document("run", SPEC, "--in", "A=A.npy", "--in", "B=B.npy",
                                              "--out", "C=C.npy", "--threads", "1"))
        self.assertTrue(ran["checked"])
        sections = ["expr", "config", "trace", "program", "source", "asm"]
        shown = self.valid("show", self.document("show", SPEC, "--threads", "1",
                                                 *(f"--{section}" for section in sections)))
        self.assertEqual(sorted(shown["results"][0]), sorted(["spec", *sections]))
        self.valid("export", self.document("export", SPEC, "-o", "out", "--default"))
        self.valid("export", self.document("export", SPEC, "-o", "out", "--default", "--shared"))

    def test_report_and_lists(self):
        self.valid("report", self.document("report", "-o", "report.html"))
        self.assertGreater(len(self.valid("ops", self.document("ops"))["ops"]), 10)
        self.valid("targets", self.document("targets"))
        for command in ([], ["tune"], ["db", "merge"]):
            self.valid("help", self.document("help", *command))
        self.valid("version", self.document("version"))

    def test_models(self):
        (self.at / "m.onnx").write_bytes(onnx_model())
        extracted = self.valid("extract", self.document("extract", "m.onnx", "--nodes"))
        self.assertEqual(extracted["results"][0]["spec"], "matmul:m=4,n=8,k=16")
        self.assertEqual(extracted["left_out"][0]["op"], "Mystery")
        self.write_safetensors("m.safetensors")
        self.valid("weights", self.document("weights", "m.safetensors"))

    def test_db(self):
        self.valid("db-info", self.document("db", "info"))
        self.valid("db-check", self.document("db", "check"))
        self.valid("db-export", self.document("db", "export", "k.jsonl"))
        self.valid("db-import", self.document("db", "import", "k.jsonl", "--db", "imported.db"))
        self.valid("db-merge", self.document("db", "merge", "k.db", "--db", "merged.db"))
        self.valid("db-export-serve", self.document("db", "export", "--serve", "serve.db"))
        self.valid("db-keygen", self.document("db", "keygen", "builder.key"))
        self.valid("db-sign", self.document("db", "sign", "--key", "builder.key"))
        self.valid("db-train", self.document("db", "train"))
        self.valid("db-prune", self.document("db", "prune", "--dry-run"))

    def test_failures(self):
        self.valid("error", self.document("show", "matmul:m=1", "--default", code=2))
        self.valid("error", self.document("best", "--db", "none.db", code=5))
        self.valid("error", self.document("show", "softmax:m=3,n=5", "--program", code=7))

    def write_npy(self, name: str, shape: tuple[int, int]) -> None:
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
        header += " " * (-(len(header) + 11) % 64) + "\n"
        (self.at / f"{name}.npy").write_bytes(
            b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
            + b"\0" * (4 * shape[0] * shape[1]))

    def write_safetensors(self, name: str) -> None:
        header = json.dumps({"x": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}})
        (self.at / name).write_bytes(len(header).to_bytes(8, "little") + header.encode() + b"\0" * 16)


if __name__ == "__main__":
    TUNE_CLI = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
