#!/usr/bin/env python3
"""Runs model files beside ONNX Runtime and OpenVINO: in turns in one process, on one pinned thread, by CPU time.

For each pair MODEL.onnx=MODEL.tw it prints the medians in milliseconds, the ratio to the faster peer (above 1:
Tilewright is faster), and how far its outputs are from ONNX Runtime's, as a share of the largest output. Inputs
are random. With --threads all sides have so many, and the wall's clock counts: a machine without other work is
needed. The peers compute in f32. OpenVINO has one stream; it takes part where its package is installed.
With --start each side loads the model and runs it once in a process of its own: CPU time from before the load to
after the run, and how far the process's peak memory rose. Imports of Python modules do not count.
Needs the Python packages onnxruntime and numpy, and libtilewright.so."""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

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
        arrays = [[np.ascontiguousarray(inputs[name]) for name, _, _ in self.inputs], outputs]
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


def random_inputs(ports, generator) -> dict:
    inputs = {}
    for name, kind, shape in ports:
        if kind.startswith("float"):
            inputs[name] = generator.standard_normal(shape).astype(kind)
        else:
            most = 2 if "mask" in name or "type" in name or kind == "bool" else 100
            inputs[name] = generator.integers(0, most, shape).astype(kind)
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


def openvino_run(onnx: str, inputs: dict, threads: int):
    """A function that runs the model in OpenVINO; None where the package is missing or refuses the model."""
    try:
        import openvino
    except ImportError:
        return None
    core = openvino.Core()
    try:
        model = core.read_model(onnx)
    except RuntimeError as error:
        print(f"bench_models: OpenVINO refuses {onnx}: {str(error).splitlines()[-1]}", file=sys.stderr)
        return None
    names = {name: port for port in model.inputs for name in port.names}
    model.reshape({names[name]: list(array.shape) for name, array in inputs.items()})
    request = core.compile_model(model, "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads),
        "ENABLE_CPU_PINNING": False}).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    return request.infer


def onnxruntime_session(onnx: str, threads: int):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])


def compare(library, onnx: str, compiled: str, seconds: float, threads: int) -> dict:
    import numpy as np
    clock = time.perf_counter if threads > 1 else time.process_time
    session = onnxruntime_session(onnx, threads)
    model = Model(library, compiled, pool_of(library, threads))
    inputs = random_inputs(model.inputs, np.random.default_rng(0))
    outputs = model.bind(inputs)
    wanted = session.run(None, inputs)
    model.run()
    error = max(float(np.abs(got.astype(float) - want).max() / max(1e-6, np.abs(want.astype(float)).max()))
                for got, want in zip(outputs, wanted))
    sides = {"tilewright": model.run, "onnxruntime": lambda: session.run(None, inputs)}
    if openvino := openvino_run(onnx, inputs, threads):
        sides["openvino"] = openvino
    times = {name: [] for name in sides}
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times["tilewright"]) < 7:
        for name, run in sides.items():
            if threads > 1:  # the other side's threads wait in a loop for a while
                time.sleep(0.02)
                run()
            times[name].append(seconds_of(run, clock))
    row = {name: statistics.median(all_times) * 1e3 for name, all_times in times.items()}
    best = min(time for name, time in row.items() if name != "tilewright")
    return {"model": os.path.basename(onnx), **row, "ratio": best / row["tilewright"],
            "rounds": len(times["tilewright"]), "error": error}


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
    if side != "tilewright":
        __import__(side)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as peak:
        peak.write("5")  # the peak begins anew
    before, start = memory_kib("VmRSS"), time.process_time()
    if side == "tilewright":
        model = Model(library, compiled, pool_of(library, threads))
        model.bind(inputs)
        model.run()
    elif side == "openvino":
        openvino_run(onnx, inputs, threads)()
    else:
        onnxruntime_session(onnx, threads).run(None, inputs)
    print(time.process_time() - start, (memory_kib("VmHWM") - before) / 1024)


def start_row(given, library, onnx: str, compiled: str, folder: str) -> dict:
    import numpy as np
    row, file = {"model": os.path.basename(onnx)}, os.path.join(folder, "inputs.npz")
    np.savez(file, **random_inputs(Model(library, compiled, None).inputs, np.random.default_rng(0)))
    for side in ("tilewright", "onnxruntime", "openvino"):
        command = [sys.executable, __file__, f"{onnx}={compiled}", "--library", given.library,
                   "--threads", str(given.threads), "--cpu", str(given.cpu), "--side", f"{side}={file}"]
        runs = [subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(5)]
        if any(run.returncode != 0 for run in runs):
            if side != "openvino":
                sys.exit(f"bench_models: {side}: {runs[0].stderr.strip()}")
            continue
        figures = [[float(figure) for figure in run.stdout.split()] for run in runs]
        seconds, memory = (statistics.median(column) for column in zip(*figures))
        row[side] = {"seconds": seconds, "mib": memory}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx=MODEL.tw")
    parser.add_argument("--library", default="build/release/libtilewright.so")
    parser.add_argument("--seconds", type=float, default=10, help="for each model (10)")
    parser.add_argument("--cpu", type=int, default=0, help="the processor to pin to, with one thread (0)")
    parser.add_argument("--threads", type=int, default=1, help="threads on each side (1)")
    parser.add_argument("--start", action="store_true", help="measure the load with the first run")
    parser.add_argument("--side", help=argparse.SUPPRESS)  # a process of --start
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
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
                    f"{side} {figures['seconds'] * 1e3:.0f} ms, {figures['mib']:.0f} MiB"
                    for side, figures in rows[-1].items() if side != "model"), flush=True)
            continue
        rows.append(compare(library, onnx, compiled, given.seconds, given.threads))
        if not given.json:
            row = rows[-1]
            peers = f"ONNX Runtime {row['onnxruntime']:.3f} ms"
            if "openvino" in row:
                peers += f", OpenVINO {row['openvino']:.3f} ms"
            print(f"{row['model']}: {row['tilewright']:.3f} ms, {peers}, ratio {row['ratio']:.2f}, "
                  f"{row['rounds']} rounds, error {row['error']:.1e}", flush=True)
    if given.json:
        print(json.dumps({"results": rows}))
    elif len(rows) > 1 and not given.start:
        print(f"geometric mean of the ratios: {statistics.geometric_mean(row['ratio'] for row in rows):.3f}")


if __name__ == "__main__":
    main()
