#!/usr/bin/env python3
"""Writes transformers as ONNX files, in the spellings of PyTorch's exporters: MODEL.onnx for each MODEL.

  bert   an encoder as Hugging Face's BERT: ids, a mask of tokens, gelu by Erf, sums before normalizations
  gpt    a decoder as Hugging Face's GPT-2: Gemm, columns cut by Split, a mask by Where, gelu by Tanh
  vit    an image encoder as timm's ViT: one product for queries, keys and values, cut by Split
  llama  decoder blocks as Hugging Face's Llama: RMS norms, rotary positions, shared keys, a gated layer

With --ranged, bert and gpt take any number of sequences, batch, and of tokens, seq, up to 512: their
inputs name these dimensions. Weights are random with a fixed seed. Needs the Python packages onnx and numpy."""
import argparse
import pathlib
import sys

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    onnx = None


class Writer:
    """A model in the making. Nodes are called by their operator, and give the name of their output."""

    def __init__(self, name: str, opset: int):
        self.name, self.opset = name, opset
        self.random = np.random.default_rng(0)
        self.nodes, self.constants, self.inputs = [], [], []

    def input(self, name: str, shape: list[int], kind=None) -> str:
        kind = kind or TensorProto.FLOAT
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, array, kind=None) -> str:
        kind = kind or np.float32
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, kind), name))
        return name

    def numbers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def weight(self, *shape: int) -> str:
        return self.constant(self.random.standard_normal(shape) / np.sqrt(shape[0]))

    def row(self, size: int, around: float = 0) -> str:
        return self.constant(around + self.random.standard_normal(size) * 0.1)

    def __getattr__(self, op: str):
        def add(*inputs: str, outputs: int = 1, **attributes):
            names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
            self.nodes.append(helper.make_node(op, inputs, names, f"{op}_{len(self.nodes)}", **attributes))
            return names[0] if outputs == 1 else names
        return add

    def linear(self, x: str, rows: int, columns: int, bias: bool = True) -> str:
        product = self.MatMul(x, self.weight(rows, columns))
        return self.Add(self.row(columns), product) if bias else product

    def layer_norm(self, x: str, size: int) -> str:
        gamma, beta = self.row(size, 1), self.row(size)
        if self.opset >= 17:
            return self.LayerNormalization(x, gamma, beta, axis=-1, epsilon=1e-5)
        off = self.Sub(x, self.ReduceMean(x, axes=[-1]))
        variance = self.ReduceMean(self.Pow(off, self.constant(2)), axes=[-1])
        unit = self.Div(off, self.Sqrt(self.Add(variance, self.constant(1e-5))))
        return self.Add(self.Mul(unit, gamma), beta)

    def gelu(self, x: str) -> str:
        erf = self.Erf(self.Div(x, self.constant(2 ** 0.5)))
        return self.Mul(self.Mul(x, self.Add(erf, self.constant(1))), self.constant(0.5))

    def save(self, outputs: dict, path: pathlib.Path) -> None:
        declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, declared, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def heads_of(w: Writer, x: str, tokens: int, heads: int, size: int, order=(0, 2, 1, 3)) -> str:
    shape = (1, tokens) if isinstance(tokens, int) else (0, 0)  # 0: the size that x has
    return w.Transpose(w.Reshape(x, w.numbers(*shape, heads, size)), perm=order)


def size_of(w: Writer, x: str, axis: int) -> str:
    return w.Unsqueeze(w.Gather(w.Shape(x), w.constant(axis, np.int64)), w.numbers(0))


def bert(layers=3, tokens=128, hidden=384, heads=12, words=1000, path=None, opset=14, batch=1) -> None:
    w = Writer("bert", opset)
    ids = w.input("input_ids", [batch, tokens], TensorProto.INT64)
    mask = w.input("attention_mask", [batch, tokens], TensorProto.INT64)
    kept = w.Cast(w.Unsqueeze(mask, w.numbers(1, 2)), to=TensorProto.FLOAT)
    bias = w.Mul(w.Sub(w.constant(1), kept), w.constant(np.finfo(np.float32).min))
    if isinstance(tokens, int):
        places = w.constant(np.arange(tokens)[None], np.int64)
    else:
        places = w.Slice(w.constant(np.arange(512)[None], np.int64), w.numbers(0), size_of(w, ids, 1), w.numbers(1))
    places = w.Gather(w.weight(512, hidden), places)
    x = w.layer_norm(w.Add(w.Gather(w.weight(words, hidden), ids), places), hidden)
    size = hidden // heads
    for _ in range(layers):
        queries = heads_of(w, w.linear(x, hidden, hidden), tokens, heads, size)
        keys = heads_of(w, w.linear(x, hidden, hidden), tokens, heads, size, (0, 2, 3, 1))
        values = heads_of(w, w.linear(x, hidden, hidden), tokens, heads, size)
        scores = w.Add(w.Div(w.MatMul(queries, keys), w.constant(size ** 0.5)), bias)
        joined = w.Transpose(w.MatMul(w.Softmax(scores, axis=-1), values), perm=[0, 2, 1, 3])
        joined = w.Reshape(joined, w.numbers(*((1, tokens) if isinstance(tokens, int) else (0, 0)), hidden))
        x = w.layer_norm(w.Add(w.linear(joined, hidden, hidden), x), hidden)
        inner = w.gelu(w.linear(x, hidden, 4 * hidden))
        x = w.layer_norm(w.Add(w.linear(inner, 4 * hidden, hidden), x), hidden)
    outputs = {x: [batch, tokens, hidden]}
    if not isinstance(tokens, int):  # what a classifier reads
        first = w.Gather(x, w.constant(0, np.int64), axis=1)
        outputs[w.Tanh(w.linear(first, hidden, hidden))] = [batch, hidden]
    w.save(outputs, path)


def gpt(layers=3, tokens=128, hidden=384, heads=6, path=None, batch=1) -> None:
    w = Writer("gpt", 14)
    size = hidden // heads
    x = w.input("x", [batch, tokens, hidden])
    if isinstance(tokens, int):
        past = w.constant(np.tril(np.ones((1, 1, tokens, tokens))), np.bool_)
    else:
        past = w.constant(np.tril(np.ones((1, 1, 512, 512))), np.bool_)
        for axis in (2, 3):
            past = w.Slice(past, w.numbers(0), size_of(w, x, 1), w.numbers(axis))

    def gemm(v: str, rows: int, columns: int) -> str:
        product = w.Gemm(w.Reshape(v, w.numbers(-1, rows)), w.weight(rows, columns), w.row(columns))
        if isinstance(tokens, int):
            return w.Reshape(product, w.numbers(1, tokens, columns))
        return w.Reshape(product, w.Concat(size_of(w, v, 0), size_of(w, v, 1), w.numbers(columns), axis=0))

    for _ in range(layers):
        parts = w.Split(gemm(w.layer_norm(x, hidden), hidden, 3 * hidden), w.numbers(*[hidden] * 3), outputs=3, axis=2)
        queries, values = (heads_of(w, part, tokens, heads, size) for part in (parts[0], parts[2]))
        keys = heads_of(w, parts[1], tokens, heads, size, (0, 2, 3, 1))
        scores = w.Div(w.MatMul(queries, keys), w.constant(size ** 0.5))
        scores = w.Where(past, scores, w.constant(np.finfo(np.float32).min))
        joined = w.Transpose(w.MatMul(w.Softmax(scores, axis=-1), values), perm=[0, 2, 1, 3])
        joined = w.Reshape(joined, w.numbers(*((1, tokens) if isinstance(tokens, int) else (0, 0)), hidden))
        x = w.Add(gemm(joined, hidden, hidden), x)
        inner = gemm(w.layer_norm(x, hidden), hidden, 4 * hidden)
        cubed = w.Add(inner, w.Mul(w.Pow(inner, w.constant(3)), w.constant(0.044715)))
        tanh = w.Tanh(w.Mul(cubed, w.constant((2 / np.pi) ** 0.5)))
        x = w.Add(x, gemm(w.Mul(w.Mul(inner, w.constant(0.5)), w.Add(tanh, w.constant(1))), 4 * hidden, hidden))
    x = w.layer_norm(x, hidden)
    w.save({x: [batch, tokens, hidden]}, path)


def vit(layers=3, image=224, patch=16, hidden=384, heads=6, path=None) -> None:
    w = Writer("vit", 17)
    side, size = image // patch, hidden // heads
    tokens = side * side + 1
    pixels = w.input("pixels", [1, 3, image, image])
    kernels = w.constant(w.random.standard_normal((hidden, 3, patch, patch)) / (patch * 3 ** 0.5))
    patches = w.Conv(pixels, kernels, w.row(hidden), kernel_shape=[patch, patch], strides=[patch, patch])
    patches = w.Transpose(w.Reshape(patches, w.numbers(1, hidden, side * side)), perm=[0, 2, 1])
    x = w.Add(w.Concat(w.weight(1, 1, hidden), patches, axis=1), w.weight(1, tokens, hidden))
    for _ in range(layers):
        product = w.linear(w.layer_norm(x, hidden), hidden, 3 * hidden)
        product = w.Transpose(w.Reshape(product, w.numbers(1, tokens, 3, heads, size)), perm=[2, 0, 3, 1, 4])
        queries, keys, values = (w.Squeeze(part, w.numbers(0)) for part in w.Split(product, outputs=3, axis=0))
        half = w.constant(size ** -0.25)
        keys = w.Mul(w.Transpose(keys, perm=[0, 1, 3, 2]), half)
        weights = w.Softmax(w.MatMul(w.Mul(queries, half), keys), axis=-1)
        joined = w.Transpose(w.MatMul(weights, values), perm=[0, 2, 1, 3])
        x = w.Add(x, w.linear(w.Reshape(joined, w.numbers(1, tokens, hidden)), hidden, hidden))
        inner = w.gelu(w.linear(w.layer_norm(x, hidden), hidden, 4 * hidden))
        x = w.Add(x, w.linear(inner, 4 * hidden, hidden))
    first = w.Gather(w.layer_norm(x, hidden), w.constant(0, np.int64), axis=1)
    w.save({w.linear(first, hidden, 1000): [1, 1000]}, path)


def rms_norm(w: Writer, x: str, size: int) -> str:
    mean = w.ReduceMean(w.Pow(x, w.constant(2)), axes=[-1])
    root = w.Sqrt(w.Add(mean, w.constant(1e-6)))
    return w.Mul(w.row(size, 1), w.Mul(x, w.Div(w.constant(1), root)))


def llama(layers=2, tokens=128, hidden=512, heads=8, shared=2, inner=1408, path=None) -> None:
    w = Writer("llama", 17)
    size, groups = hidden // heads, heads // shared
    x = w.input("x", [1, tokens, hidden])
    angles = np.arange(tokens)[:, None] / 10000 ** (np.arange(0, size, 2) / size)
    angles = np.concatenate([angles, angles], 1)[None, None]
    cos, sin = w.constant(np.cos(angles)), w.constant(np.sin(angles))
    future = np.triu(np.full((tokens, tokens), np.finfo(np.float32).min), 1)[None, None]
    mask = w.constant(future)

    def rotated(v: str) -> str:
        low = w.Slice(v, w.numbers(0), w.numbers(size // 2), w.numbers(3), w.numbers(1))
        high = w.Slice(v, w.numbers(size // 2), w.numbers(2 ** 63 - 1), w.numbers(3), w.numbers(1))
        return w.Add(w.Mul(v, cos), w.Mul(w.Concat(w.Neg(high), low, axis=-1), sin))

    def repeated(v: str) -> str:
        wide = w.Expand(w.Unsqueeze(v, w.numbers(2)), w.numbers(1, shared, groups, tokens, size))
        return w.Reshape(wide, w.numbers(1, heads, tokens, size))

    for _ in range(layers):
        unit = rms_norm(w, x, hidden)
        queries = rotated(heads_of(w, w.linear(unit, hidden, hidden, False), tokens, heads, size))
        keys = rotated(heads_of(w, w.linear(unit, hidden, shared * size, False), tokens, shared, size))
        values = heads_of(w, w.linear(unit, hidden, shared * size, False), tokens, shared, size)
        keys = w.Transpose(repeated(keys), perm=[0, 1, 3, 2])
        scores = w.Add(w.Mul(w.MatMul(queries, keys), w.constant(size ** -0.5)), mask)
        joined = w.Transpose(w.MatMul(w.Softmax(scores, axis=-1), repeated(values)), perm=[0, 2, 1, 3])
        joined = w.Reshape(joined, w.numbers(1, tokens, hidden))
        x = w.Add(x, w.linear(joined, hidden, hidden, False))
        unit = rms_norm(w, x, hidden)
        gate, up = w.linear(unit, hidden, inner, False), w.linear(unit, hidden, inner, False)
        x = w.Add(x, w.linear(w.Mul(w.Mul(gate, w.Sigmoid(gate)), up), inner, hidden, False))
    x = rms_norm(w, x, hidden)
    w.save({x: [1, tokens, hidden]}, path)


MODELS = {"bert": bert, "gpt": gpt, "vit": vit, "llama": llama}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all by default")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), help="the folder (.)")
    parser.add_argument("--layers", type=int, help="in place of the model's own number")
    parser.add_argument("--ranged", action="store_true", help="name the dimensions batch and seq")
    given = parser.parse_args()
    if onnx is None:
        sys.exit("transformer_models.py: needs the Python packages onnx and numpy: pip install onnx numpy")
    for name in given.models or MODELS:
        if name not in MODELS:
            parser.error(f"unknown model '{name}'; expected one of {', '.join(MODELS)}")
        sizes = {} if given.layers is None else {"layers": given.layers}
        if given.ranged:
            if name not in ("bert", "gpt"):
                parser.error(f"--ranged is for bert and gpt, not for '{name}'")
            sizes |= {"batch": "batch", "tokens": "seq"}
        MODELS[name](path=given.out / f"{name}.onnx", **sizes)


if __name__ == "__main__":
    main()
