#!/usr/bin/env python3
"""Compares the search with Apache TVM's MetaSchedule on the same workloads and machine.

Both tune each workload for a number of trials (--trials), for a time (--time), or both in turn;
TVM's best kernel is then built again and timed, Tilewright's is timed by `tune-cli replay`.
Prints one JSON document: {"tvm": version, "results": [{"spec", "budget", "tvm": {"seconds",
"trials", "elapsed_s"}, "tilewright": {…}, "ratio"}]}; a ratio over 1: Tilewright's is faster.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peer_venv  # noqa: E402

PACKAGES = [
    "apache-tvm==0.27.0.post1",
    "apache-tvm-ffi==0.1.14.post0",  # with 0.1.15 structural hashing crashes
    "psutil", "cloudpickle", "xgboost-cpu",
]


def primitive_function(spec: dict):
    """The workload as TVM sees it; weights are free to be laid out anew, as they are for us."""
    from tvm import te, topi

    op = spec["op"]
    if op == "matmul" and spec.get("batch", 1) == 1:
        m, n, k = spec["m"], spec["n"], spec["k"]
        a = te.placeholder((m, k), "float32", "A")
        b = te.placeholder((k, n), "float32", "B")
        r = te.reduce_axis((0, k), "k")
        c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C",
                       attrs={"layout_free_placeholders": [b]})
        return te.create_prim_func([a, b, c])
    if op == "conv2d" and spec.get("groups", 1) == 1 and spec.get("layout", "nhwc") == "nhwc":
        kernel = peer_venv.pair(spec["kernel"])
        x = te.placeholder((spec["n"], spec["h"], spec["w"], spec["ci"]), "float32", "X")
        w = te.placeholder((*kernel, spec["ci"], spec["co"]), "float32", "W")
        y = topi.nn.conv2d_nhwc(x, w, peer_venv.pair(spec.get("stride", 1)),
                                pair_pad(spec), peer_venv.pair(spec.get("dilation", 1)))
        return te.create_prim_func([x, w, y])
    if op == "depthwise_conv2d":
        kernel = peer_venv.pair(spec["kernel"])
        x = te.placeholder((spec["n"], spec["h"], spec["w"], spec["c"]), "float32", "X")
        w = te.placeholder((*kernel, spec["c"], 1), "float32", "W")
        y = topi.nn.depthwise_conv2d_nhwc(x, w, peer_venv.pair(spec.get("stride", 1)),
                                          pair_pad(spec), peer_venv.pair(spec.get("dilation", 1)))
        return te.create_prim_func([x, w, y])
    raise ValueError(f"no TVM workload for {op} with these keys")


def pair_pad(spec: dict) -> tuple[int, int, int, int]:
    top, left = peer_venv.pair(spec.get("pad", 0))
    return (top, left, top, left)


def target(threads: int):
    import tvm
    from tvm.target import codegen

    return tvm.target.Target(
        {"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": threads})


def tune_in_this_process(spec: dict, folder: str, trials: int, threads: int, seed: int) -> None:
    from tvm.s_tir import meta_schedule as ms

    ms.tune_tir(primitive_function(spec), target(threads), folder, trials,
                num_trials_per_iter=min(64, trials), num_tuning_cores=threads, seed=seed)


def best_of(spec: dict, folder: str, threads: int) -> dict:
    """Builds the best schedule on record anew and times it."""
    import numpy
    import tvm
    from tvm.s_tir import meta_schedule as ms

    log = pathlib.Path(folder) / "database_tuning_record.json"
    trials = sum(1 for _ in log.open()) if log.exists() else 0
    database = ms.database.JSONDatabase(work_dir=folder)
    schedule = ms.tir_integration.compile_tir(database, primitive_function(spec), target(threads))
    if schedule is None:
        return {"seconds": None, "trials": trials}
    function = schedule.mod["main"]
    built = tvm.compile(schedule.mod, target=target(threads))
    random = numpy.random.default_rng(0)
    arrays = []
    for parameter in function.params:
        shape = [int(extent) for extent in parameter.ty.shape]  # a weight's as it was laid out
        arrays.append(tvm.runtime.tensor(random.standard_normal(shape, "float32")))
    timer = built.jit().time_evaluator("main", tvm.cpu(), number=1, repeat=5, min_repeat_ms=100)
    return {"seconds": float(numpy.median(timer(*arrays).results)), "trials": trials}


def tune_with_tvm(spec: dict, options: argparse.Namespace, trials: int, seconds: float) -> dict:
    """Tunes in a process of its own, which a time budget may end, then times the best."""
    folder = tempfile.mkdtemp(prefix="bench_tvm_")
    start = time.monotonic()
    command = [sys.executable, __file__, "--worker", folder, "--trials", str(trials),
               "--threads", str(options.threads), "--seed", str(options.seed), json.dumps(spec)]
    try:
        with subprocess.Popen(command, stdout=sys.stderr, start_new_session=True) as worker:
            try:
                worker.wait(timeout=seconds or None)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, 9)
        elapsed = time.monotonic() - start
        return {**best_of(spec, folder, options.threads), "elapsed_s": elapsed}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tune_with_tilewright(spec: dict, options: argparse.Namespace, trials: int,
                         seconds: float) -> dict | None:
    if not options.tune_cli:
        return None
    with tempfile.TemporaryDirectory() as folder:
        common = ["--db", f"{folder}/tune.db", "--threads", str(options.threads), "--json",
                  json.dumps(spec)]
        budget = ["--time", f"{seconds:.0f}s"] if seconds else ["--trials", str(trials)]
        tuned = subprocess.run([options.tune_cli, "tune", "--seed", str(options.seed), *budget,
                                *common], capture_output=True, text=True, check=True)
        replayed = subprocess.run([options.tune_cli, "replay", *common], capture_output=True,
                                  text=True, check=True)
    result = json.loads(tuned.stdout)["results"][0]
    return {"seconds": json.loads(replayed.stdout)["results"][0]["seconds"],
            "trials": result["trials"], "elapsed_s": result["elapsed_s"]}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", metavar="SPEC",
                        help="a file of specs or one spec as a JSON object")
    parser.add_argument("--trials", type=int, default=0, help="compare at this many trials")
    parser.add_argument("--time", type=float, default=0, help="compare after this many seconds")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tune-cli", help="the program to compare with; without: TVM alone")
    parser.add_argument("--install", action="store_true", help="install TVM if it is missing")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    # By itself TVM's runtime takes every second processor to be a hyperthread.
    os.environ["TVM_NUM_THREADS"] = str(options.threads)
    peer_venv.enter("tvm", "tvm", PACKAGES, options.install)
    os.environ["TVM_NUM_THREADS"] = str(options.threads)

    specs = peer_venv.read_specs(options.specs)
    if options.worker:
        tune_in_this_process(specs[0], options.worker, options.trials, options.threads,
                             options.seed)
        return 0
    if not options.trials and not options.time:
        parser.error("give --trials, --time or both")
    import tvm

    results = []
    for spec in specs:
        for trials, seconds in ((options.trials, 0.0), (100_000, options.time)):
            if (seconds == 0.0 and not options.trials) or (trials == 100_000 and not seconds):
                continue
            budget = {"time_s": seconds} if seconds else {"trials": trials}
            try:
                theirs = tune_with_tvm(spec, options, trials, seconds)
            except ValueError as error:
                results.append({"spec": spec, "budget": budget, "skipped": str(error)})
                continue
            ours = tune_with_tilewright(spec, options, trials, seconds)
            ratio = None
            if ours and ours["seconds"] and theirs["seconds"]:
                ratio = theirs["seconds"] / ours["seconds"]
            results.append({"spec": spec, "budget": budget, "tvm": theirs, "tilewright": ours,
                            "ratio": ratio})
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"tvm": tvm.__version__, "threads": options.threads, "results": results},
                     indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
