#!/usr/bin/env python3
"""Times sessions of ONNX Runtime with the provider and without, in turns, on one model.

Each way after "cpu", which is always there, is a comma-separated list of the provider's options, such as
models=FOLDER or database=kernels.db,trial=0. Prints the time of creating a session (medians of --sessions), the time of
a run, and the ratio of the CPU provider's time to it: the median over rounds in turns, with their first and last tenth.
ONNX Runtime is that of the environment, the package onnxruntime_ep_tilewright that of PYTHONPATH.
"""
import argparse
import collections
import json
import pathlib
import statistics
import sys
import time


def parsed(way: str) -> dict[str, str]:
    """A part without '=' belongs to the list before it, as in exclude=Softmax,Gelu."""
    options: dict[str, str] = {}
    for part in way.split(","):
        name, equals, value = part.partition("=")
        if equals:
            options[name] = value
        elif options:
            options[list(options)[-1]] += "," + part
        else:
            sys.exit(f"{sys.argv[0]}: '{way}' is no list of options; expected NAME=VALUE,NAME=VALUE as in "
                     "database=kernels.db")
    return options


def share(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="an ONNX file of fixed sizes")
    parser.add_argument("ways", nargs="+", metavar="OPTIONS", help="a session of the provider: NAME=VALUE,NAME=VALUE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=3, help="sessions of each way, the last of which runs")
    parser.add_argument("--rounds", type=int, default=60, help="turns of each way")
    parser.add_argument("--seconds", type=float, default=0.03, help="a turn repeats runs for about so long")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    arguments = parser.parse_args()
    import numpy as np
    import onnxruntime
    import onnxruntime_ep_tilewright as provider
    ways = {"cpu": None} | {way: parsed(way) for way in arguments.ways}

    def session(options: dict[str, str] | None):
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = arguments.threads
        settings.log_severity_level = 2  # warnings: which nodes run as before, and why
        began = time.perf_counter()
        if options is None:
            made = onnxruntime.InferenceSession(arguments.model, settings, providers=["CPUExecutionProvider"])
        else:
            made = onnxruntime.InferenceSession(arguments.model, provider.add_to(settings, **options))
        return made, time.perf_counter() - began

    created, sessions = collections.defaultdict(list), {}
    for _ in range(arguments.sessions):
        for way, options in ways.items():
            sessions[way], seconds = session(options)
            created[way].append(seconds)
    random = np.random.default_rng(0)
    types = {"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(uint8)": "u1", "tensor(int8)": "i1"}
    inputs = {}
    for port in sessions["cpu"].get_inputs():
        if port.type not in types or not all(isinstance(size, int) for size in port.shape):
            sys.exit(f"{sys.argv[0]}: input '{port.name}' is {port.type}{port.shape}; expected fixed sizes of one of "
                     f"{', '.join(types)}")
        made = random.standard_normal(port.shape) if port.type == "tensor(float)" else np.ones(port.shape)
        inputs[port.name] = made.astype(types[port.type])
    want = sessions["cpu"].run(None, inputs)
    began = time.perf_counter()
    sessions["cpu"].run(None, inputs)
    runs = max(1, round(arguments.seconds / (time.perf_counter() - began)))
    times = collections.defaultdict(list)
    for turn in range(arguments.rounds):
        order = list(sessions.items())
        for way, made in order[turn % len(order):] + order[:turn % len(order)]:
            began = time.perf_counter()
            for _ in range(runs):
                made.run(None, inputs)
            times[way].append((time.perf_counter() - began) / runs)
    rows = []
    for way, made in sessions.items():
        ratios = [cpu / own for cpu, own in zip(times["cpu"], times[way])]
        got = made.run(None, inputs)
        # np.max keeps a NaN, which max() may pass over.
        difference = float(np.max([0.0] + [np.abs(a.astype("f8") - b).max() / max(np.abs(b).max(), 1e-30)
                                           for a, b in zip(got, want) if b.size > 0]))
        rows.append({"options": way, "creation_seconds": statistics.median(created[way]),
                     "run_seconds": statistics.median(times[way]), "ratio": statistics.median(ratios),
                     "ratio_first_tenth": share(ratios, 0.1), "ratio_last_tenth": share(ratios, 0.9),
                     "largest_difference": difference})
    if arguments.json:
        print(json.dumps({"model": str(arguments.model), "threads": arguments.threads,
                          "onnxruntime": onnxruntime.__version__, "rows": rows}, indent=2))
        return
    for row in rows:
        print(f"{row['options']}: created in {row['creation_seconds']:.2f} s, runs in {row['run_seconds'] * 1e3:.3f} ms, "
              f"ratio {row['ratio']:.2f} ({row['ratio_first_tenth']:.2f} to {row['ratio_last_tenth']:.2f}), "
              f"largest difference {row['largest_difference']:.1g}")


if __name__ == "__main__":
    main()
