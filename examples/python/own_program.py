#!/usr/bin/env python3
"""A program of one's own specs: a transformer's layer, in f32 and with weights of four bits, beside NumPy.

The files OUT.tw, OUT-u4.tw and OUT.db stay, so a second run tunes nothing. Needs NumPy and tune-cli."""
import argparse

import numpy as np

import tilewright

TOKENS, WIDTH, HEADS = 16, 64, 4
HEAD = WIDTH // HEADS


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "out": (WIDTH, WIDTH),
              "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    return {name: (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
            for name, shape in shapes.items()}


def layer(w: dict[str, np.ndarray]) -> tilewright.Graph:
    g = tilewright.Graph("layer")
    x = g.input("x", (TOKENS, WIDTH))
    ones, zeros = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)

    def normal(value: tilewright.Value) -> tilewright.Value:
        return g.op(f"layer_norm:m={TOKENS},n={WIDTH},affine=true", X=value, gamma=ones, beta=zeros)

    def product(value: tilewright.Value, name: str, epilogue: str = "", **more) -> tilewright.Value:
        k, n = w[name].shape
        return g.op(f"matmul:m={TOKENS},n={n},k={k}{epilogue}", A=value, B=w[name], label=name, **more)

    def heads(value: tilewright.Value) -> tilewright.Value:
        return g.op({"op": "expr", "expr": "Y[h, t, e] = X[t, h, e]",
                     "dims": {"h": HEADS, "t": TOKENS, "e": HEAD}},
                    X=g.view(value, (TOKENS, HEADS, HEAD)))

    first = normal(x)
    q, k, v = (heads(product(first, name)) for name in "qkv")
    attended = g.op(f"attention:heads={HEADS},m={TOKENS},n={TOKENS},d={HEAD}", Q=q, K=k, V=v)
    rows = g.op({"op": "expr", "expr": "Y[t, h, e] = X[h, t, e]",
                 "dims": {"h": HEADS, "t": TOKENS, "e": HEAD}}, X=attended)
    x = product(g.view(rows, (TOKENS, WIDTH)), "out", ",epilogue=[add]", D=x)
    up = product(normal(x), "up", ",epilogue=[silu]")
    g.output(product(up, "down", ",epilogue=[add]", D=x), "y")
    return g


def by_numpy(w: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    def normal(value: np.ndarray) -> np.ndarray:
        return (value - value.mean(-1, keepdims=True)) / np.sqrt(value.var(-1, keepdims=True) + 1e-5)

    q, k, v = (np.moveaxis((normal(x) @ w[n]).reshape(TOKENS, HEADS, HEAD), 1, 0) for n in "qkv")
    scores = np.exp(q @ np.moveaxis(k, 1, 2) / np.sqrt(HEAD))
    attended = scores / scores.sum(-1, keepdims=True) @ v
    x = x + np.moveaxis(attended, 0, 1).reshape(TOKENS, WIDTH) @ w["out"]
    up = normal(x) @ w["up"]
    return x + up / (1 + np.exp(-up)) @ w["down"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="what the files' names begin with")
    parser.add_argument("--trials", type=int, default=0, help="candidates for each kernel")
    options = parser.parse_args()
    w = weights()
    g = layer(w)
    common = {"db": f"{options.out}.db", "threads": 1, "trials": options.trials, "progress": None}
    told = g.compile(f"{options.out}.tw", **common)
    print(f"{told['nodes']} nodes, {told['kernels']} kernels")
    x = np.random.default_rng(1).standard_normal((TOKENS, WIDTH)).astype(np.float32)
    y = tilewright.Model(f"{options.out}.tw", threads=1)(x)
    print(f"largest difference from NumPy: {np.abs(y - by_numpy(w, x)).max():.1e}")
    few = g.compile(f"{options.out}-u4.tw", precision="u4:32", **common)
    print(f"four bits: {few['products']} products, outputs are off by {few['error']:.2g}")


if __name__ == "__main__":
    main()
