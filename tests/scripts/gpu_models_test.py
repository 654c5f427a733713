"""scripts/compare_gpu_models.py and scripts/gpu_checks/plan_table.py: ranks, configs in NVIDIA's words, kinds
of kernels by their machine code, and how they end."""
import contextlib
import io
import json
import math
import pathlib
import sqlite3
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import compare_gpu_models as models  # noqa: E402
from gpu_checks import plan_table as plan  # noqa: E402


class Ranks(unittest.TestCase):
    def test_equal_values_share_a_rank(self):
        self.assertEqual(models.ranks([3.0, 1.0, 3.0, 2.0]), [2.5, 0, 2.5, 1])

    def test_correlation_is_of_the_order_alone(self):
        self.assertAlmostEqual(models.spearman([1, 2, 3, 4], [1, 10, 100, 1000]), 1)
        self.assertAlmostEqual(models.spearman([1, 2, 3, 4], [4, 3, 2, 1]), -1)
        self.assertTrue(math.isnan(models.spearman([1, 2], [5, 5])))

    def test_a_comparison_tells_shapes_from_tiles(self):
        # The models agree on which shape is slower, and on no tile.
        pairs = {"small": [(1, 3), (2, 2), (3, 1)], "large": [(100, 300), (200, 200), (300, 100)]}
        found = models.compare(pairs)
        self.assertEqual((found["shapes"], found["pairs"]), (2, 6))
        self.assertGreater(found["all"], 0.5)
        self.assertAlmostEqual(found["within_shapes"], -1)
        self.assertLess(found["relative"], -0.8)
        self.assertAlmostEqual(found["our_choice_by_theirs"], 3)
        self.assertAlmostEqual(found["their_choice_by_ours"], 3)


class Configuration:
    def __init__(self):
        self.cta, self.warp, self.instr, self.cluster = [0] * 3, [0] * 3, [0] * 3, [0] * 2


def peer(is_hopper: bool) -> models.Peer:
    made = models.Peer.__new__(models.Peer)
    made.is_hopper = is_hopper
    made.nv = types.SimpleNamespace(
        NvMatmulHeuristicsInterface=types.SimpleNamespace(nvmmhKernelConfiguration=Configuration))
    return made


class Configs(unittest.TestCase):
    def test_a_config_in_their_words(self):
        theirs = peer(True).config({"C_acc.mma": "wgmma_f32_bf16", "C_acc.tile": "128x256x64/64x256",
                                    "C_acc.stages": 3, "C_acc.cluster": "2x1"})
        self.assertEqual((theirs.cta, theirs.cluster), ([128, 256, 64], [2, 1]))
        self.assertEqual((theirs.warp, theirs.instr), ([64, 64, 64], [64, 8, 16]))
        self.assertEqual((theirs.loadStages, theirs.splitK), (3, 1))

    def test_parts_of_k(self):
        theirs = peer(False).config({"C_acc.vk.parts": 4, "C_acc_rf.mma": "m16n8k16_f32_bf16",
                                     "C_acc_rf.tile": "64x64x32/32x16", "C_acc_rf.stages": 5})
        self.assertEqual((theirs.splitK, theirs.loadStages), (4, 5))
        self.assertEqual((theirs.warp, theirs.instr), ([32, 16, 32], [16, 8, 16]))

    def test_what_theirs_has_no_words_for(self):
        tile = {"C.tile": "128x128x64/64x128", "C.mma": "wgmma_f32_bf16"}
        self.assertIsNone(peer(False).config(tile), "its instruction is of another library")
        self.assertIsNone(peer(True).config({**tile, "C.mma": "none"}))
        self.assertIsNone(peer(True).config({**tile, "C.tile": "16x128/16"}))


class Kinds(unittest.TestCase):
    def test_the_least_usual_instruction_tells(self):
        for counts, kind in (({"HGMMA": 4, "UTMALDG.MULTICAST": 2, "UCGABAR": 2}, "clusters"),
                             ({"HGMMA": 4, "UTMALDG": 2, "UCGABAR": 0}, "wgmma"), ({"IGMMA": 4}, "wgmma"),
                             ({"HGMMA.SP": 4}, "wgmma"), ({"HMMA.SP": 4, "LDGSTS": 2}, "mma"),
                             ({"LDGSTS": 2}, "threads")):
            self.assertEqual(plan.kind_of(counts), kind)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        self.spec = {"op": "matmul", "m": 1, "n": 2, "k": 3, "dtype": "f16", "out": "f16"}
        self.file = self.here / "few.json"
        self.file.write_text(json.dumps({"workloads": [self.spec]}))
        self.tool = self.here / "tune-cli"
        self.tool.write_text("#!/bin/sh\necho '{\"results\": [{\"workload\": \"w\", \"roofline\": "
                             "{\"seconds\": 1e-6}}]}'\n")
        self.tool.chmod(0o755)

    def run_table(self, *kernels: tuple[float, list[dict]]) -> tuple[int, str]:
        database = self.here / "plan.db"
        database.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(database)) as db, db:
            db.execute("CREATE TABLE records (workload_hash, median_seconds, artifact_hash, offline, "
                       "verdict)")
            db.execute("CREATE TABLE artifacts (hash, description)")
            for place, (seconds, counts) in enumerate(kernels):
                facts = [{"instructions": of_kernel} for of_kernel in counts]
                db.execute("INSERT INTO records VALUES ('w', ?, ?, 1, 'valid')", (seconds, str(place)))
                db.execute("INSERT INTO artifacts VALUES (?, ?)",
                           (str(place), json.dumps({"facts": facts})))
        out = io.StringIO()
        argv, sys.argv = sys.argv, ["gpu_plan_table", str(database), "--tool", str(self.tool),
                                    "--workloads", str(self.file)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = plan.main()
        sys.argv = argv
        return code, out.getvalue()

    def test_a_row_has_the_best_kernel_and_all_kinds(self):
        code, out = self.run_table((4e-6, [{"HMMA": 1}]), (2e-6, [{"FADD": 1}, {"HGMMA": 2}]))
        self.assertEqual(code, 0)
        self.assertIn("| 1 x 2 x 3 | f16 |  | 2.0 us | 50% | wgmma, mma |", out)

    def test_one_kind_is_too_few(self):
        self.assertEqual(self.run_table((2e-6, [{"HMMA": 1}]), (3e-6, [{"HMMA": 2}]))[0], 1)
        self.assertEqual(self.run_table()[0], 1)
        self.assertEqual(self.run_table((2e-6, [{"FFMA": 1}]))[0], 0, "the plainest needs no other")

    def test_spills_are_bad(self):
        code, out = self.run_table((2e-6, [{"HMMA": 1, "LDL": 1}]), (3e-6, [{"HGMMA": 2}]))
        self.assertEqual(code, 1)
        self.assertIn("spills", out)


if __name__ == "__main__":
    unittest.main()
