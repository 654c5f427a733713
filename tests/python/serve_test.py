"""Kernels out of a database on NumPy's arrays: what is found, packed, launched and told."""
import array
import logging
import os
import subprocess
import sys
import threading
import time
import unittest
import warnings

import numpy as np

import tilewright
from support import DYNAMIC, OTHER, PLAIN, Kernels, aligned, main, numbers
from tilewright import _arrays


class Finding(Kernels):
    def test_the_report_says_how_each_spec_is_served(self):
        near = "matmul:m=2..8,n=8,k=16"
        miss = "matmul:m=3,n=3,k=3"
        hit, second, third = self.library.prepare([PLAIN, near, miss], threads=1).report
        self.assertEqual((hit.spec, hit.outcome, hit.reason, hit.command), (PLAIN, "hit", "", ""))
        self.assertEqual((hit.kernel, hit.sketch, hit.threads), (PLAIN, "by_hand", 1))
        self.assertAlmostEqual(hit.seconds, 1e-6)
        self.assertEqual((second.outcome, second.sizes, second.kernel), ("near", "m=2..8", DYNAMIC))
        self.assertEqual((third.outcome, third.kernel), ("miss", ""))
        self.assertIn(f"tune-cli tune {miss}", third.command)
        self.assertEqual(len(self.lines), 2, "what is no hit is logged once")
        self.assertIn(miss, self.lines[1])

    def test_the_log_goes_to_logging_by_default(self):
        with self.assertLogs("tilewright", logging.WARNING) as caught:
            tilewright.Library(str(self.database)).prepare("matmul:m=3,n=3,k=3")
        self.assertIn("tune-cli tune matmul:m=3,n=3,k=3", caught.output[0])

    def test_a_log_that_raises_spoils_nothing(self):
        unraisable = []
        before, sys.unraisablehook = sys.unraisablehook, unraisable.append
        try:
            library = tilewright.Library(self.database, log=lambda line: 1 / 0)
            report = library.prepare("matmul:m=3,n=3,k=3").report
        finally:
            sys.unraisablehook = before
        self.assertEqual(report[0].outcome, "miss")
        self.assertIs(unraisable[0].exc_type, ZeroDivisionError)

    def test_specs_are_text_or_dicts(self):
        spec = {"op": "matmul", "m": 4, "n": 8, "k": 16}
        prepared = self.library.prepare([spec])
        self.assertEqual(prepared.report[0].outcome, "hit")
        self.assertEqual(prepared.find(spec).operands, self.kernel(PLAIN).operands)

    def test_types_of_a_dict_may_be_numpys(self):
        spec = {"op": "matmul", "m": np.int64(4), "n": 8, "k": 16, "dtype": np.float32,
                "out": np.dtype("float32")}
        prepared = self.library.prepare(spec)
        self.assertEqual(prepared.report[0].outcome, "hit")
        self.assertEqual(prepared[spec].identity, "")
        self.refuses(tilewright.SpecError, "object at .* is no element type", self.library.prepare,
                     {"op": "matmul", "dtype": object()})

    def test_notebooks_show_tables(self):
        miss = "matmul:m=3,n=3,k=3,name=<b>"
        prepared = self.library.prepare([PLAIN, miss])
        html = prepared._repr_html_()
        self.assertEqual(html.count("<tr>"), 3)
        self.assertIn("<td style='text-align:left'>hit</td>", html)
        self.assertIn("name=&lt;b&gt;", html)
        self.assertIn("1 us", html)
        html = self.kernel()._repr_html_()
        self.assertIn("[&#x27;?&#x27;, 16]", html)
        self.assertIn(f"Kernel {DYNAMIC}", html)

    def test_sizes_are_looked_for_one_by_one(self):
        spec = "matmul:m=1..4096,n=8,k=16"
        report = self.library.prepare(spec, sizes={"m": [8, 70]}).report
        self.assertEqual([(line.sizes, line.outcome) for line in report],
                         [("m=1..64", "near"), ("m=70", "miss")])

    def test_a_kernel_needs_neither_the_library_nor_the_file(self):
        with self.library as library:
            kernel = library.prepare(PLAIN)[PLAIN]
        self.assertTrue(library.closed)
        a, b = numbers(4, 16), numbers(16, 8)
        np.testing.assert_array_equal(kernel(a, b), a @ b + 7)

    def test_operands_and_dims_are_told(self):
        kernel = self.kernel()
        a, b, c = kernel.operands
        self.assertEqual((a.name, a.role, a.dtype, a.shape, a.packed),
                         ("A", "input", "f32", (None, 16), "no"))
        self.assertEqual((b.name, b.role, b.shape, b.packed), ("B", "weight", (16, 8), "yes"))
        self.assertEqual((c.name, c.role, c.shape, c.alignment), ("C", "output", (None, 8), 64))
        self.assertEqual(kernel.dims, (tilewright.Dim("m", 1, 64, "A", 0),))
        self.assertEqual([extent.at([3]) for extent in c.extents], [3, 8])
        self.assertEqual((kernel.workspace_bytes(), kernel.workspace_bytes(3)), (64, 192))
        self.assertEqual(repr(kernel), f"<tilewright.Kernel {DYNAMIC}>")
        self.assertEqual(self.kernel(PLAIN).identity, "")


class Launching(Kernels):
    def setUp(self):
        super().setUp()
        self.b = numbers(16, 8, seed=1)

    def test_the_batch_is_read_off_the_arrays(self):
        kernel = self.kernel()
        weights = kernel.pack({"B": self.b})
        self.assertEqual((weights.bytes, weights.identity), (16 * 8 * 4, kernel.identity))
        self.b[...] = self.b  # not needed any more
        for m in (1, 17, 64):
            a, c = numbers(m, 16, seed=m), tilewright.empty((m, 8))
            self.assertIsNone(kernel.launch([a, None, c], weights=weights))
            np.testing.assert_array_equal(c, a @ self.b)
            self.assertIs(kernel(a, weights=weights, out=c), c)
            made = kernel(a, weights=weights)
            np.testing.assert_array_equal(made, c)
            self.assertEqual((made.dtype, made.ctypes.data % 64), (np.float32, 0))

    def test_packed_weights_do_not_follow_their_array(self):
        kernel = self.kernel()
        b = self.b.copy()
        weights = kernel.pack({"B": self.b})
        self.b[...] = 0
        a = numbers(5, 16)
        np.testing.assert_array_equal(kernel(a, weights=weights), a @ b)

    def test_weights_keep_what_the_kernel_reads_as_it_is(self):
        kernel = self.kernel(PLAIN)
        weights = kernel.pack({"B": self.b})
        self.assertEqual((weights.plain, weights.bytes), (("B",), 0))
        a, c = numbers(4, 16), tilewright.empty((4, 8))
        kernel.launch({"A": a, "C": c}, weights=weights)
        np.testing.assert_array_equal(c, a @ self.b + 7)
        np.testing.assert_array_equal(kernel(a, weights=weights), c)
        other = numbers(16, 8, seed=9)  # what is given goes first
        kernel.launch({"A": a, "B": other, "C": c}, weights=weights)
        np.testing.assert_array_equal(c, a @ other + 7)

    def test_threads_and_workspace(self):
        kernel = self.kernel()
        weights = kernel.pack({"B": self.b})
        a = numbers(33, 16)
        with tilewright.Pool(3) as pool:
            processors = len(os.sched_getaffinity(0))
            self.assertIn(pool.threads, range(1, min(3, processors) + 1), "a quota may be less")
            weights = kernel.pack({"B": self.b}, pool=pool)
            np.testing.assert_array_equal(kernel(a, weights=weights, pool=pool), a @ self.b)
            workspace = tilewright.empty(kernel.workspace_bytes(3), "u8")
            workspace[...] = 0
            c = kernel(a, weights=weights, pool=pool, workspace=workspace)
        np.testing.assert_array_equal(c, a @ self.b)
        self.assertTrue(workspace.any(), "the kernel writes to it")

    def test_a_pool_starts_no_more_threads_than_the_cpuset_has(self):
        cpu = min(os.sched_getaffinity(0))
        program = (f"import os; os.sched_setaffinity(0, {{{cpu}}}); import tilewright\n"
                   "with tilewright.Pool(4) as pool: print(pool.threads)")
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "1")

    def test_nothing_is_copied(self):
        a, c = numbers(4, 16), tilewright.empty((8, 8))
        c[...] = 3
        self.kernel(PLAIN).launch([a, self.b, c[2:6]])  # two rows are 64 bytes
        np.testing.assert_array_equal(c[2:6], a @ self.b + 7)
        np.testing.assert_array_equal(c[[0, 1, 6, 7]], 3)

    def test_read_only_inputs_and_buffers_will_do(self):
        a = numbers(4, 16)
        a.flags.writeable = self.b.flags.writeable = False
        np.testing.assert_array_equal(self.kernel(PLAIN)(a, self.b), a @ self.b + 7)
        c = tilewright.empty((4, 8))
        self.kernel(PLAIN).launch([memoryview(a), memoryview(self.b), memoryview(c)])
        np.testing.assert_array_equal(c, a @ self.b + 7)

    def test_arrays_with_gaps_and_odd_starts_are_copied_with_a_note_once(self):
        kernel = self.kernel(PLAIN)
        a, b = numbers(4, 16), self.b
        wanted = a @ b + 7
        memory = tilewright.empty(4 * 16 + 16)
        odd = memory[1:65].reshape(4, 16)
        odd[...] = a
        turned = aligned(a.T.copy()).T
        self.assertNotEqual(odd.ctypes.data % 64, 0)
        _arrays._noted.clear()
        with self.assertWarnsRegex(tilewright.CopyWarning,
                                   f"operand 'A' of {PLAIN} was copied: expected a compact array"):
            np.testing.assert_array_equal(kernel(odd, b), wanted)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(kernel(turned, b), wanted)
            np.testing.assert_array_equal(kernel(memoryview(odd), b), wanted)
        # Every second row and every third column, backwards.
        spread = np.zeros((8, 48), np.float32)[::-2, ::3]
        spread[...] = a
        np.testing.assert_array_equal(kernel(spread, b), wanted)

    def test_outputs_with_gaps_are_written(self):
        kernel = self.kernel(PLAIN)
        a, room = numbers(4, 16), np.full((6, 40), 3, np.float32)
        c = room[1:5, 1:33:4]
        _arrays._noted.clear()
        with self.assertWarnsRegex(tilewright.CopyWarning, "operand 'C'"):
            kernel.launch([a, self.b, c])
        np.testing.assert_array_equal(c, a @ self.b + 7)
        room[1:5, 1:33:4] = 3
        np.testing.assert_array_equal(room, 3, "nothing beside it")

    def test_weights_with_gaps_are_packed(self):
        for spec, added in ((DYNAMIC, 0), (PLAIN, 7)):
            kernel, a = self.kernel(spec), numbers(4, 16)
            weights = kernel.pack({"B": aligned(self.b.T.copy()).T})
            np.testing.assert_array_equal(kernel(a, weights=weights), a @ self.b + added)

    def test_the_gil_is_released(self):
        kernel, a, c = self.kernel(PLAIN), numbers(4, 16), tilewright.empty((4, 8))
        turns, stop = [0], threading.Event()

        def take_turns():
            while not stop.is_set():
                turns[0] += 1
                time.sleep(0)  # lets the other one in

        other = threading.Thread(target=take_turns)
        other.start()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # nobody is made to let go
        try:
            before = turns[0]
            for _ in range(100_000):
                kernel.launch([a, self.b, c])
                if turns[0] != before:
                    break
            self.assertNotEqual(turns[0], before)
        finally:
            sys.setswitchinterval(interval)
            stop.set()
            other.join()

    def test_32_threads_launch_one_kernel(self):
        kernel = self.kernel()
        weights = kernel.pack({"B": self.b})
        right = []
        with tilewright.Pool(2) as pool:

            def serve(seed: int) -> None:
                a = numbers(1 + seed * 2, 16, seed=seed)
                right.append(all(np.array_equal(kernel(a, weights=weights, pool=pool), a @ self.b)
                                 for _ in range(50)))

            self.run_in_threads(serve)
        self.assertEqual(right, [True] * 32)

    def test_closing_a_pool_waits_for_launches(self):
        kernel = self.kernel()
        weights = kernel.pack({"B": self.b})
        pool = tilewright.Pool(2)
        ended = []

        def serve(seed: int) -> None:
            a = numbers(64, 16, seed=seed)
            try:
                while True:
                    if not np.array_equal(kernel(a, weights=weights, pool=pool), a @ self.b):
                        return
                    if seed == 0:
                        pool.close()
            except tilewright.ArgumentError as error:
                ended.append(str(error))

        self.run_in_threads(serve)
        self.assertEqual(ended, ["the pool is closed"] * 32)

    def run_in_threads(self, body) -> None:
        threads = [threading.Thread(target=body, args=(seed,)) for seed in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Arrays(unittest.TestCase):
    def test_empty_is_aligned_and_of_the_named_type(self):
        for shape in (7, (), (3, 5), [2, 2, 2]):
            made = tilewright.empty(shape, np.float64)
            self.assertEqual(made.ctypes.data % 64, 0)
            self.assertEqual(made.shape, (shape,) if isinstance(shape, int) else tuple(shape))
        self.assertEqual(tilewright.empty(3).dtype, np.float32)
        for name, dtype in (("f16", np.float16), ("i8", np.int8), ("u32", np.uint32),
                            ("bf16", np.uint16), ("f8e4m3", np.uint8), ("float64", np.float64)):
            self.assertEqual(tilewright.empty(2, name).dtype, dtype, name)
        self.assertEqual(tilewright.empty((3, 6), "u4").shape, (3, 3))
        with self.assertRaisesRegex(ValueError, "a row of 5 u4 fills no whole bytes"):
            tilewright.empty((3, 5), "u4")
        self.assertEqual(tilewright.empty(2, [("x", "f4")]).dtype.names, ("x",))

    def test_types_go_by_any_name(self):
        for own, others in {"f32": (np.float32, np.dtype("float32"), "float32", "torch.float32", "<f4"[1:]),
                            "f64": (float, np.float64, "double"), "f16": (np.half, "half", "float16"),
                            "i64": (np.int64, "int64"), "i8": (np.int8, "i8", "int8"),
                            "bf16": ("bfloat16", "torch.bfloat16"), "u4": ("uint4",),
                            "f8e4m3": ("float8_e4m3fn",), "bool": (bool, np.bool_)}.items():
            for other in others:
                if other != "f4":
                    self.assertEqual(tilewright.dtype_name(other), own, other)
        for no_type in ("f4", "float99", None, 3, ["f4"], np.complex64, object()):
            with self.assertRaisesRegex(tilewright.SpecError, "is no element type; expected one of f64"):
                tilewright.dtype_name(no_type)

    def test_the_version_is_the_librarys(self):
        self.assertRegex(tilewright.__version__, r"^\d+\.\d+\.\d+$")

    def test_buffers_of_other_libraries_are_arrays(self):
        self.assertEqual(np.asarray(aligned(array.array("f", [1, 2]))).tolist(), [1, 2])


if __name__ == "__main__":
    main()
