"""Refusals: each is an exception of its own kind with a sentence, and nothing is written."""
import hashlib
import os
import pathlib
import tempfile
import unittest

import numpy as np

import tilewright
from support import DYNAMIC, OTHER, PLAIN, Kernels, main, numbers
from tilewright import (AllocationError, ArgumentError, DatabaseError, DeviceError, MissError,
                        SpecError, TensorError, WeightsError)


class OnADevice:
    """Says that its memory lies elsewhere."""

    def __init__(self, values: np.ndarray, device: int):
        self.values, self.device = values, device
        self.stream = None

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, *, stream=None, max_version=None):
        self.stream = stream
        raise BufferError("the memory has left")


class Tensors(Kernels):
    def setUp(self):
        super().setUp()
        self.plain = self.kernel(PLAIN)
        self.a, self.b = numbers(4, 16), numbers(16, 8, seed=1)
        self.c = tilewright.empty((4, 8))
        self.c[...] = 3

    def tearDown(self):
        np.testing.assert_array_equal(self.c, 3, "something was written")

    def launch_refuses(self, pattern: str, a=None, b=None, c=None, kind=TensorError) -> None:
        tensors = [self.a if a is None else a, self.b if b is None else b,
                   self.c if c is None else c]
        self.refuses(kind, pattern, self.plain.launch, tensors)

    def test_element_types(self):
        self.launch_refuses("operand 'A': element type f64; expected f32",
                            a=numbers(4, 16, dtype=np.float64))
        self.launch_refuses("operand 'B': element type i32; expected f32",
                            b=numbers(16, 8, dtype=np.int32))
        # The same width is no permission: f32 is a type that NumPy has.
        self.launch_refuses("operand 'B': element type u32; expected f32",
                            b=numbers(16, 8).view(np.uint32))
        self.launch_refuses("operand 'A': .*expected plain numbers in the processor's byte order",
                            a=self.a.astype(">f4"))
        self.launch_refuses("operand 'A': ", a=self.a.astype(object))
        self.launch_refuses("operand 'A': ", a=np.zeros(4, [("x", "f4")]))

    def test_shapes(self):
        self.launch_refuses(r"operand 'B': dimension 1 is 4; expected 8 of \[16, 8\]",
                            b=numbers(16, 4))
        self.launch_refuses("operand 'A': 1 dimensions; expected 2", a=numbers(64))
        kernel = self.kernel()
        weights = kernel.pack({"B": self.b})
        self.refuses(TensorError, r"operand 'A': dimension 0 \(m\) is 65; expected 1 to 64",
                     kernel, numbers(65, 16), weights=weights)
        self.refuses(TensorError, "operand 'A': 0 dimensions; expected more than 0",
                     kernel, np.float32(1), weights=weights)
        self.refuses(TensorError, "operand 'C': dimension 0 is 4; expected 5",
                     kernel.launch, [numbers(5, 16), None, self.c], weights=weights)

    def test_odd_strides(self):
        table = np.zeros(4, [("x", "i1"), ("y", "f4")])  # elements 5 bytes apart
        self.launch_refuses("operand 'A': dimension 0 has a stride of 5 bytes", a=table["y"])

    def test_what_is_no_array(self):
        self.launch_refuses(r"operand 'A': got list; expected an array with __dlpack__", a=[1.0])
        self.launch_refuses("operand 'A': the memory has left", a=OnADevice(self.a, 1))

        class Odd:
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **options):
                return "no capsule"

        self.launch_refuses("operand 'A': its __dlpack__ gave no capsule", a=Odd())
        Odd.__dlpack_device__ = lambda self: "the moon"
        self.launch_refuses("operand 'A': its __dlpack_device__ gave no pair", a=Odd())
        self.refuses(TensorError, "operand 'A': got list; expected an array with a shape",
                     self.plain, [1.0], self.b)

    def test_interrupts_are_passed_on(self):
        class Interrupted(OnADevice):
            def __dlpack__(self, **options):
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.plain.launch([Interrupted(self.a, 1), self.b, self.c])

    def test_arrays_of_a_gpu_are_told_the_stream(self):
        given = OnADevice(self.a, 2)
        self.launch_refuses("operand 'A': the memory has left", a=given)
        self.assertEqual(given.stream, 1, "the default stream's number")

        class Stream:
            cuda_stream = 77

        self.refuses(TensorError, "the memory has left", self.plain.launch,
                     [given, self.b, self.c], stream=Stream())
        self.assertEqual(given.stream, 77)
        self.refuses(ArgumentError, "stream is a str; expected a CUDA stream", self.plain.launch,
                     [self.a, self.b, self.c], stream="main")

    def test_outputs_are_written_and_their_own(self):
        c = self.c.view()
        c.flags.writeable = False
        self.launch_refuses("operand 'C': its memory is read-only", c=c)
        gaps = tilewright.empty((4, 16))[:, ::2]  # would be copied
        gaps.flags.writeable = False
        self.launch_refuses("operand 'C': its memory is read-only", c=gaps)
        memory = tilewright.empty((12, 16))
        a, c = memory[:4], memory[2:4].reshape(4, 8)
        self.launch_refuses("operand 'C': shares memory with operand 'A'", a=a, c=c)

    def test_numbers_and_names_of_tensors(self):
        self.refuses(ArgumentError, f"2 tensors; {PLAIN} takes 3: A, B, C",
                     self.plain.launch, [self.a, self.c])
        self.refuses(ArgumentError, f"'X' is no operand of {PLAIN}; it takes A, B, C",
                     self.plain.launch, {"X": self.a})
        self.refuses(ArgumentError, "expected a list of 3 tensors, or a dict .*; got numpy.ndarray",
                     self.plain.launch, self.a)
        self.refuses(TensorError, "operand 'C': no tensor", self.plain.launch, [self.a, self.b, None])
        self.refuses(ArgumentError, f"1 inputs; {PLAIN} takes A, B", self.plain, self.a)

    def test_arguments_of_other_types_are_type_errors(self):
        with self.assertRaises(TypeError):
            self.plain.launch([self.a, self.b, self.c], pool=3)
        with self.assertRaises(TypeError):
            self.library.prepare(PLAIN, threads="two")


class WeightsAndWorkspace(Kernels):
    def setUp(self):
        super().setUp()
        self.b = numbers(16, 8)
        self.weights = self.kernel().pack({"B": self.b})

    def test_weights_belong_to_one_kernel(self):
        other = self.kernel(OTHER)
        self.refuses(WeightsError, f"{other.identity}; these are {self.weights.identity}",
                     other, numbers(100, 16), weights=self.weights)
        c = tilewright.empty((4, 8))
        self.refuses(WeightsError, "none were given; Kernel.pack makes them",
                     self.kernel().launch, [numbers(4, 16), None, c])

    def test_packing_wants_all_that_is_packed_and_nothing_else(self):
        kernel = self.kernel()
        self.refuses(ArgumentError, "operand 'B' is packed by the kernel of .*, and was not given",
                     kernel.pack, {})
        self.refuses(ArgumentError, "'X' is no weight of .*; it packs B$", kernel.pack, {"X": self.b})
        self.refuses(ArgumentError, "'C' is an output", kernel.pack, {"B": self.b, "C": self.b})
        self.refuses(TensorError, "operand 'B': element type f64", kernel.pack,
                     {"B": numbers(16, 8, dtype=np.float64)})

    def test_workspaces(self):
        kernel, a = self.kernel(), numbers(4, 16)
        self.refuses(AllocationError, "the workspace has 63 bytes; .* needs 64", kernel, a,
                     weights=self.weights, workspace=tilewright.empty(63, "u8"))
        self.refuses(AllocationError, "the workspace is not aligned to 64 bytes", kernel, a,
                     weights=self.weights, workspace=tilewright.empty(128, "u8")[1:])
        self.refuses(AllocationError, "workspace: expected a compact array", kernel, a,
                     weights=self.weights, workspace=tilewright.empty(256, "u8")[::2])
        self.refuses(AllocationError, "workspace: expected a compact array", kernel, a,
                     weights=self.weights, workspace=bytes(256))
        self.refuses(TensorError, "workspace: got int", kernel, a, weights=self.weights, workspace=4)


class Databases(Kernels):
    def test_specs_and_targets(self):
        self.refuses(SpecError, "matmul:m=1,n=2", self.library.prepare, "matmul:m=1,n=2")
        self.refuses(SpecError, "a spec is text or a dict; got int", self.library.prepare, [3])
        self.refuses(ArgumentError, "no specs; give at least one", self.library.prepare, [])
        self.refuses(ArgumentError, "avx9000", self.library.prepare, PLAIN, target="avx9000")
        self.refuses(ArgumentError, "threads is -1", self.library.prepare, PLAIN, threads=-1)
        with self.assertRaises((DeviceError, ArgumentError)):
            self.library.prepare(PLAIN, target="cuda:sm_80", device=99)

    def test_a_miss_and_a_spec_that_was_not_prepared(self):
        prepared = self.library.prepare([PLAIN, "matmul:m=3,n=3,k=3"])
        self.refuses(MissError, "tune-cli tune matmul:m=3,n=3,k=3", prepared.find,
                     "matmul:m=3,n=3,k=3")
        self.refuses(ArgumentError, "matmul:m=4, n=8,k=16", prepared.find, "matmul:m=4, n=8,k=16")
        self.assertIsInstance(MissError(), LookupError)

    def test_what_was_closed(self):
        self.library.close()
        self.library.close()
        self.refuses(ArgumentError, "the library is closed", self.library.prepare, PLAIN)
        pool = tilewright.Pool(1)
        pool.close()
        self.refuses(ArgumentError, "the pool is closed", lambda: pool.threads)
        self.refuses(ArgumentError, "threads is 0; expected 1 to 4096", tilewright.Pool, 0)

    def test_files_that_are_no_database(self):
        folder = pathlib.Path(self.folder.name)
        self.refuses(DatabaseError, "nowhere.db", tilewright.Library, folder / "nowhere.db")
        (folder / "text.db").write_text("no database\n" * 1000)
        self.refuses(DatabaseError, "text.db", tilewright.Library, folder / "text.db")
        self.refuses(DatabaseError, "odd\ufffd", tilewright.Library,
                     os.fsencode(folder) + b"/odd\xff.db")
        self.refuses(ArgumentError, "log takes a function", tilewright.Library, self.database, log=3)
        with self.assertRaises(TypeError):
            tilewright.Library(3.5)

    def test_a_file_that_others_may_write_is_a_miss_unless_it_is_pinned(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "open.db")
            copy.write_bytes(self.database.read_bytes())
            copy.chmod(0o666)
            prepared = tilewright.Library(copy, log=self.lines.append).prepare(PLAIN)
            self.refuses(MissError, "its code is not trusted: .*chmod go-w", prepared.find, PLAIN)
            self.refuses(ArgumentError, "64 hexadecimal digits, got 'beef'", tilewright.Library,
                         copy, trust=["beef"])
            digest = hashlib.sha256(copy.read_bytes()).hexdigest()
            self.refuses(DatabaseError, "is not the file that was pinned", tilewright.Library,
                         copy, pin="0" * 64)
            self.refuses(DatabaseError, "is no serving file", tilewright.Library, copy, pin=digest)

    def test_damage_is_a_miss_or_a_refusal_and_never_a_wrong_kernel(self):
        sound = self.database.read_bytes()
        damaged = pathlib.Path(self.folder.name, "damaged.db")
        a, b = numbers(4, 16), numbers(16, 8)
        served = 0
        for place in range(0, len(sound), max(1, len(sound) // 40)):
            torn = bytearray(sound)
            torn[place:place + 64] = bytes(255 - byte for byte in torn[place:place + 64])
            damaged.write_bytes(torn)
            try:
                kernel = tilewright.Library(damaged, log=lambda line: None).prepare(PLAIN)[PLAIN]
            except (DatabaseError, MissError):
                continue
            # Without its own kernel the spec is served by that of the range, which adds nothing.
            added = 7 if kernel.identity == "" else 0
            c = kernel(a, weights=kernel.pack({"B": b}))
            np.testing.assert_array_equal(c, a @ b + added)
            served += 1
        self.assertGreater(served, 0, "most of the file is about something else")
        damaged.write_bytes(sound[:len(sound) // 2])
        with self.assertRaises((DatabaseError, MissError)):
            tilewright.Library(damaged, log=lambda line: None).prepare(PLAIN)[PLAIN]


if __name__ == "__main__":
    main()
