#!/usr/bin/env python3
"""Text by a decoder of the llama family, out of a GGUF file whose tokens are GPT-2's bytes and merges.

    python generate.py model.gguf "Once upon a time" [--tokens 64] [--temperature 0.8 --top-k 40 --seed 1]

The first call compiles two programs beside the model: one takes a token, the other a chunk of the prompt.
They share the keys and values of the tokens so far.
"""
import argparse
import functools
import pathlib
import re
import struct
import sys
import time

import numpy as np

import tilewright

# Contractions, words, single digits, other signs, and spaces, as byte-level BPE splits text first.
PIECES = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def read_metadata(path: pathlib.Path) -> dict:
    """The entries in front of a GGUF file's tensors."""
    scalars = "BbHhIif?"  # the types 0 to 7 as struct has them
    with open(path, "rb") as file:
        def number(letter: str):
            return struct.unpack("<" + letter, file.read(struct.calcsize("<" + letter)))[0]

        def value(kind: int):
            if kind == 8:
                return file.read(number("Q"))
            if kind == 9:
                element, count = number("I"), number("Q")
                return [value(element) for _ in range(count)]
            return number(scalars[kind] if kind < 8 else {10: "Q", 11: "q", 12: "d"}[kind])

        if file.read(4) != b"GGUF":
            sys.exit(f"{path}: not a GGUF file")
        number("I"), number("Q")  # version and tensors
        return {value(8).decode(): value(number("I")) for _ in range(number("Q"))}


class Tokenizer:
    """Byte-level byte pair encoding (Sennrich et al., 2016), with the file's vocabulary and merges."""

    def __init__(self, metadata: dict):
        kind = metadata.get("tokenizer.ggml.model", b"none").decode()
        if kind != "gpt2":
            sys.exit(f"tokenizer.ggml.model is '{kind}'; this example knows 'gpt2'")
        self.texts = [token.decode() for token in metadata["tokenizer.ggml.tokens"]]
        self.numbers = {text: number for number, text in enumerate(self.texts)}
        kinds = metadata["tokenizer.ggml.token_type"]
        self.special = {text for text, kind in zip(self.texts, kinds) if kind in (3, 4)}
        merges = (merge.decode().split(" ") for merge in metadata["tokenizer.ggml.merges"])
        self.ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
        self.end = metadata.get("tokenizer.ggml.eos_token_id")
        # Each byte stands as a printable letter: itself, or the next one from 256 on.
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in printable]
        self.letters = {byte: chr(byte) for byte in printable}
        self.letters.update({byte: chr(256 + place) for place, byte in enumerate(others)})
        self.bytes = {letter: byte for byte, letter in self.letters.items()}

    @functools.lru_cache(maxsize=65536)
    def _merged(self, piece: str) -> tuple[int, ...]:
        parts = [self.letters[byte] for byte in piece.encode()]
        while len(parts) > 1:
            ranks = [self.ranks.get(pair, len(self.ranks)) for pair in zip(parts, parts[1:])]
            best = int(np.argmin(ranks))
            if ranks[best] == len(self.ranks):
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        return tuple(self.numbers[part] for part in parts)

    def encode(self, text: str) -> list[int]:
        tokens = []
        names = "|".join(map(re.escape, sorted(self.special, key=len, reverse=True)))
        for part in re.split(f"({names})", text) if names else [text]:
            if part in self.special:
                tokens.append(self.numbers[part])
            else:
                for piece in PIECES.findall(part):
                    tokens.extend(self._merged(piece))
        return tokens

    def decode(self, tokens: list[int]) -> bytes:
        return b"".join(self.texts[t].encode() if self.texts[t] in self.special
                        else bytes(self.bytes[letter] for letter in self.texts[t]) for t in tokens)


class Decoder:
    """A sequence of tokens and the logits of the next one."""

    def __init__(self, step: tilewright.Model, chunk: tilewright.Model | None,
                 pool: tilewright.Pool | None = None):
        self.step, self.chunk, self.pool, self.position = step, chunk, pool, 0
        self.room = next(iter(step.states.values())).shape[1]

    def take(self, tokens: list[int]) -> np.ndarray:
        """Logits behind these tokens, which are one or more."""
        if self.position + len(tokens) > self.room:
            sys.exit(f"the context has room for {self.room} tokens; --context sets more")
        while tokens:
            place = np.array([self.position], np.int32)
            width = self.chunk.inputs[0].shape[0] if self.chunk is not None and len(tokens) > 1 else 1
            if self.position + width > self.room:
                width = 1
            now, tokens = tokens[:width], tokens[width:]
            if width == 1:
                logits = self.step(np.array(now, np.int32), place, pool=self.pool)
            else:
                padded = np.array(now + [0] * (width - len(now)), np.int32)
                last = np.array([len(now) - 1], np.int32)
                logits = self.chunk(padded, place, last, pool=self.pool)
            self.position += len(now)
        return logits


def choose(logits: np.ndarray, temperature: float, top_k: int, random) -> int:
    """The likeliest token at temperature 0, else one of the top_k likeliest by chance."""
    if temperature == 0:
        return int(np.argmax(logits))
    best = np.argsort(logits)[::-1][:top_k]
    shares = np.exp((logits[best] - logits[best[0]]) / temperature)
    return int(random.choice(best, p=shares / shares.sum()))


def programs(model: pathlib.Path, a: argparse.Namespace) -> list[tilewright.Model]:
    """The model's programs for a token and for a chunk, compiled where they are missing."""
    opened = []
    for tokens in (1, a.chunk):
        out = model.with_name(f"{model.stem}-{tokens}x{a.context}-{a.threads}.tw")
        if not out.exists():
            print(f"compiling {out}", file=sys.stderr)
            tilewright.compile(model, out, dims={"tokens": tokens, "context": a.context}, db=a.db,
                               trials=a.trials, threads=a.threads)
        opened.append(tilewright.Model(out, threads=a.threads,
                                       states_of=opened[0] if opened else None))
    return opened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to make, at most")
    parser.add_argument("--temperature", type=float, default=0, help="0: the likeliest token")
    parser.add_argument("--top-k", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--context", type=int, default=1024, help="tokens for which there is room")
    parser.add_argument("--chunk", type=int, default=32, help="tokens of the prompt per run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--trials", type=int, default=16, help="candidates per kernel, when compiled")
    parser.add_argument("--db", default="tilewright.db")
    a = parser.parse_args()
    tokenizer = Tokenizer(read_metadata(a.model))
    decoder = Decoder(*programs(a.model, a), tilewright.Pool(a.threads))
    random = np.random.default_rng(a.seed)
    prompt = tokenizer.encode(a.prompt)
    if not prompt:
        sys.exit("the prompt is empty")
    begin = time.perf_counter()
    logits = decoder.take(prompt)
    read = time.perf_counter()
    made = 0
    sys.stdout.write(a.prompt)
    while made < min(a.tokens, decoder.room - len(prompt)):
        token = choose(logits, a.temperature, a.top_k, random)
        if token == tokenizer.end:
            break
        sys.stdout.flush()
        sys.stdout.buffer.write(tokenizer.decode([token]))
        sys.stdout.buffer.flush()
        logits = decoder.take([token])
        made += 1
    done = time.perf_counter()
    print(f"\n{len(prompt)} tokens read at {len(prompt) / (read - begin):.0f} per second, {made} made at "
          f"{made / (done - read):.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
