"""Uses an installed package as its user would: tunes, replays and serves one small spec.

usage: installed.py                    tilewright: tunes, replays by the command tune-cli, serves
       installed.py --serve DATABASE   tilewright-runtime: serves what a database has, and no program is
                                       found; the spec must have been tuned by the first form
       installed.py --keep DATABASE    as the first form, into this database
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import tilewright

SPEC = "matmul:m=1..8,n=16,k=16"


def serve(database: str) -> str:
    """Compares a launch with NumPy; returns how the kernel was found."""
    prepared = tilewright.Library(database).prepare(SPEC, threads=1)
    kernel = prepared[SPEC]
    a, b = tilewright.empty((3, 16)), tilewright.empty((16, 16))
    a[:], b[:] = np.arange(48).reshape(a.shape) % 5, np.arange(256).reshape(b.shape) % 7
    np.testing.assert_array_equal(kernel(a, weights=kernel.pack({"B": b})), a @ b)
    return prepared.report[0].outcome


def tune_and_replay(database: str) -> dict:
    result, = tilewright.tune(SPEC, db=database, trials=2, threads=1, progress=None)
    # The command lies beside the interpreter, whether or not the environment is active.
    command = pathlib.Path(sys.executable).parent / "tune-cli"
    replayed = subprocess.run([command, "replay", SPEC, "--db", database, "--threads", "1", "--json"],
                              check=True, capture_output=True, text=True)
    version = subprocess.run([command, "version"], check=True, capture_output=True, text=True)
    return {"trials": result["trials"], "replayed": json.loads(replayed.stdout)["results"][0]["outcome"],
            "tune-cli": version.stdout.split("\n")[0]}


def main() -> None:
    told = {"version": tilewright.__version__, "from": tilewright.__file__}
    if sys.argv[1:2] == ["--serve"]:
        assert importlib.util.find_spec("tilewright_tuner") is None, "the tuner is installed"
        os.environ["PATH"] = ""
        try:
            tilewright.tune(SPEC, db="none.db")
        except tilewright.DeviceError as refused:
            told["tune"] = str(refused)
        else:
            raise AssertionError("tilewright-runtime tuned")
        told["outcome"] = serve(sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as folder:
            database = sys.argv[2] if sys.argv[1:2] == ["--keep"] else f"{folder}/kernels.db"
            told |= tune_and_replay(database)
            told["outcome"] = serve(database)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
