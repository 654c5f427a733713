#!/usr/bin/env python3
"""Times models through torch.compile(backend="tilewright") beside eager, Inductor and its max-autotune.

A way such as u4:128 is a copy with weights of few bits (quantize_), in eager; u4:128+inductor has Inductor
around its layers, u4:128+tilewright the layers in the backend's files. Models have random weights; the outputs are
compared with eager's. All run in one process, by turns.
Prints a table, or one JSON document. scripts/pytorch/install.py --models installs PyTorch and what the models need; the
Python module is that of PYTHONPATH.
"""
import argparse
import copy
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import peer_venv  # noqa: E402


def bert(torch, layers: int, width: int, heads: int):
    from transformers import BertConfig, BertModel
    config = BertConfig(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads,
                        intermediate_size=4 * width)
    return BertModel(config), {"input_ids": torch.randint(0, 30000, (1, 128)),
                               "attention_mask": torch.ones(1, 128, dtype=torch.long)}


def llama(torch):
    from transformers import LlamaConfig, LlamaModel
    config = LlamaConfig(num_hidden_layers=6, hidden_size=512, num_attention_heads=8, num_key_value_heads=4,
                         intermediate_size=1408, vocab_size=32000, use_cache=False)
    return LlamaModel(config), {"input_ids": torch.randint(0, 32000, (1, 128))}


def llama_step(torch):
    """A decoder's step: one token behind 128 others, with a head for 32,000 words."""
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = LlamaForCausalLM(LlamaConfig(
                num_hidden_layers=6, hidden_size=512, num_attention_heads=8, num_key_value_heads=4,
                intermediate_size=1408, vocab_size=32000))

        def forward(self, token, keys, values):
            cache = DynamicCache()
            for layer in range(6):
                cache.update(keys[layer], values[layer], layer)
            return self.model(input_ids=token, past_key_values=cache).logits

    return Step(), {"token": torch.randint(0, 32000, (1, 1)), "keys": torch.randn(6, 1, 4, 128, 64),
                    "values": torch.randn(6, 1, 4, 128, 64)}


def vision(torch, name: str):
    import torchvision.models as models
    if name == "vit_s":
        model = models.VisionTransformer(224, 16, 12, 6, 384, 1536)
        torch.nn.init.normal_(model.heads.head.weight)  # made of zeros
    else:
        model = getattr(models, name)(weights=None)
    return model, {"x": torch.randn(1, 3, 224, 224)}


MODELS = {
    "minilm": lambda torch: bert(torch, 6, 384, 12),
    "bert_base": lambda torch: bert(torch, 12, 768, 12),
    "resnet50": lambda torch: vision(torch, "resnet50"),
    "mobilenet_v3_large": lambda torch: vision(torch, "mobilenet_v3_large"),
    "vit_s": lambda torch: vision(torch, "vit_s"),
    "llama": llama,
    "llama_step": llama_step,
}


def first_tensor(outputs, torch):
    if isinstance(outputs, torch.Tensor):
        return outputs
    return outputs[0] if isinstance(outputs, tuple) else outputs.last_hidden_state


def few_bits(model, way: str, options, settings: dict, torch):
    """A copy of the model with weights of the type that the way names, tuned."""
    import tilewright.torch
    copied, (precision, _, around) = copy.deepcopy(model), way.partition("+")
    tilewright.torch.quantize_(copied, precision, rows=("1",) if options.one.endswith("step") else ("2..128",),
                               **({"folder": options.folder} if options.folder else {}))
    if options.layer_trials:
        tilewright.torch.tune_layers(copied, trials=options.layer_trials, progress="lines")
    if around == "tilewright":
        return torch.compile(copied, backend=tilewright.torch.backend, options=settings)
    return torch.compile(copied) if around else copied


def bench(name: str, options) -> dict:
    import logging
    import torch
    import tilewright.torch

    logging.getLogger("tilewright").setLevel(logging.ERROR)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model, inputs = MODELS[name](torch)
    model = model.eval()
    settings = {"folder": options.folder, "measure": not options.always}
    if options.tune:
        settings["tune"] = options.tune
    ways = {"eager": lambda: model,
            "inductor": lambda: torch.compile(model),
            "max-autotune": lambda: torch.compile(model, mode="max-autotune"),
            "tilewright": lambda: torch.compile(model, backend=tilewright.torch.backend, options=settings)}
    told = {"model": name, "threads": options.threads, "seconds": {}, "first_run": {}, "off": {}}
    run = {}
    with torch.inference_mode():
        wanted = first_tensor(model(**inputs), torch).clone()
        for way in options.ways.split(","):
            torch._dynamo.reset()
            made = ways[way]() if way in ways else few_bits(model, way, options, settings, torch)
            compiled, start = made, time.perf_counter()
            got = first_tensor(compiled(**inputs), torch)
            told["first_run"][way] = time.perf_counter() - start
            told["off"][way] = float((got - wanted).abs().max() / wanted.abs().max())
            run[way] = compiled
        samples = {way: [] for way in run}
        for _ in range(3):
            for compiled in run.values():
                compiled(**inputs)
        for rnd in range(options.rounds):
            for way in list(run)[:: 1 if rnd % 2 else -1]:
                for _ in range(options.before):
                    run[way](**inputs)
                start = time.perf_counter()
                run[way](**inputs)
                samples[way].append(time.perf_counter() - start)
    told["seconds"] = {way: statistics.median(values) for way, values in samples.items()}
    best = min((way for way in samples if way != "tilewright"), key=told["seconds"].get, default=None)
    if "tilewright" in samples and best:
        told["speedup"] = statistics.median(
            theirs / ours for ours, theirs in zip(samples["tilewright"], samples[best]))
    told["rows"] = [row.cells() for row in tilewright.torch.report()]
    return told


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; all by default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", default="", help="files of regions; a default of the backend")
    parser.add_argument("--tune", default="", help="time for each region that is not tuned, such as 5m")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--before", type=int, default=0,
                        help="runs ahead of each that is timed: steps of a decoder follow each other")
    parser.add_argument("--ways", default="eager,inductor,max-autotune,tilewright")
    parser.add_argument("--layer-trials", type=int, default=0,
                        help="trials for each kernel of ways such as u4:128; 0 takes what the folder holds")
    parser.add_argument("--always", action="store_true", help="take regions that are slower, too")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"no model '{unknown[0]}'; expected some of {', '.join(MODELS)}")
    peer_venv.enter("pytorch", "torch", [], False, by="scripts/pytorch/install.py --models")
    lacking = [module for module in ("tilewright", "transformers", "torchvision")
               if importlib.util.find_spec(module) is None]
    if lacking:
        print(f"{sys.argv[0]}: no module {', '.join(lacking)}; PYTHONPATH=build/release/python has tilewright, "
              "scripts/pytorch/install.py --models installs the others", file=sys.stderr)
        return 4
    if options.one:
        print(json.dumps(bench(options.one, options)))
        return 0
    results = []
    for name in options.models or MODELS:  # each in a process of its own
        made = subprocess.run([sys.executable, *sys.argv, "--one", name], stdout=subprocess.PIPE, text=True,
                              check=False)
        if made.returncode != 0:
            print(f"{name}: ended with {made.returncode}", file=sys.stderr)
            continue
        results.append(json.loads(made.stdout.splitlines()[-1]))
        if not options.json:
            told = results[-1]
            times = "  ".join(f"{way} {1e3 * value:.2f} ms" for way, value in told["seconds"].items())
            print(f"{name}  {times}  {told.get('speedup', 0):.2f}x of the best other")
            for row in told["rows"]:
                print("   ", "  ".join(row))
    if options.json:
        print(json.dumps(results, indent=1))
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
