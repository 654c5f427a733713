#!/usr/bin/env python3
"""Times llama.cpp with and without the backend of ggml, in turns, on one model.

Each turn is a process of its own: a prompt and single tokens, then greedy text. Prints medians of tokens a second, the
ratio of each pair of turns in the median, and how many tokens of the text are the same.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def turn(arguments: argparse.Namespace, threads: int, prompt: int, backend: bool) -> tuple[dict, list[str]]:
    """The output of llama-turns, and the backend's lines."""
    environment = dict(os.environ)
    for name in ("GGML_BACKEND_PATH", "TILEWRIGHT_DB"):
        environment.pop(name, None)
    if backend:
        environment["GGML_BACKEND_PATH"] = str(arguments.build / "libggml-tilewright.so")
        environment["TILEWRIGHT_DB"] = str(arguments.db)
        environment["TILEWRIGHT_GGML"] = ",".join(filter(None, (f"threads={threads}", arguments.options)))
    command = [arguments.build / "llama-turns", arguments.model, str(threads), str(prompt), str(arguments.tokens), "3",
               arguments.text, *(["--no-repack"] if arguments.no_repack else [])]
    if arguments.pin:
        command = ["taskset", "-c", ",".join(map(str, range(threads))), *command]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{sys.argv[0]}: llama-turns failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout), [line for line in done.stderr.splitlines() if line.startswith("Tilewright:")]


def common(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(a))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="a GGUF file")
    parser.add_argument("--db", type=pathlib.Path, required=True, help="the database of kernels")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--prompt", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side")
    parser.add_argument("--text", default="The capital of France is", help="the beginning of the greedy text")
    parser.add_argument("--options", default="", help="more of TILEWRIGHT_GGML")
    parser.add_argument("--no-repack", action="store_true", help="llama.cpp without its own layouts of weights")
    parser.add_argument("--pin", action="store_true", help="pin to the first processors")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = parser.parse_args()
    for threads in arguments.threads:
        for prompt in arguments.prompt:
            sides: dict[bool, list[dict]] = {True: [], False: []}
            lines: list[str] = []
            for _ in range(arguments.rounds):
                for backend in (True, False):
                    result, said = turn(arguments, threads, prompt, backend)
                    sides[backend].append(result)
                    lines = said or lines
            print(f"{arguments.model.name}, {threads} thread(s), prompt {prompt}, {arguments.tokens} tokens:")
            for phase in ("prompt", "decode"):
                own, other = ([statistics.median(r[phase]) for r in sides[b]] for b in (True, False))
                ratio = statistics.median(x / y for x, y in zip(own, other))
                print(f"  {phase}: {statistics.median(own):.1f} with, {statistics.median(other):.1f} without, "
                      f"ratio {ratio:.2f} ({min(x / y for x, y in zip(own, other)):.2f} to "
                      f"{max(x / y for x, y in zip(own, other)):.2f})")
            texts = [sides[b][-1]["text"] for b in (True, False)]
            print(f"  text: {common(*texts)} of {len(texts[0])} tokens in common", flush=True)
            for line in lines:
                print(f"  {line}")


if __name__ == "__main__":
    main()
