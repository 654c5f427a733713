#!/usr/bin/env python3
"""Times PyTorch on the CPU over specs: matmul, convolutions, softmax, layer_norm, attention,
in f32.

Prints one JSON document: {"pytorch": version, "threads": N, "results": [{"spec", "seconds"}]}; a
spec that it has no operator for gets "skipped" with the reason. Convolutions run with weights
prepacked for oneDNN (channels last) where the spec's layout is nhwc.
"""
import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peer_venv  # noqa: E402
from pytorch import install as pytorch_install  # noqa: E402


def axes_of(spec: dict, key: str, axes: int, fallback: int) -> list[int]:
    value = spec.get(key, fallback)
    if isinstance(value, str):
        return [int(part) for part in value.split("x")]
    if isinstance(value, list):
        return value * axes if len(value) == 1 else value
    return [value] * axes


def convolution(spec: dict, torch):
    """A module and its input for any of the convolutions."""
    op = spec["op"]
    axes = {"conv1d": 1, "conv3d": 3}.get(op, 2)
    extents = [spec[key] for key in {1: "l", 2: "hw", 3: "dhw"}[axes]]
    inputs = spec["c"] if op == "depthwise_conv2d" else spec["ci"]
    outputs = spec["c"] if op == "depthwise_conv2d" else spec["co"]
    groups = spec["c"] if op == "depthwise_conv2d" else spec.get("groups", 1)
    kind = (torch.nn.ConvTranspose2d if op == "conv2d_transpose"
            else (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)[axes - 1])
    module = kind(inputs, outputs, axes_of(spec, "kernel", axes, 1),
                  stride=axes_of(spec, "stride", axes, 1), padding=axes_of(spec, "pad", axes, 0),
                  dilation=axes_of(spec, "dilation", axes, 1), groups=groups, bias=False)
    x = torch.randn(spec["n"], inputs, *extents)
    if spec.get("layout", "nhwc") == "nhwc" and axes > 1:
        memory = torch.channels_last if axes == 2 else torch.channels_last_3d
        module, x = module.to(memory_format=memory), x.to(memory_format=memory)
    return lambda: module(x)


def attention(spec: dict, torch):
    batch, heads, d = spec.get("batch", 1), spec.get("heads", 1), spec["d"]
    shared, m, n = spec.get("kv_heads", heads), spec["m"], spec["n"]
    q = torch.randn(batch, heads, m, d)
    k = torch.randn(batch, shared, n, d)
    v = torch.randn(batch, shared, n, spec.get("dv", d))
    causal = spec.get("causal", False)
    # PyTorch's own flag aligns the first query with the first key; ours the last with the last.
    mask = torch.ones(m, n, dtype=torch.bool).tril(n - m) if causal and m != n else None
    return lambda: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=causal and m == n, scale=spec.get("scale"),
        enable_gqa=shared != heads)


def is_plain_f32(spec: dict) -> bool:
    # "w" is the width of a convolution's image where it is a number, or how weights are stored.
    stored = isinstance(spec.get("w"), dict) or any(key.startswith("w.") for key in spec)
    return spec.get("dtype", "f32") == "f32" and not spec.get("epilogue") and not stored


def operator(spec: dict, torch):
    """A function that runs the operator once; ValueError where there is none."""
    op = spec["op"]
    if not is_plain_f32(spec):
        raise ValueError("only plain f32")
    if op == "matmul":
        lead = [spec["batch"]] if spec.get("batch", 1) > 1 else []
        a = torch.randn(*lead, spec["m"], spec["k"])
        b = torch.randn(*lead, spec["k"], spec["n"])
        out = torch.empty(*lead, spec["m"], spec["n"])
        return lambda: torch.matmul(a, b, out=out)
    if "conv" in op and op != "capsule_conv2d":
        return convolution(spec, torch)
    if op in ("softmax", "layer_norm"):
        x = torch.randn(spec["m"], spec["n"])
        if op == "softmax":
            return lambda: torch.softmax(x, 1)
        return lambda: torch.nn.functional.layer_norm(x, x.shape[1:])
    if op == "attention":
        return attention(spec, torch)
    raise ValueError(f"no operator {op}")


def median_seconds(run) -> float:
    start = time.perf_counter()
    while time.perf_counter() - start < 0.1:
        run()
    samples = []
    while sum(samples) < 0.5 or len(samples) < 5:
        begin = time.perf_counter()
        run()
        samples.append(time.perf_counter() - begin)
    return sorted(samples)[len(samples) // 2]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", metavar="SPEC",
                        help="a file of specs or one spec as a JSON object")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--install", action="store_true",
                        help="install PyTorch if it is missing; it is large")
    options = parser.parse_args()
    peer_venv.enter("pytorch", "torch", pytorch_install.install, options.install)
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    results = []
    with torch.inference_mode():
        for spec in peer_venv.read_specs(options.specs):
            try:
                results.append({"spec": spec, "seconds": median_seconds(operator(spec, torch))})
            except (ValueError, RuntimeError) as error:
                results.append({"spec": spec, "skipped": str(error)})
    print(json.dumps({"pytorch": torch.__version__, "threads": options.threads,
                      "results": results}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
