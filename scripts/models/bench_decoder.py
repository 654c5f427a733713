#!/usr/bin/env python3
"""Runs a decoder beside llama.cpp: model files that `tune-cli compile MODEL.gguf` made, and the GGUF file itself.

Both sides take the same tokens as a prompt and go on greedily, in turns, by the wall's clock: llama.cpp counts its
own time so. It prints the medians per token in milliseconds, the ratio (above 1: Tilewright is faster), and how many
tokens the texts have in common from their beginning. llama.cpp rounds activations to 8 bits, so texts may part.
The peer is PyPI's xllamacpp, which scripts/peer_models installs; its line of instruction sets is printed, since a
package may know fewer of them than the machine. Needs libtilewright.so (--library)."""
import argparse
import ctypes
import importlib
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import bench_models  # noqa: E402
import peer_venv  # noqa: E402

PEER = "xllamacpp"


class Decoder:
    """A program of one token; position 0 begins a new text."""

    def __init__(self, library, path: str, threads: int):
        self.model = bench_models.Model(library, path, bench_models.pool_of(library, threads))
        if [name for name, _, _ in self.model.inputs] != ["tokens", "position"]:
            sys.exit(f"bench_decoder: {path} takes no single token: compile it without --dim tokens=N")

    def next(self, token: int, position: int) -> int:
        import numpy as np
        logits, = self.model.bind({"tokens": np.array([token], np.int32),
                                   "position": np.array([position], np.int32)})
        self.model.run()
        return int(logits.argmax())

    def generate(self, prompt: list[int], count: int) -> tuple[list[int], float]:
        """The tokens behind the prompt, and the seconds for each but the first of them."""
        for position, token in enumerate(prompt):
            token = self.next(token, position)
        made, start = [token], time.perf_counter()
        while len(made) < count:
            made.append(self.next(made[-1], len(prompt) + len(made) - 1))
        return made, (time.perf_counter() - start) / (count - 1)


class Llama:
    def __init__(self, module, gguf: str, context: int, threads: int):
        params = module.CommonParams()
        params.model.path, params.n_ctx, params.n_parallel = gguf, context, 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        self.server = module.Server(params)

    def complete(self, prompt: list[int], count: int, **options) -> dict:
        return self.server.handle_completions({"prompt": prompt, "n_predict": count, "temperature": 0,
                                               "cache_prompt": False, "ignore_eos": True, **options})

    def generate(self, prompt: list[int], count: int) -> tuple[list[int], float]:
        """Two texts: its own time is without the probabilities that tell the tokens."""
        seconds = self.complete(prompt, count)["timings"]["predicted_per_token_ms"] / 1e3
        told = self.complete(prompt, count, n_probs=1)["choices"][0]["logprobs"]["content"]
        return [token["id"] for token in told], seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", help="the model file, of one token (STEP.tw)")
    parser.add_argument("--gguf", required=True, help="the file that it was made of")
    parser.add_argument("--tokens", type=int, default=96, help="tokens of each text (96)")
    parser.add_argument("--rounds", type=int, default=5, help="texts of each side (5)")
    parser.add_argument("--context", type=int, default=512, help="positions of llama.cpp (512)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--library", default="build/release/libtilewright.so")
    given = parser.parse_args()
    peer_venv.enter("models", PEER, [], False, by="scripts/peer_models")
    module = importlib.import_module(PEER)
    if given.threads == 1:
        os.sched_setaffinity(0, {0})
    library = ctypes.CDLL(os.path.abspath(given.library))
    sides = {"tilewright": Decoder(library, given.step, given.threads),
             "llama.cpp": Llama(module, given.gguf, given.context, given.threads)}
    prompt = [(37 * i) % 997 + 3 for i in range(8)]
    times, texts = {name: [] for name in sides}, {}
    for _ in range(given.rounds):
        for name, side in sides.items():
            texts[name], seconds = side.generate(prompt, given.tokens)
            times[name].append(1e3 * seconds)
    medians = {name: statistics.median(all_times) for name, all_times in times.items()}
    common = next((i for i, (x, y) in enumerate(zip(*texts.values())) if x != y), given.tokens)
    print(json.dumps({"ms": medians, "least": {name: min(all_times) for name, all_times in times.items()},
                      "ratio": medians["llama.cpp"] / medians["tilewright"], "tokens": given.tokens,
                      "tokens_in_common": common, "peer": module.get_system_info()}, indent=1))


if __name__ == "__main__":
    main()
