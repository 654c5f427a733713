#!/usr/bin/env python3
"""Compiles a model for Tilewright's provider, runs it on ONNX Runtime with and without, and compares.

    python compare.py model.onnx models batch=1 seq=128
"""
import pathlib
import sys
import time

import numpy as np
import onnxruntime
import onnxruntime_ep_tilewright

THREADS = 2


def session(model: str, folder: str = "") -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    if folder:
        onnxruntime_ep_tilewright.add_to(options, models=folder)
    return onnxruntime.InferenceSession(model, options)


def inputs_of(made: onnxruntime.InferenceSession, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random floats, and ones for all other types."""
    random = np.random.default_rng(0)
    inputs = {}
    for port in made.get_inputs():
        # A size without a name goes by its input and axis, as for tune-cli.
        shape = [size if isinstance(size, int) else sizes[size if size in sizes else f"{port.name}.{axis}"]
                 for axis, size in enumerate(port.shape)]
        if port.type == "tensor(float)":
            inputs[port.name] = random.uniform(-1, 1, shape).astype(np.float32)
        else:
            name = port.type.removeprefix("tensor(").removesuffix(")")
            inputs[port.name] = np.ones(shape, "float64" if name == "double" else name)
    return inputs


def milliseconds(made: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray], runs: int = 20) -> float:
    start = time.perf_counter()
    for _ in range(runs):
        made.run(None, inputs)
    return (time.perf_counter() - start) / runs * 1e3


def main(model: str, folder: str, *dims: str) -> None:
    sizes = {name: int(size) for name, _, size in (dim.partition("=") for dim in dims)}
    # Once for this machine: needs tune-cli and a C compiler; what follows does not.
    if not list(pathlib.Path(folder).glob("*.tw")):
        arguments = [f"--dim={dim}" for dim in dims] + ["--threads", str(THREADS), "--time", "60"]
        onnxruntime_ep_tilewright.compile_model(model, folder, arguments)

    # Once in a process. The first one also tries the files.
    plain, tuned = session(model), session(model, folder)
    inputs = inputs_of(plain, sizes)
    for port, got, want in zip(plain.get_outputs(), tuned.run(None, inputs), plain.run(None, inputs)):
        apart = np.abs(got.astype(float) - want.astype(float)).max()
        print(f"{port.name}: at most {apart:.2g} apart, of {np.abs(want.astype(float)).max():.2g}")
    # In turns: the machine may have other work.
    rounds = [(milliseconds(plain, inputs), milliseconds(tuned, inputs)) for _ in range(10)]
    print("ms: {:.2f} with the CPU provider alone, {:.2f} with model files".format(*np.median(rounds, axis=0)))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
