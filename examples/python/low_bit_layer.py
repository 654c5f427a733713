#!/usr/bin/env python3
"""A layer Y = X * W with weights of 4 bits, for batches of 1 to 16 rows: tuned, packed, launched, and
held against NumPy.

    python low_bit_layer.py [kernels.db [trials]]
"""
import sys

import numpy as np

import tilewright

N, K, GROUP, THREADS = 64, 128, 32, 2
SPEC = f"matmul:m=1..16,n={N},k={K},w.dtype=i4,w.group={GROUP}"


def main(database: str = "kernels.db", trials: int = 16) -> None:
    # Once for this machine: search, check, store. Needs a C compiler; what follows does not.
    tilewright.tune(SPEC, db=database, trials=trials, threads=THREADS, progress=None)

    # Once in a process: the database, and the kernel that is the best for this machine.
    prepared = tilewright.Library(database).prepare(SPEC, threads=THREADS)
    for line in prepared.report:
        print(f"{line.spec} {line.sizes}: {line.outcome}, {line.seconds * 1e6:.1f} us")
    kernel = prepared[SPEC]

    # Once a layer: codes of 4 bits, two in a byte and the first in the low half, and a scale for each
    # group of 32 rows. The kernel's layout is its own; the arrays are not needed afterwards.
    random = np.random.default_rng(1)
    codes = random.integers(-8, 8, (K, N))
    scale = tilewright.empty((K // GROUP, N))
    scale[:] = random.uniform(0.01, 0.04, scale.shape)
    packed = tilewright.empty((K, N), "i4")
    packed[:] = (codes[:, 0::2] & 15) | (codes[:, 1::2] & 15) << 4
    weights = kernel.pack({"B": packed, "B.scale": scale})

    # Each time: the batch's size is read off the array.
    w = codes * np.repeat(scale, GROUP, axis=0)
    largest = 0.0
    with tilewright.Pool(THREADS) as pool:
        for rows in (1, 5, 16):
            x = tilewright.empty((rows, K))
            x[:] = random.standard_normal(x.shape)
            y = kernel(x, weights=weights, pool=pool)
            largest = max(largest, float(np.abs(y - x @ w).max()))
    print(f"tilewright {tilewright.__version__}: 1, 5 and 16 rows, largest error {largest:.1e}")
    if largest > 1e-3:
        sys.exit("the results differ from NumPy's")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
