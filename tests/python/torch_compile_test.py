"""torch.compile(model, backend="tilewright"): what is taken, what gives way to PyTorch, and when. Skipped
where PyTorch is not found, as torch_test.py."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from torch_environment import LACKS

if not LACKS:
    import torch
    from torch import nn

    import tilewright.torch
    from tilewright.torch import _backend, _judge, _region, _report, _rest

import tilewright
from support import main

if not LACKS and importlib.util.find_spec("onnxscript") is None:
    LACKS = "no Python module onnxscript"


def no_tuner():
    """Neither tune-cli nor a compiler."""
    return unittest.mock.patch.dict(os.environ, {"TILEWRIGHT_TUNE_CLI": "/no/tune-cli", "PATH": "/no"})


def layers() -> "nn.Module":
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()


@unittest.skipIf(LACKS, LACKS)
class Backend(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.first = len(tilewright.torch.report())
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self.addCleanup(torch.set_num_threads, threads)
        grad = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, grad)

    def compiled(self, model, dynamic=False, **options):
        options = {"folder": self.folder, "fallback": "eager", "measure": False, **options}
        return torch.compile(model, backend=tilewright.torch.backend, options=options, dynamic=dynamic)

    def rows(self):
        return tilewright.torch.report()[self.first:]

    def states(self):
        return [row.state for row in self.rows()]

    def same(self, compiled, model, *inputs):
        got, wanted = compiled(*inputs), model(*inputs)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
        return got

    def timed(self, warm, cold=None, **options):
        times = {who: dict(zip(("tilewright", "eager", "inductor"), values))
                 for who, values in (("warm", warm), ("cold", cold or warm))}
        raced = []

        def race(candidates):
            raced.append(list(candidates))
            for run in candidates.values():
                run()
            return times["warm"], times["cold"]

        torch._dynamo.reset()
        with unittest.mock.patch.object(_backend, "race", race), \
                unittest.mock.patch.object(_report, "tell"):
            model, x = layers(), torch.randn(5, 16)
            self.same(self.compiled(model, measure=True, **options), model, x)
        return raced

    def files(self):
        return sorted(path.name for path in self.folder.glob("*.tw"))


class Taken(Backend):
    def test_a_whole_graph(self):
        model, x = layers(), torch.randn(5, 16)
        compiled = self.compiled(model)
        for seed in range(3):
            self.same(compiled, model, torch.randn(5, 16))
        row, = self.rows()
        self.assertEqual((row.region, row.state, row.reason), ("whole", "taken", ""))
        self.assertEqual(row.operators, {"linear": 2, "relu": 1})
        self.assertEqual(self.files(), [pathlib.Path(row.file).name])
        with torch.inference_mode():
            self.same(compiled, model, x)
        for word in ("whole", "taken", "2 linear"):
            self.assertIn(word, str(self.rows()))
            self.assertIn(word, self.rows()._repr_html_())

    def test_two_threads(self):
        torch.set_num_threads(2)
        model = layers()
        self.same(self.compiled(model), model, torch.randn(64, 16))
        self.assertEqual(self.states(), ["taken"])
        self.assertRegex(self.files()[0], "-t2[.]tw$")

    def test_narrow_floats(self):
        model, x = layers().bfloat16(), torch.randn(5, 16).bfloat16()
        got, wanted = self.compiled(model)(x), model(x)
        self.assertEqual(self.states(), ["taken"], self.rows())
        torch.testing.assert_close(got, wanted, rtol=0.05, atol=0.05)

    def test_by_its_name(self):
        """An installed package registers the entry point of pyproject.toml."""
        (self.folder / "installed-1.dist-info").mkdir()
        (self.folder / "installed-1.dist-info" / "METADATA").write_text("Name: installed\nVersion: 1\n")
        project = (pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text()
        line, = re.findall(r"entry-points.torch_dynamo_backends\]\n(tilewright = \".*\")\n", project)
        (self.folder / "installed-1.dist-info" / "entry_points.txt").write_text(
            "[torch_dynamo_backends]\n" + line.replace('"', "") + "\n")
        program = ("import torch; from torch import nn\n"
                   "with torch.inference_mode():\n"
                   f"    options = {{'folder': {str(self.folder)!r}, 'measure': False, 'fallback': 'eager'}}\n"
                   "    model = torch.compile(nn.Linear(4, 4).eval(), backend='tilewright', options=options)\n"
                   "    model(torch.ones(2, 4))\n"
                   "import tilewright.torch; print(tilewright.torch.report()[0].state)\n")
        path = os.pathsep.join([str(self.folder), os.environ["PYTHONPATH"]])
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout.splitlines()[-1:], ["taken"], done.stderr)

    def test_the_example(self):
        example = pathlib.Path(__file__).parents[2] / "examples" / "python" / "compiled_model.py"
        done = subprocess.run([sys.executable, example, self.folder, "--layers", "1", "--width", "32", "--fallback",
                               "eager"],
                              capture_output=True, text=True, check=False)
        self.assertRegex(done.stdout, "(?s)largest difference from eager: .*graph 0  whole   (taken|dropped)",
                         done.stderr)

    def test_its_specs_are_for_tune(self):
        model, x = layers(), torch.randn(5, 16)
        compiled = self.compiled(model)
        compiled(x)
        specs, database = self.folder / "specs.txt", self.folder / "kernels.db"
        self.assertEqual(len(specs.read_text().splitlines()), 2)
        results = tilewright.tune(str(specs), db=database, trials=1, threads=1, progress=None)
        self.assertEqual([result["valid"] for result in results], [1, 1])
        self.assertEqual([row.state for row in tilewright.torch.tune()[self.first:]], ["taken"])
        self.same(compiled, model, x)

    def test_a_folder_serves_without_tuner_and_unwritable(self):
        self.timed((1.0, 2.0, 3.0), fallback="inductor")
        model, x = layers(), torch.randn(5, 16)
        torch._dynamo.reset()
        before = {path: path.stat().st_mtime_ns for path in self.folder.iterdir()}
        with no_tuner(), unittest.mock.patch.object(_judge, "race", side_effect=AssertionError), \
                unittest.mock.patch.object(torch.export, "export", side_effect=AssertionError):
            self.same(self.compiled(model, measure=True, fallback=None), model, x)
        self.assertEqual(self.states(), ["taken", "taken"])
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in self.folder.iterdir()})

    def test_a_batch_of_any_size_is_compiled_once(self):
        model = layers()
        compiled = self.compiled(model, largest=40)
        x = torch.randn(5, 16)
        torch._dynamo.mark_dynamic(x, 0)
        self.same(compiled, model, x)
        for batch in (2, 7, 40):
            self.same(compiled, model, torch.randn(batch, 16))
        self.assertEqual(self.states(), ["taken"])
        with self.assertLogs("tilewright") as logs:
            self.same(compiled, model, torch.randn(41, 16))
            self.same(compiled, model, torch.randn(50, 16))
        self.assertEqual(len(logs.output), 1)
        self.assertIn("a size outside of 2 to 40", logs.output[0])
        self.assertEqual(self.states(), ["fallback"])

    def test_batch_and_sequence_of_attention(self):
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.heads, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

            def forward(self, x, mask):
                batch, length, width = x.shape
                q, k, v = self.heads(x).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
                y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
                return self.out(y.transpose(1, 2).reshape(batch, length, width))

        torch.manual_seed(0)
        model = Attention().eval()
        compiled = self.compiled(model, largest=12)
        for step, (batch, length) in enumerate(((2, 5), (3, 9), (7, 12))):
            x, mask = torch.randn(batch, length, 16), torch.ones(batch, length, dtype=torch.bool)
            mask[:, length // 2:] = False
            if step == 0:
                for given in (x, mask):
                    torch._dynamo.mark_dynamic(given, 0)
                    torch._dynamo.mark_dynamic(given, 1)
            self.same(compiled, model, x, mask)
        self.assertEqual(self.states(), ["taken"], self.rows())

    def test_around_an_operator_without_a_kernel(self):
        @torch.library.custom_op("tilewright_test::foreign", mutates_args=())
        def foreign(x: torch.Tensor) -> torch.Tensor:
            return x.flip(0).clone()

        foreign.register_fake(lambda x: torch.empty_like(x))
        first, second = layers(), nn.Linear(8, 4).eval()

        class Around(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = first, second

            def forward(self, x):
                return torch.relu(self.second(foreign(self.first(x))))

        model = Around()
        compiled = self.compiled(model)
        for seed in range(2):
            self.same(compiled, model, torch.randn(5, 16))
        whole, *regions = self.rows()
        self.assertEqual(whole.state, "in parts")
        self.assertIn("tilewright_test.foreign", whole.reason)
        self.assertEqual([row.state for row in regions], ["taken", "taken"], self.rows())
        self.assertEqual(len(self.files()), 2)
        torch._dynamo.reset()
        with no_tuner():
            self.same(self.compiled(model), model, torch.randn(5, 16))
        self.assertEqual(self.states()[3:], ["in parts", "taken", "taken"])

    def test_inductor_runs_what_is_between_the_regions(self):
        first, second = layers(), nn.Linear(8, 4).eval()

        def model(x):
            y = first(x)
            return second(torch.erfinv(torch.cumsum(y, 1) / 100)), y

        whole = _rest.compile_rest
        made = []
        with unittest.mock.patch.object(_backend, "compile_rest",
                                        lambda parent: made.append(whole(parent)) or made[0]):
            compiled = self.compiled(model, fallback="inductor")
            for _ in range(2):
                x = torch.randn(5, 16)
                for got, wanted in zip(compiled(x), model(x)):
                    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
        self.assertEqual(self.states(), ["in parts", "taken", "taken"], self.rows())
        self.assertEqual(len(made), 1)

    def test_a_file_may_be_replaced_while_it_runs(self):
        model, x = layers(), torch.randn(5, 16)
        compiled = self.compiled(model)
        self.same(compiled, model, x)
        file = self.folder / self.files()[0]
        other = self.folder / "other"
        other.write_bytes(b"no model")
        os.replace(other, file)
        self.same(compiled, model, x)
        torch._dynamo.reset()
        with self.assertLogs("tilewright") as logs:
            self.same(self.compiled(model, partition=False), model, x)
        self.assertIn(str(file), logs.output[0])
        self.assertEqual(self.states(), ["taken", "left"])

    def test_tune_goes_on_in_the_same_process(self):
        model, x = layers(), torch.randn(5, 16)
        compiled = self.compiled(model)
        self.same(compiled, model, x)
        before = (self.folder / self.files()[0]).stat().st_mtime_ns
        rows = tilewright.torch.tune("1s")[self.first:]
        self.assertEqual([row.state for row in rows], ["taken"])
        self.assertNotEqual(before, (self.folder / self.files()[0]).stat().st_mtime_ns)
        self.same(compiled, model, x)
        with no_tuner(), self.assertRaisesRegex(tilewright.DeviceError, "TILEWRIGHT_TUNE_CLI is '/no/tune-cli'"):
            tilewright.torch.tune("1s")
        self.assertEqual(self.states(), ["taken"])


class Weights(Backend):
    """Weights change after a file was made of them: the old ones are never seen again."""

    def check(self, change):
        model, x = layers(), torch.randn(5, 16)
        compiled = self.compiled(model)
        before = self.same(compiled, model, x)
        change(model)
        self.assertFalse(torch.allclose(model(x), before), "the test changes nothing")
        with self.assertLogs("tilewright") as logs:
            for _ in range(2):
                self.same(compiled, model, x)
        self.assertEqual(len(logs.output), 1)
        self.assertIn("weights have changed", logs.output[0])
        self.assertEqual(self.states(), ["fallback"])
        return model, x

    def test_in_place(self):
        self.check(lambda model: model[0].weight.mul_(2))

    def test_one_element(self):
        def change(model):
            model[0].weight[3, 3] += 100
        self.check(change)

    def test_a_state_that_is_loaded(self):
        state = {name: value + 1 for name, value in layers().state_dict().items()} if not LACKS else {}
        model, x = self.check(lambda model: model.load_state_dict(state))
        torch._dynamo.reset()
        self.same(self.compiled(model), model, x)
        self.assertEqual(self.states(), ["fallback", "taken"])
        self.assertEqual(len(self.files()), 2)

    def test_a_state_that_is_assigned(self):
        state = {name: value + 1 for name, value in layers().state_dict().items()} if not LACKS else {}
        self.check(lambda model: model.load_state_dict(state, assign=True))

    def test_data(self):
        def fill(model):
            model[2].bias.data.fill_(3)

        def replace(model):
            model[2].weight.data = torch.ones(8, 32)

        for change in (fill, replace):
            with self.subTest(change.__name__):
                self.first = len(tilewright.torch.report())
                torch._dynamo.reset()
                self.check(change)

    def test_numpy(self):
        def change(model):
            model[0].weight.detach().numpy()[...] *= 2
        self.check(change)

    def test_another_parameter(self):
        def change(model):
            model[2].weight = nn.Parameter(torch.ones(8, 32))
        self.check(change)

    def test_of_inference_mode(self):
        with torch.inference_mode():
            model, x = layers(), torch.randn(5, 16)
            compiled = self.compiled(model)
            self.same(compiled, model, x)
            self.assertEqual(self.states(), ["taken"])
            model[0].weight.mul_(2)
            self.same(compiled, model, x)
            self.assertEqual(self.states(), ["fallback"])


class Left(Backend):
    """Graphs that stay with PyTorch, with one line that says why."""

    def left(self, model, *inputs, reason, state="left", **options):
        compiled = self.compiled(model, **options)
        with self.assertLogs("tilewright") as logs:
            for _ in range(3):
                self.same(compiled, model, *inputs)
        self.assertEqual(len(logs.output), 1, logs.output)
        self.assertRegex(logs.output[0], reason)
        self.assertEqual(self.states(), [state])

    def test_nothing_that_matches(self):
        self.left(lambda x: torch.cumsum(x, 0) + 1, torch.randn(4), reason="no product, convolution, attention")

    def test_gradients(self):
        torch.set_grad_enabled(True)
        model, x = layers(), torch.randn(5, 16)
        self.left(model, x, reason="gradients are on; expected torch.inference_mode")
        self.assertTrue(self.compiled(model)(x).requires_grad)

    def test_without_a_tuner(self):
        with no_tuner():
            self.left(layers(), torch.randn(5, 16), reason=r"no file /.*\.tw, and TILEWRIGHT_TUNE_CLI is")

    def test_where_none_is_to_be_made(self):
        self.left(layers(), torch.randn(5, 16), tune=None, reason=r"no file /.*\.tw, and the option tune=None")

    def test_inputs_that_are_changed(self):
        def model(x):
            x.add_(1)
            return x @ x.T
        x = torch.zeros(4, 4)
        compiled = self.compiled(model)
        for step in range(1, 4):
            torch.testing.assert_close(compiled(x), torch.full((4, 4), 4. * step * step))
        self.assertEqual(self.states(), ["left"])
        self.assertIn("in place", self.rows()[0].reason)

    def test_random_numbers(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
        self.compiled(model)(torch.randn(2, 4))
        self.assertEqual(self.states(), ["left"])
        self.assertIn("draws random numbers; expected model.eval()", self.rows()[0].reason)

    def test_views_of_inputs(self):
        self.left(lambda x: (x.t(), x @ x), torch.randn(4, 4), state="dropped",
                  reason="output 0 is a view of an input")

    def test_results_that_differ(self):
        right = _region.Region.run
        with unittest.mock.patch.object(_region.Region, "run", lambda self, inputs: [
                y + 0.1 for y in right(self, inputs)]):
            self.left(layers(), torch.randn(5, 16), state="dropped",
                      reason="output 0 is off by 0.1 of .*; the tolerance is 0.001")

    def test_an_unforeseen_error(self):
        with unittest.mock.patch.object(_region, "graph_key", side_effect=KeyError("surprise")):
            self.left(layers(), torch.randn(5, 16), reason="KeyError: 'surprise'")
        torch._dynamo.reset()
        self.first += 1
        with unittest.mock.patch.object(_region, "export_program", side_effect=KeyError("another")):
            self.left(layers(), torch.randn(5, 16), reason="KeyError: 'another'")

    def test_options(self):
        for options, reason in (({"folders": "x"}, "option 'folders' is none of .*expected one of folder, "),
                                ({"fallback": "tvm"}, "'fallback' is 'tvm'; expected 'inductor' or 'eager'")):
            with self.assertRaisesRegex(Exception, reason):
                self.compiled(layers(), **options)(torch.randn(5, 16))


class Speed(Backend):
    """A region stays where nothing that it replaces is faster; that is measured once on a machine."""

    def test_a_slower_one_is_dropped_for_good(self):
        self.assertEqual(self.timed((1.0, 0.97)), [["tilewright", "eager"]])
        self.assertEqual(self.timed((1.0, 2.0)), [], "measured again")
        self.assertEqual(self.states(), ["dropped", "dropped"])
        first, second = self.rows()
        self.assertIn("1e+03 ms with warm caches; eager takes 970 ms", first.reason)
        self.assertIn("remembered in", second.reason)

    def test_the_caches_are_cold_in_the_other_race(self):
        self.timed((1.0, 1.0), (1.0, 0.9))
        self.assertIn("1e+03 ms with cold caches; eager takes 900 ms", self.rows()[0].reason)

    def test_a_faster_one_stays_for_good(self):
        self.timed((1.0, 0.985))
        self.assertEqual(self.timed((1.0, 0.5)), [], "measured again")
        self.assertEqual(self.states(), ["taken", "taken"])
        self.assertEqual(self.rows()[1].seconds, {"tilewright": 1.0, "eager": 0.985})

    def test_another_file_is_measured_again(self):
        self.timed((1.0, 0.5))
        file = self.folder / self.files()[0]
        os.utime(file, ns=(0, 0))
        self.assertEqual(len(self.timed((1.0, 2.0))), 1)
        self.assertEqual(self.states(), ["dropped", "taken"])

    def test_inductor_takes_part(self):
        raced = self.timed((1.0, 2.0, 0.5), fallback="inductor")
        self.assertEqual(raced, [["tilewright", "eager", "inductor"]])
        self.assertIn("inductor takes 500 ms", self.rows()[0].reason)

    def test_a_file_that_inductor_beats_may_beat_eager(self):
        self.timed((1.0, 2.0, 0.5), fallback="inductor")
        self.assertEqual(self.timed((1.0, 2.0)), [["tilewright", "eager"]])
        self.assertEqual(self.states(), ["dropped", "taken"])

    def test_inductors_time_is_remembered(self):
        self.timed((1.0, 2.0, 3.0), fallback="inductor")
        self.assertEqual(self.timed((1.0, 2.0), fallback="inductor"), [])
        with unittest.mock.patch.object(_backend, "race", lambda candidates: (
                {"tilewright": 5.0, "eager": 6.0}, {"tilewright": 1.0, "eager": 1.0})):
            tilewright.torch.tune()
        self.assertIn("inductor takes 3e+03 ms", self.rows()[-1].reason)

    def test_a_real_race(self):
        model, x = layers(), torch.randn(5, 16)
        self.same(self.compiled(model, measure=True), model, x)
        row, = self.rows()
        self.assertIn(row.state, ("taken", "dropped"))
        for seconds in (row.seconds, row.cold):
            self.assertEqual(set(seconds), {"tilewright", "eager"})
            self.assertTrue(all(value > 0 for value in seconds.values()))


if __name__ == "__main__":
    main()
