#!/usr/bin/env python3
"""A worker of a service in a container: it needs neither a compiler nor tune-cli, and writes nothing.

    python container_worker.py serve.db SPEC…      serves matmul specs with constant weights, and says how

Each spec is served by its kernel, or, where the database has none, by NumPy. One line on standard error says
so once, with the command that would tune the spec.
"""
import os
import sys

import numpy as np

import tilewright


def sizes_of(spec: str) -> tuple[int, int, int]:
    given = dict(pair.split("=") for pair in spec.partition(":")[2].split(",") if "=" in pair)
    return tuple(int(given[name]) for name in "mnk")


class Layer:
    """A product with one weight, by a kernel or by NumPy."""

    def __init__(self, prepared: tilewright.Prepared, spec: str, weight: np.ndarray) -> None:
        self.weight, self.kernel = weight, None
        outcomes = {line.outcome for line in prepared.report if line.spec == spec}
        if "miss" not in outcomes:
            self.kernel = prepared[spec]
            self.packed = self.kernel.pack({"B": weight})
        self.outcome = ",".join(sorted(outcomes))

    def __call__(self, x: np.ndarray, pool: tilewright.Pool) -> np.ndarray:
        return x @ self.weight if self.kernel is None else self.kernel(x, weights=self.packed, pool=pool)


def main(database: str, *specs: str) -> None:
    library = tilewright.Library(database, log=lambda line: print(f"tilewright: {line}", file=sys.stderr))
    with tilewright.Pool(len(os.sched_getaffinity(0))) as pool:
        prepared = library.prepare(specs, threads=1)
        random = np.random.default_rng(1)
        for spec in specs:
            m, n, k = sizes_of(spec)
            weight, x = tilewright.empty((k, n)), tilewright.empty((m, k))
            weight[:], x[:] = random.standard_normal((k, n)), random.standard_normal((m, k))
            layer = Layer(prepared, spec, weight)
            off = np.abs(layer(x, pool) - x @ weight).max()
            print(f"{spec}: {layer.outcome}, largest difference {off:.0e}")
            if off > 1e-3:
                sys.exit("the results differ from NumPy's")


if __name__ == "__main__":
    main(*sys.argv[1:])
