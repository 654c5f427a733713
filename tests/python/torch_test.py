"""PyTorch's tensors, and kernels as its operators. Skipped where PyTorch 2.4 is not found; the
environment that scripts/pytorch/install.py makes will do."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from torch_environment import LACKS

import tilewright
from support import PLAIN, Kernels, main

if not LACKS:
    import torch

    import tilewright.torch


def numbers(*shape: int, seed: int = 0):
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed)).float()


@unittest.skipIf(LACKS, LACKS)
class Torch(Kernels):
    def setUp(self):
        super().setUp()
        self.b = numbers(16, 8, seed=1)
        self.dynamic = self.kernel()
        self.weights = self.dynamic.pack({"B": self.b})

    def operator(self, name: str):
        from tilewright.torch import operator
        return operator("tilewright_test::" + name, self.dynamic, weights=self.weights)

    def same(self, got, expected) -> None:
        self.assertTrue(torch.equal(got, expected), f"{got}\nis not\n{expected}")

    def test_tensors_are_arrays(self):
        a, c = numbers(5, 16), torch.empty(5, 8)
        self.dynamic.launch([a, None, c], weights=self.weights)
        self.same(c, a @ self.b)
        made = self.dynamic(a, weights=self.weights)
        self.assertIsInstance(made, torch.Tensor)
        self.same(made, c)

    def test_refusals_name_the_operand(self):
        c = torch.empty(4, 8)
        with self.assertRaisesRegex(tilewright.TensorError, "operand 'A': element type f16"):
            self.kernel(PLAIN).launch([numbers(4, 16).half(), self.b, c])
        with self.assertRaisesRegex(tilewright.TensorError, "operand 'A': .*requires? grad"):
            self.kernel(PLAIN).launch([numbers(4, 16).requires_grad_(), self.b, c])
        with self.assertRaisesRegex(tilewright.TensorError, "operand 'A': .*layout"):
            self.kernel(PLAIN).launch([numbers(4, 16).to_sparse(), self.b, c])

    def test_an_operator_is_what_pytorch_asks_of_one(self):
        layer = self.operator("checked")
        torch.library.opcheck(layer, (numbers(5, 16),))
        self.same(layer(numbers(5, 16)), numbers(5, 16) @ self.b)

    def test_inputs_with_gaps_are_copied(self):
        tall, c = numbers(16, 4), torch.empty(4, 8)
        self.kernel(PLAIN).launch([tall.T, self.b, c])
        self.same(c, tall.T @ self.b + 7)
        layer = self.operator("gaps")
        wide = numbers(6, 33)
        self.same(layer(wide[1:, 1:17]), wide[1:, 1:17] @ self.b)
        tall = numbers(16, 7)
        self.same(layer(tall.T), tall.T @ self.b)

    def test_compiled_programs_keep_the_batch_a_symbol(self):
        layer = self.operator("compiled")
        shapes = []

        def backend(graph, inputs):
            shapes.append([tuple(node.meta["example_value"].shape) for node in graph.graph.nodes
                           if node.op == "call_function" and "compiled" in str(node.target)])
            return graph

        def program(x):
            return torch.relu(layer(x * 2)) + x.shape[0]

        compiled = torch.compile(program, backend=backend, fullgraph=True, dynamic=True)
        for rows in (3, 9, 33):
            x = numbers(rows, 16, seed=rows)
            self.same(compiled(x), torch.relu(2 * x @ self.b) + rows)
        self.assertEqual(len(shapes), 1, "compiled once for all batches")
        (rows, columns), = shapes[0]
        self.assertIsInstance(rows, torch.SymInt)
        self.assertEqual(columns, 8)

    def test_inductor_compiles_programs_around_it(self):
        """PyTorch's default backend, which needs a C++ compiler and may need more."""
        layer = self.operator("inductor")

        def program(x):
            return torch.relu(layer(x * 2) + 1).sum(dim=1) * x.shape[0]

        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(program, fullgraph=True, dynamic=dynamic)
            for rows in (3, 9) if dynamic else (5,):
                x = numbers(rows, 16, seed=rows)
                self.same(compiled(x), program(x))

    def exported(self, name: str):
        layer = self.operator(name)

        class Layer(torch.nn.Module):
            def forward(self, x):
                return torch.relu(layer(x * 2))

        sizes = ({0: torch.export.Dim("rows", min=1, max=64)},)
        return Layer(), torch.export.export(Layer(), (numbers(5, 16),), dynamic_shapes=sizes)

    def test_exported_programs_have_it_as_an_operator(self):
        module, program = self.exported("exported")
        with tempfile.TemporaryDirectory() as folder:
            torch.export.save(program, folder + "/program.pt2")
            loaded = torch.export.load(folder + "/program.pt2")
        for rows in (1, 9, 64):
            x = numbers(rows, 16, seed=rows)
            self.same(program.module()(x), module(x))
            self.same(loaded.module()(x), module(x))

    def test_aotinductor_calls_it(self):
        module, program = self.exported("ahead")
        with tempfile.TemporaryDirectory() as folder:
            package = torch._inductor.aoti_compile_and_package(program, package_path=folder + "/ahead.pt2")
            loaded = torch._inductor.aoti_load_package(package)
            for rows in (2, 9, 64):
                x = numbers(rows, 16, seed=rows)
                self.same(loaded(x), module(x))

    def test_a_model_file_in_a_package_of_aotinductor(self):
        """Also in a process that has the operator in C++ alone, of examples/torch_cpp."""
        file = self.database.with_name("model.tw")
        run = tilewright.torch.model_operator(file)

        class Double(torch.nn.Module):
            def forward(self, x):
                y, z = run(x + 1)
                return y * 2, z

        x = numbers(2, 2, 16, seed=3)
        y, z = tilewright.Model(file, log=self.lines.append)(x + 1)
        folder = pathlib.Path(self.folder.name)
        program = torch.export.export(Double(), (x,))
        package = torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "model.pt2"))
        for got in (program.module()(x), torch._inductor.aoti_load_package(package)(x)):
            self.same(got[0], 2 * y)
            self.same(got[1], z)
        torch.save((x, 2 * y, z), folder / "wanted.pt")
        library = self.build_operator(folder)
        code = ("import sys, torch\n"
                f"torch.ops.load_library({str(library)!r})\n"
                f"x, *wanted = torch.load({str(folder / 'wanted.pt')!r})\n"
                f"got = torch._inductor.aoti_load_package({package!r})(x)\n"
                "assert all(torch.equal(*pair) for pair in zip(got, wanted)), got\n"
                "assert 'tilewright' not in sys.modules\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def build_operator(self, folder: pathlib.Path) -> pathlib.Path:
        root, build = pathlib.Path(__file__).parents[2], pathlib.Path(os.environ["TILEWRIGHT_BUILD"])
        torch_folder = pathlib.Path(torch.__file__).parent
        library = folder / "libtilewright_torch.so"
        subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter",
                        root / "examples" / "torch_cpp" / "model_operator.cc", "-o", library,
                        "-DTORCH_TARGET_VERSION=0x020a000000000000", f"-I{torch_folder}/include",
                        f"-L{torch_folder}/lib", "-ltorch_cpu", f"-I{root}/include", f"-L{build}",
                        "-ltilewright", f"-Wl,-rpath,{build}"], check=True)
        return library

    def test_fake_tensors_have_the_outputs_shape(self):
        from torch._subclasses.fake_tensor import FakeTensorMode
        layer = self.operator("fake")
        with FakeTensorMode():
            made = layer(torch.empty(7, 16))
            self.assertEqual((tuple(made.shape), made.dtype), ((7, 8), torch.float32))

    def test_a_kernel_that_reads_its_weight_takes_it_as_an_input(self):
        from tilewright.torch import operator
        layer = operator("tilewright_test::plain", self.kernel(PLAIN))
        torch.library.opcheck(layer, (numbers(4, 16), self.b))
        self.same(layer(numbers(4, 16), self.b), numbers(4, 16) @ self.b + 7)
        with self.assertRaisesRegex(tilewright.ArgumentError, "no type for u4"):
            tilewright.torch.dtype_of("u4")


if __name__ == "__main__":
    main()
