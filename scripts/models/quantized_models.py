#!/usr/bin/env python3
"""Writes models of 8 bits as ONNX files, by onnxruntime.quantization.

  bert-dynamic.onnx   transformer_models.py's bert; its products take codes that the model calculates as it runs
  cnn-qoperator.onnx  a residual network of 14 convolutions on 112x112 images, in QLinearConv and its like
  cnn-qdq.onnx        the same between QuantizeLinear and DequantizeLinear
  NAME-qoperator.onnx and NAME-qdq.onnx of each MODEL.onnx=SIZES, a model of one image such as cls.onnx=1x3x48x192

Weights and calibration data are random with fixed seeds; weights of MODEL have a scale per channel. Needs the
Python packages onnx, onnxruntime and numpy."""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import transformer_models  # noqa: E402


def network(path: pathlib.Path) -> None:
    import numpy as np
    w = transformer_models.Writer("cnn", 17)

    def conv(x: str, channels: int, filters: int, kernel: int, stride: int = 1, group: int = 1, relu: bool = True):
        shape = (filters, channels // group, kernel, kernel)
        weight = w.constant(w.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))
        y = w.Conv(x, weight, w.row(filters), kernel_shape=[kernel] * 2, strides=[stride] * 2,
                   pads=[kernel // 2] * 4, group=group)
        return w.Relu(y) if relu else y

    x = conv(w.input("x", [1, 3, 112, 112]), 3, 32, 3, 2)
    for channels, filters, stride in ((32, 64, 1), (64, 64, 1), (64, 128, 2), (128, 256, 2)):
        inner = conv(conv(x, channels, filters, 3, stride), filters, filters, 3, relu=False)
        same = channels == filters and stride == 1
        x = w.Relu(w.Add(inner, x if same else conv(x, channels, filters, 1, stride, relu=False)))
    x = conv(conv(x, 256, 256, 3, group=256), 256, 512, 1)
    y = w.Gemm(w.Flatten(w.GlobalAveragePool(x)), w.weight(512, 100), w.row(100))
    w.save({y: [1, 100]}, path)


def quantize(source: pathlib.Path, target: str, sizes: tuple[int, ...], per_channel: bool) -> None:
    import numpy as np
    from onnxruntime import quantization

    class Images(quantization.CalibrationDataReader):
        def __init__(self):
            self.seeds = iter(range(3))

        def get_next(self):
            seed = next(self.seeds, None)
            if seed is None:
                return None
            return {name: np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)}

    import onnx
    name = onnx.load(source).graph.input[0].name
    for form in (quantization.QuantFormat.QOperator, quantization.QuantFormat.QDQ):
        quantization.quantize_static(source, f"{target}-{form.name.lower()}.onnx", Images(), quant_format=form,
                                     per_channel=per_channel, activation_type=quantization.QuantType.QUInt8,
                                     weight_type=quantization.QuantType.QInt8)


def prepared(source: str, sizes: tuple[int, ...], path: pathlib.Path) -> None:
    """The model with these sizes, in an operator set that has scales per channel, with weights as initializers."""
    import onnx
    model = onnx.load(source)
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, sizes):
        dim.dim_value = size
    rest = []
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensor = node.attribute[0].t
            tensor.name = node.output[0]
            model.graph.initializer.append(tensor)
        else:
            rest.append(node)
    del model.graph.node[:]
    model.graph.node.extend(rest)
    from onnx import version_converter
    onnx.save(version_converter.convert_version(model, 13), path)
    from onnxruntime.quantization.shape_inference import quant_pre_process
    quant_pre_process(path, path, skip_symbolic_shape=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL.onnx=SIZES")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("."), help="folder (.)")
    given = parser.parse_args()
    from onnxruntime import quantization
    given.output.mkdir(parents=True, exist_ok=True)
    plain = given.output / "bert.onnx"
    transformer_models.bert(path=plain)
    quantization.quantize_dynamic(plain, given.output / "bert-dynamic.onnx", weight_type=quantization.QuantType.QInt8)
    network(given.output / "cnn.onnx")
    quantize(given.output / "cnn.onnx", str(given.output / "cnn"), (1, 3, 112, 112), False)
    for model in given.models:
        source, _, text = model.partition("=")
        sizes = tuple(int(size) for size in text.split("x"))
        path = given.output / f"{pathlib.Path(source).stem}-plain.onnx"
        prepared(source, sizes, path)
        quantize(path, str(given.output / pathlib.Path(source).stem), sizes, True)


if __name__ == "__main__":
    main()
