#!/usr/bin/env python3
"""A model of PyTorch through torch.compile(backend="tilewright"): first call, table, tuning, table.

The folder keeps its files: the second start makes none. Needs PyTorch, onnxscript and tune-cli.
"""
import argparse
import logging

import torch
from torch import nn

import tilewright.torch


class Block(nn.Module):
    """A transformer's layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="of the files; made where it is missing")
    parser.add_argument("--tune", metavar="TIME", help="search for so long for faster kernels, such as 1m")
    parser.add_argument("--fallback", choices=["inductor", "eager"], default="inductor")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(options.width, 4) for _ in range(options.layers))).eval()
    x = torch.randn(1, 64, options.width)

    compiled = torch.compile(model, backend=tilewright.torch.backend,
                             options={"folder": options.folder, "fallback": options.fallback})
    with torch.inference_mode():
        y = compiled(x)
        print(f"largest difference from eager: {float((y - model(x)).abs().max()):.2g}")
        print(tilewright.torch.report())
        if options.tune:
            print(tilewright.torch.tune(options.tune))
            compiled(x)


if __name__ == "__main__":
    main()
