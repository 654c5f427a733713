"""tilewright.tune: what it returns, what it refuses, and Ctrl-C; and that what it stores is served, for
types that NumPy lacks and sizes that follow from others, too."""
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import types
import unittest
from unittest import mock

import numpy as np

import tilewright
from support import aligned, main, numbers
from tilewright._call import output_shape
from tilewright._progress import progress_of


def stat_of(process: int) -> list:
    """The fields of /proc/PID/stat from the state on; none where there is no such process."""
    try:
        return pathlib.Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def started_by(parent: int) -> list:
    ids = [int(path.name) for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()]
    return [process for process in ids if stat_of(process)[1:2] == [str(parent)]]


def is_running(process: int) -> bool:
    return stat_of(process)[:1] not in ([], ["Z"])


def wait_until(holds, seconds: float = 120) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Tune(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.database = pathlib.Path(self.folder.name, "kernels.db")
        self.lines = []

    def tune(self, specs, **options) -> list:
        options = {"trials": 2, "threads": 1, "seed": 1, "progress": self.lines.append, **options}
        return tilewright.tune(specs, db=self.database, **options)

    def served(self, spec):
        prepared = tilewright.Library(self.database).prepare(spec, threads=1)
        self.assertEqual({line.outcome for line in prepared.report}, {"hit"})
        return prepared[spec]

    def test_results_are_parsed_and_served(self):
        specs = ["matmul:m=4,n=16,k=16", {"op": "elementwise", "shape": [64], "fn": "relu"}]
        first, second = self.tune(specs)
        self.assertEqual(first["spec"], specs[0])
        self.assertEqual(first["trials"], 2)
        self.assertGreater(first["best"]["seconds"], 0)
        self.assertIn("config", first["best"])
        self.assertTrue(self.lines, "progress is told")
        a, b = numbers(4, 16), numbers(16, 16, seed=1)
        kernel = self.served(specs[0])
        np.testing.assert_array_equal(kernel(a, weights=kernel.pack({"B": b})), a @ b)
        x = numbers(64)
        np.testing.assert_array_equal(self.served(specs[1])(x), np.maximum(x, 0))

    def test_types_that_numpy_lacks_go_as_integers(self):
        spec = "matmul:m=3,n=16,k=8,dtype=bf16"
        self.tune(spec)
        kernel = self.served(spec)
        a, b = numbers(3, 8), numbers(8, 16, seed=1)
        self.assertEqual(kernel.operands[0].dtype, "bf16")

        def rounded(values):  # of small whole numbers the upper half is all
            return aligned((values.view(np.uint32) >> 16).astype(np.uint16))

        c = kernel(rounded(a), weights=kernel.pack({"B": rounded(b)}))
        self.assertEqual(c.dtype, np.uint16)
        np.testing.assert_array_equal((c.astype(np.uint32) << 16).view(np.float32), a @ b)
        with self.assertRaisesRegex(tilewright.TensorError, "element type f16; expected bf16"):
            kernel(numbers(3, 8, dtype=np.float16), weights=kernel.pack({"B": rounded(b)}))

    def test_outputs_whose_size_follows_from_an_inputs(self):
        spec = "conv1d:n=1,l=8..64,ci=4,co=8,kernel=3,stride=2"
        self.tune(spec)
        kernel = self.served(spec)
        w = numbers(3, 4, 8, seed=1)
        weights = kernel.pack({"W": w})
        for length in (8, 31):
            x = numbers(1, length, 4, seed=length)
            y = kernel(x, weights=weights)
            starts = range(0, length - 2, 2)
            expected = [np.einsum("kc,kco->o", x[0, i:i + 3], w) for i in starts]
            self.assertEqual(output_shape(kernel, {"X": x.shape}), [1, len(starts), 8])
            np.testing.assert_array_equal(y[0], expected)

    def test_trials_are_rows_of_a_table(self):
        specs = ["matmul:m=4,n=16,k=16", {"op": "elementwise", "shape": [64], "fn": "relu",
                                          "dtype": np.float32}]
        results = self.tune(specs, trials=3)
        rows = tilewright.trials(self.database)
        # The last ones of a run are measured again, which makes further rows.
        self.assertEqual(sum(not row["confirmed"] for row in rows),
                         sum(result["trials"] for result in results))
        self.assertTrue(all(not isinstance(value, dict) for row in rows for value in row.values()))
        self.assertEqual([row["created"] for row in rows], sorted(row["created"] for row in rows))
        own = tilewright.trials(self.database, specs[1])
        self.assertEqual({row["op"] for row in own}, {"elementwise"})
        self.assertEqual({row["workload"] for row in own}, {results[1]["workload"]})
        first = next(row for row in own if row["default"])
        self.assertEqual((first["verdict"], first["reason"], first["threads"]), ("valid", "", 1))
        self.assertGreater(first["seconds"], 0)
        self.assertIn(results[0]["best"]["seconds"], [row["seconds"] for row in rows])
        self.assertTrue(any(name.startswith("config.") for row in rows for name in row))
        self.assertEqual(rows._repr_html_().count("<tr>"), len(rows) + 1)
        html = results._repr_html_()
        self.assertIn("matmul:m=4,n=16,k=16", html)
        self.assertEqual(html.count("<tr>"), 3)
        with self.assertRaisesRegex(tilewright.DatabaseError, "nowhere.db"):
            tilewright.trials(self.database.with_name("nowhere.db"))
        with self.assertRaisesRegex(tilewright.ArgumentError, "matmul:m=4"):
            tilewright.trials(self.database, "matmul:m=4,q=3")

    def test_refusals_have_the_programs_words(self):
        with self.assertRaisesRegex(tilewright.ArgumentError, r"matmul:m=4,q=3(.|\n)*\^"):
            self.tune("matmul:m=4,q=3")
        with self.assertRaisesRegex(tilewright.ArgumentError, "--frobnicate"):
            self.tune("matmul:m=4,n=4,k=4", arguments=["--frobnicate"])
        with self.assertRaisesRegex(tilewright.ArgumentError, "no specs"):
            self.tune([])
        with self.assertRaisesRegex(tilewright.ArgumentError, "--threads"):
            self.tune("--threads", progress=None)  # a spec, and no option
        self.assertFalse(self.database.exists(), "nothing was written")
        self.database.write_text("no database\n" * 1000)
        with self.assertRaisesRegex(tilewright.DatabaseError, "kernels.db"):
            self.tune("matmul:m=4,n=4,k=4")

    def test_the_program_is_looked_for(self):
        before = os.environ["TILEWRIGHT_TUNE_CLI"]
        self.addCleanup(os.environ.__setitem__, "TILEWRIGHT_TUNE_CLI", before)
        os.environ["TILEWRIGHT_TUNE_CLI"] = "/nowhere/tune-cli"
        with self.assertRaisesRegex(tilewright.DeviceError, "is '/nowhere/tune-cli'; expected a"):
            self.tune("matmul:m=4,n=4,k=4")

    def interrupt(self, *signals: signal.Signals) -> subprocess.CompletedProcess:
        """Tunes in another Python, which alone gets the signals once a trial was stored; the programs
        that it has started go into `programs`."""
        program = textwrap.dedent(f"""
            import tilewright
            try:
                tilewright.tune("matmul:m=64,n=64,k=64", db={str(self.database)!r}, threads=1,
                                trials=100000, progress=lambda line: print(line, flush=True))
            except KeyboardInterrupt as error:
                print("interrupted:", error)
            """)
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        try:
            for line in process.stdout:
                self.lines.append(line)
                if self.finished_trials() > 0:
                    break
            self.programs = started_by(process.pid)
            for sent in signals:
                process.send_signal(sent)
            output, errors = process.communicate(timeout=300)
        finally:
            process.kill()
        return subprocess.CompletedProcess([], process.returncode, output, errors)

    def finished_trials(self) -> int:
        listed = subprocess.run(
            [os.environ["TILEWRIGHT_TUNE_CLI"], "best", "--json", "--threads", "1", "--db",
             self.database], capture_output=True, text=True, check=False)
        return listed.stdout.count('"seconds"')

    def test_ctrl_c_keeps_what_is_finished(self):
        done = self.interrupt(signal.SIGINT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "interrupted: tuning was interrupted; finished trials are in")
        self.assertGreater(self.finished_trials(), 0)

    def test_what_ends_python_ends_the_program(self):
        for sent in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            with self.subTest(sent.name):
                self.database.unlink(missing_ok=True)
                done = self.interrupt(sent)
                self.assertEqual(done.returncode, -sent, done.stderr)
                self.assertEqual(len(self.programs), 1)
                self.assertTrue(wait_until(lambda: not is_running(self.programs[0])),
                                "tune-cli runs on with nobody to tune for")
                self.assertGreater(self.finished_trials(), 0)


class Stream(io.StringIO):
    def __init__(self, terminal: bool):
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


class ShownProgress(unittest.TestCase):
    LINES = ["[1/2] ffn, trial 3/8, best 2.1 ms, 12.0 GFLOP/s, 3s, 9s left",
             "tilewright: something is odd", "[2/2] matmul, trial 8/8, best 1.0 us"]

    def shown(self, progress, terminal: bool = True, modules=None) -> str:
        stream = Stream(terminal)
        with mock.patch.object(sys, "stderr", stream), \
                mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None, **(modules or {})}):
            show = progress_of(progress)
            for line in self.LINES:
                show(line)
            show.close()
        return stream.getvalue()

    def test_a_bar_counts_the_trials_of_all_workloads(self):
        text = self.shown("auto")
        drawn = [line.rstrip() for line in re.split("[\r\n]", text) if line.strip()]
        self.assertEqual(drawn, [
            "[1/2] ffn |###-----------------| 3/16, best 2.1 ms, 12.0 GFLOP/s, 3s, 9s left",
            "tilewright: something is odd",
            "[2/2] matmul |#############-------| 11/16, best 1.0 us"])
        self.assertTrue(text.endswith("\n"))

    def test_without_a_terminal_there_are_lines(self):
        self.assertEqual(self.shown("auto", terminal=False).splitlines(), self.LINES)
        self.assertEqual(self.shown("lines").splitlines(), self.LINES)

    def test_tqdm_draws_where_it_is_installed(self):
        calls = []

        class Tqdm:
            def __init__(self, unit):
                self.n, self.total = 0, None

            def update(self, more):
                self.n += more

            def refresh(self):
                calls.append((self.n, self.total, self.told, self.rest))

            def set_description_str(self, text, refresh):
                self.told = text

            def set_postfix_str(self, text, refresh):
                self.rest = text

            def write(self, line, file):
                calls.append(line)

            def close(self):
                calls.append("closed")

        module = types.ModuleType("tqdm.auto")
        module.tqdm = Tqdm
        self.shown("bar", modules={"tqdm": types.ModuleType("tqdm"), "tqdm.auto": module})
        self.assertEqual(calls, [(3, 16, "[1/2] ffn", "best 2.1 ms, 12.0 GFLOP/s, 3s, 9s left"),
                                 "tilewright: something is odd",
                                 (11, 16, "[2/2] matmul", "best 1.0 us"), "closed"])

    def test_other_words_are_refused(self):
        with self.assertRaisesRegex(tilewright.ArgumentError, "progress is 'dots'; expected 'auto'"):
            progress_of("dots")


if __name__ == "__main__":
    main()
