"""PyTorch for tests: imports it, or runs the test once more in the environment of scripts/pytorch/install.py.

LACKS says why its tests are skipped, "" where they run.
"""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import peer_venv

try:
    import torch
    LACKS = "" if hasattr(torch.library, "custom_op") else f"PyTorch {torch.__version__} is too old"
except ImportError:
    LACKS = "no PyTorch"
    python = peer_venv.prefix() / "pytorch" / "bin" / "python"
    tag = "import sys; print(sys.implementation.cache_tag, end='')"
    if python.exists() and pathlib.Path(sys.prefix) != peer_venv.prefix() / "pytorch":
        made_for = subprocess.run([python, "-c", tag], capture_output=True, text=True, check=True)
        if made_for.stdout == sys.implementation.cache_tag:  # the module loads there, too
            os.execv(python, [str(python), *sys.argv])
