"""Quantized layers of PyTorch for tests: a model, and cases that compare it with its stored values."""
import pathlib
import tempfile
import unittest
import unittest.mock

from torch_environment import LACKS

if not LACKS:
    import torch
    from torch import nn

    import tilewright.torch
    from tilewright.torch import QuantizedLinear, _linear, _report

N, K, GROUP = 32, 64, 16


def model(bias: bool = True) -> "nn.Module":
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(K, 48, bias=bias), nn.ReLU(), nn.Linear(48, N, bias=bias)).eval()


@unittest.skipIf(LACKS, LACKS)
class Layers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.lines = []
        patch = unittest.mock.patch.object(_report, "tell", self.lines.append)
        patch.start()
        self.addCleanup(patch.stop)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self.addCleanup(torch.set_num_threads, threads)
        self.inference = torch.inference_mode()

    def quantized(self, dtype="u4", layers=None, **options):
        made = layers or model()
        options.setdefault("folder", self.folder)
        names = tilewright.torch.quantize_(made, dtype, **options)
        self.assertEqual(names, ["0", "2"])
        return made

    def wanted(self, layers, x):
        """The same by PyTorch on the stored values, in f64."""
        for layer in layers:
            if isinstance(layer, QuantizedLinear):
                given = _linear.rounded_to_bytes(x) if layer.form.activations else x
                bias = 0 if layer.bias is None else layer.bias.double()
                x = (given.double() @ layer.weight_values().double().T + bias).float()
            else:
                x = layer(x)
        return x

    def close(self, got, wanted, most=1e-5):
        off = (got.float() - wanted).abs().max() / wanted.abs().max()
        self.assertLess(off.item(), most)
