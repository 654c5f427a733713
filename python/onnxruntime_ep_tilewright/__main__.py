"""usage: python -m onnxruntime_ep_tilewright MODEL.onnx FOLDER [--alone] [options of tune-cli compile]

Compiles what Tilewright's provider could claim of a model into the folder that its option `models` names."""
from __future__ import annotations

import argparse
import subprocess
import sys

from . import compile_model


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m onnxruntime_ep_tilewright", description="Compiles what the provider could claim of a model.",
        epilog="Further options are those of tune-cli compile: --dim, --threads, --time, --db, and --hits, with which nodes "
        "run on the kernels that the database has and nothing is tuned.")
    parser.add_argument("model", help="an ONNX file")
    parser.add_argument("folder", help="where model files go: the provider's option `models`")
    parser.add_argument("--alone", action="store_true", help="compile each node by itself")
    given, rest = parser.parse_known_args()
    try:
        files = compile_model(given.model, given.folder, rest, alone=given.alone)
    except subprocess.CalledProcessError as error:
        return error.returncode
    except KeyboardInterrupt:
        print("interrupted; finished trials are kept, and the same command goes on", file=sys.stderr)
        return 130
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 4
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 3
    return 0 if files else 7


if __name__ == "__main__":
    sys.exit(main())
