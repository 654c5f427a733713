#!/usr/bin/env python3
"""Runs model files beside ONNX Runtime, OpenVINO, IREE, TVM and ncnn: in turns in one process, on one pinned thread,
by CPU time.

For each pair MODEL.onnx=MODEL.tw it prints the medians in milliseconds, the ratio to the fastest peer (above 1:
Tilewright is faster), and how far its outputs are from each peer's, as a share of the largest output. Inputs are
random. With --threads all sides have so many, and the wall's clock counts: a machine without other work is
needed. The peers compute in f32. OpenVINO has one stream, and TVM is not tuned. A peer takes part where its package
is installed. IREE, TVM and ncnn compile the model first, on the same threads, from a copy with the shapes of the
inputs, folded constants and a new opset (Python package onnx); they take no part in --start.
`tune-cli bench MODEL.tw --onnx MODEL.onnx` runs this script, which is a part of it.
With --start each side loads the model and runs it once in a process of its own: CPU time from before the load to
after the run, and how far the process's peak memory rose, medians of rounds in turns. Imports of Python modules
do not count. Needs the Python package numpy and those of the peers, and libtilewright.so; scripts/peer_models
installs the packages, and a run of this script finds them."""
import argparse
import ctypes
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

if "model_peers" not in sys.modules:  # tune-cli brings it along
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "models"))
from model_peers import LOADING, PEERS, OnnxRuntime, OpenVino, module_of, reason_of, version_of  # noqa: E402

LEAST, SLOW = 7, 20  # rounds of all; a peer that takes so many times as long has no more, and its time does not count
TYPES = {"float32": (2, 32), "float16": (2, 16), "float64": (2, 64), "int64": (0, 64), "int32": (0, 32),
         "int8": (0, 8), "uint8": (1, 8), "bool": (1, 8)}


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


class Port(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("ndim", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64))]


class Args(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("inputs", ctypes.POINTER(ctypes.POINTER(DLTensor))),
                ("input_count", ctypes.c_size_t), ("outputs", ctypes.POINTER(ctypes.POINTER(DLTensor))),
                ("output_count", ctypes.c_size_t), ("executor", ctypes.c_void_p), ("profile", ctypes.c_int32)]


class Model:
    """A model file through the C interface."""

    def __init__(self, library, path: str, executor: int | None):
        self.library = library
        self.executor = executor
        self.model = ctypes.c_void_p()
        self.check(library.tw_model_open(path.encode(), None, ctypes.byref(self.model)))
        self.inputs = self.ports(library.tw_model_input_count, library.tw_model_input_at)
        self.outputs = self.ports(library.tw_model_output_count, library.tw_model_output_at)

    def check(self, status: int) -> None:
        if status != 0:
            self.library.tw_last_error.restype = ctypes.c_char_p
            sys.exit("bench_models: " + self.library.tw_last_error().decode())

    def ports(self, count, at) -> list[tuple[str, str, list[int]]]:
        count.restype = ctypes.c_size_t
        found = []
        for index in range(count(self.model)):
            port = Port(struct_size=ctypes.sizeof(Port))
            self.check(at(self.model, ctypes.c_size_t(index), ctypes.byref(port)))
            kind = next(name for name, code in TYPES.items() if code == (port.code, port.bits))
            found.append((port.name.decode(), kind, port.shape[:port.ndim]))
        return found

    def bind(self, inputs: dict) -> list:
        """Keeps the tensors of a run; returns the arrays of its outputs."""
        import numpy as np
        outputs = [np.empty(shape, kind) for _, kind, shape in self.outputs]
        arrays = [[np.asarray(inputs[name], order="C") for name, _, _ in self.inputs], outputs]
        self.kept, pointers = [arrays], []
        for side in arrays:
            tensors = []
            for array in side:
                shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
                code, bits = TYPES[array.dtype.name]
                tensors.append(DLTensor(array.ctypes.data, 1, 0, array.ndim, code, bits, 1, shape, None, 0))
                self.kept.append(shape)
            row = (ctypes.POINTER(DLTensor) * max(1, len(tensors)))(*[ctypes.pointer(t) for t in tensors])
            self.kept += [tensors, row]
            pointers.append((row, len(side)))
        self.args = Args(ctypes.sizeof(Args), *pointers[0], *pointers[1], self.executor, 0)
        return outputs

    def run(self) -> None:
        self.check(self.library.tw_model_run(self.model, ctypes.byref(self.args)))


def random_inputs(ports, seed: int) -> dict:
    import numpy as np
    generator, inputs = np.random.default_rng(seed), {}
    for name, kind, shape in ports:
        if kind.startswith("float"):
            inputs[name] = np.asarray(generator.standard_normal(shape), kind)
        else:
            most = 2 if "mask" in name or "type" in name or kind == "bool" else 100
            inputs[name] = np.asarray(generator.integers(0, most, shape), kind)
    return inputs


def seconds_of(run, clock) -> float:
    start = clock()
    run()
    return clock() - start


def pool_of(library, threads: int) -> int | None:
    """The executor of a pool of threads; none for the calling thread."""
    if threads == 1:
        return None
    pool = ctypes.c_void_p()
    if library.tw_pool_start(threads, ctypes.byref(pool)) != 0:
        sys.exit(f"bench_models: no pool of {threads} threads")
    library.tw_pool_executor.restype = ctypes.c_void_p
    return library.tw_pool_executor(pool)


def constants_of(given: list[str], onnx: str) -> dict:
    """Inputs of the model that its file has as constants: NAME=NUMBER, in the types that the model has."""
    import numpy as np
    if not given:
        return {}
    numbers = dict(text.split("=", 1) for text in given)
    kinds = {"tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(double)": "float64", "tensor(bool)": "bool"}
    if module := module_of(OnnxRuntime):
        ports = OnnxRuntime(module, onnx, {}, 1).session.get_inputs()
        found = {port.name: (kinds.get(port.type, "float32"), len(port.shape)) for port in ports}
    else:
        ports = module_of(OpenVino).Core().read_model(onnx).inputs
        found = {name: (np.dtype(port.element_type.to_dtype()).name, len(port.partial_shape))
                 for port in ports for name in port.names}
    if unknown := numbers.keys() - found.keys():
        sys.exit(f"bench_models: --const: {onnx} has no input {', '.join(sorted(unknown))}; it has "
                 + ", ".join(found))
    return {name: np.full([1] * found[name][1], float(number), found[name][0]) for name, number in numbers.items()}


def difference(outputs: list, wanted: list) -> float:
    """The largest one, as a share of the output's largest magnitude. Throws ValueError where they do not compare."""
    import numpy as np
    errors = []
    for got, want in zip(outputs, wanted):
        got, want = got.astype(float), np.asarray(want).astype(float)
        if got.shape != want.shape:
            raise ValueError(f"its output has the shape {list(want.shape)}, the model file's {list(got.shape)}")
        if (np.isnan(got) != np.isnan(want)).any():
            raise ValueError("its output and the model file's have no numbers at different places")
        off = np.abs(got - want)[np.isfinite(want)]
        errors.append(float(off.max(initial=0) / max(1e-6, np.abs(want[np.isfinite(want)]).max(initial=0))))
    return max(errors)


def compare(library, onnx: str, compiled: str, given) -> dict:
    threads = given.threads
    clock = time.perf_counter if threads > 1 else time.process_time
    model = Model(library, compiled, pool_of(library, threads))
    inputs = random_inputs(model.inputs, given.seed)
    outputs = model.bind(inputs)
    model.run()
    sides, versions, errors, failed = {"tilewright": model.run}, {}, {}, {}
    present = {peer: module for peer in PEERS if (module := module_of(peer))}
    known = {**inputs, **(constants_of(given.const, onnx) if present else {})}
    for peer, module in present.items():
        try:
            side = peer(module, onnx, known, threads, given.peer_precision)
            side.run()
            errors[peer.package] = difference(outputs, side.outputs())
        except Exception as problem:  # any class of it: a peer that cannot run the model takes no part
            failed[peer.package] = reason_of(problem)
            continue
        sides[peer.package], versions[peer.package] = side.run, version_of(peer, module).split("-")[0]
    times = {name: [] for name in sides}

    def slow(name: str) -> bool:
        return times[name][-1] > SLOW * times["tilewright"][-1]

    end = time.monotonic() + given.seconds
    while time.monotonic() < end or len(times["tilewright"]) < LEAST:
        if given.parent and os.getppid() != given.parent:
            sys.exit("bench_models: nobody waits for the result")
        for name, run in sides.items():
            if len(times[name]) >= LEAST and slow(name):
                continue
            if threads > 1:  # the other side's threads wait in a loop for a while
                time.sleep(0.02)
                run()
            times[name].append(seconds_of(run, clock))
            if slow(name):
                end += times[name][-1] * (2 if threads > 1 else 1)
    row = {name: statistics.median(all_times) * 1e3 for name, all_times in times.items()}
    best = min((time for name, time in row.items() if name != "tilewright"), default=None)
    return {"model": os.path.basename(onnx), **row, "ratio": best and best / row["tilewright"],
            "rounds": len(times["tilewright"]), "errors": errors, "versions": versions, "failed": failed,
            "absent": [peer.package for peer in PEERS if peer not in present]}


def memory_kib(entry: str) -> int:
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(entry + ":"))


def start_side(library, side: str, onnx: str, compiled: str, threads: int) -> None:
    """Loads a model and runs it once; prints CPU seconds, and MiB that the process grew by.

    `side` is a name and a file of inputs.
    """
    import numpy as np
    side, _, file = side.partition("=")
    with np.load(file) as arrays:
        inputs = dict(arrays)
    peer = next((peer for peer in PEERS if peer.package == side), None)
    module = module_of(peer) if peer else None
    with open("/proc/self/clear_refs", "w", encoding="ascii") as peak:
        peak.write("5")  # the peak begins anew
    before, start = memory_kib("VmRSS"), time.process_time()
    if peer:
        peer(module, onnx, inputs, threads).run()
    else:
        model = Model(library, compiled, pool_of(library, threads))
        model.bind(inputs)
        model.run()
    print(time.process_time() - start, (memory_kib("VmHWM") - before) / 1024)


def start_row(given, library, onnx: str, compiled: str, folder: str) -> dict:
    import numpy as np
    row, file = {"model": os.path.basename(onnx)}, os.path.join(folder, "inputs.npz")
    inputs = random_inputs(Model(library, compiled, None).inputs, given.seed)
    np.savez(file, **inputs, **constants_of(given.const, onnx))
    runs = {side: [] for side in ("tilewright", *[peer.package for peer in LOADING if module_of(peer)])}
    for _ in range(given.rounds):  # in turns, so that all sides see the machine's good and bad moments
        for side, figures in runs.items():
            command = [sys.executable, __file__, f"{onnx}={compiled}", "--library", given.library,
                       "--threads", str(given.threads), "--cpu", str(given.cpu), "--side", f"{side}={file}"]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode != 0:
                sys.exit(f"bench_models: {side}: {run.stderr.strip()}")
            figures.append([float(figure) for figure in run.stdout.split()])
    for side, figures in runs.items():
        seconds, memory = (statistics.median(column) for column in zip(*figures))
        row[side] = {"seconds": seconds, "mib": memory}
    return row


def line_of(row: dict) -> str:
    text = f"{row['model']}: {row['tilewright']:.3f} ms"
    for peer in PEERS:
        if peer.package in row:
            text += f", {peer.title} {row[peer.package]:.3f} ms (error {row['errors'][peer.package]:.1e})"
        elif peer.package in row["failed"]:
            text += f", {peer.title} failed: {row['failed'][peer.package]}"
    if row["ratio"]:
        text += f", ratio {row['ratio']:.2f}"
    return f"{text}, {row['rounds']} rounds"


def enter_environment() -> None:
    """Goes on in the environment of scripts/peer_models where this Python has no peer; exits 4 without one."""
    if any(map(importlib.util.find_spec, (peer.package for peer in PEERS))):
        return
    root = os.environ.get("TILEWRIGHT_PEERS_PREFIX") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tilewright", "peers")
    python = os.path.join(root, "models", "bin", "python")
    started_as_file = sys.argv[0] != "-"  # tune-cli hands it over on standard input, in the right Python
    if started_as_file and os.path.exists(python) and sys.executable != python:
        os.execv(python, [python, *sys.argv])
    print(f"no peer is installed: {', '.join(peer.package for peer in PEERS)}", file=sys.stderr)
    if started_as_file:
        print("bench_models: scripts/peer_models installs them", file=sys.stderr)
    sys.exit(4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx=MODEL.tw")
    parser.add_argument("--library", default="build/release/libtilewright.so")
    parser.add_argument("--seconds", type=float, default=10, help="for each model (10)")
    parser.add_argument("--cpu", type=int, default=0, help="the processor to pin to, with one thread (0)")
    parser.add_argument("--threads", type=int, default=1, help="threads on each side (1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs (0)")
    parser.add_argument("--const", action="append", default=[], metavar="INPUT=NUMBER",
                        help="an input that the model file has as a constant, as compile was told")
    parser.add_argument("--peer-precision", choices=("f32", "default"), default="f32",
                        help="OpenVINO's precision, whose default is bf16 where the processor has it (f32)")
    parser.add_argument("--start", action="store_true", help="measure the load with the first run")
    parser.add_argument("--rounds", type=int, default=7, help="of --start (7)")
    parser.add_argument("--parent", type=int, help="stop when the process that started this one is another one")
    parser.add_argument("--side", help=argparse.SUPPRESS)  # a process of --start
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    enter_environment()
    if given.threads == 1:
        os.sched_setaffinity(0, {given.cpu})
    library = ctypes.CDLL(os.path.abspath(given.library))
    rows = []
    for pair in given.models:
        onnx, _, compiled = pair.rpartition("=")
        if not onnx:
            parser.error(f"expected MODEL.onnx=MODEL.tw, got '{pair}'")
        if given.side:
            start_side(library, given.side, onnx, compiled, given.threads)
            return
        if given.start:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(start_row(given, library, onnx, compiled, folder))
            if not given.json:
                print(rows[-1]["model"] + ": " + ", ".join(
                    f"{side} {figures['seconds'] * 1e3:.1f} ms, {figures['mib']:.1f} MiB"
                    for side, figures in rows[-1].items() if side != "model"), flush=True)
            continue
        rows.append(compare(library, onnx, compiled, given))
        if not given.json:
            print(line_of(rows[-1]), flush=True)
    if given.json:
        print(json.dumps({"results": rows}))
    elif len(rows) > 1 and not given.start and all(row["ratio"] for row in rows):
        print(f"geometric mean of the ratios: {statistics.geometric_mean(row['ratio'] for row in rows):.3f}")


if __name__ == "__main__":
    main()
