"""Kernels of one feature each, simplest first, the sanitizer and profiler on those that are right, and
kernels that differ in one constant of the cost model.

A rung is a spec with a whole config. Each runs in a process of its own, compiled with a watchdog, so that
a rung that hangs costs seconds, and names its feature. Variants of a constant are timed, with no watchdog.
"""
import json
import pathlib
import shutil
import tempfile
import time

WATCHDOG_MS = 2000
MOST_RUNG, MOST_TOOL = 20.0, 60.0
SKETCH = "gpu_tiles"
# Exit codes of `tune` when it found no kernel for every workload.
TUNED = (0, 3, 6)
STATES = (("timeout", "hangs"), ("runtime", "faults"), ("wrong", "wrong"))
# The sanitizer's tools, and its exit code where one finds something.
SANITIZED, ERRORS = ("memcheck", "racecheck", "synccheck"), 99


def rungs_of(file: pathlib.Path, target: str) -> list[dict]:
    """The rungs that the target has: those made for sm_90a need it."""
    return [rung for rung in json.loads(file.read_text()) if rung["target"] in (target, "cuda:sm_80")]


def climb_one(tool, target: str, rung: dict, seconds: float) -> dict:
    row = {"feature": rung["feature"], "spec": rung["spec"]}
    return {**row, **tune_config(tool.watched(WATCHDOG_MS), target, rung, seconds)}


def tune_config(tool, target: str, rung: dict, seconds: float) -> dict:
    """What becomes of the rung's config: its state, and its time where it is right."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.json"
        config.write_text(json.dumps({"sketch": SKETCH, "config": rung["config"]}))
        code, document, error = tool.of(
            "tune", target, rung["spec"], seconds, "--config", str(config), "--trials", "1",
            "--no-warm-start", "--seed", "1")
    if code is None:
        return {"state": "hangs", "reason": error}
    if code not in TUNED or not document:
        return {"state": "refused", "reason": error.strip()[-400:]}
    result = document["results"][0]
    state = next((state for how, state in STATES if result["invalid"].get(how)), None)
    took = (result.get("best") or {}).get("seconds")
    return {"state": state or ("right" if result["valid"] else "none valid"),
            "invalid": result["invalid"], **({"seconds": took} if took and not state else {}),
            **({"reason": error.strip()[-400:]} if state else {})}


def climb(tool, target: str, report, file: pathlib.Path, until: float) -> None:
    """All rungs, also those above one that is not right: features are told apart by it."""
    for rung in rungs_of(file, target):
        left = until - time.monotonic()
        row = {"feature": rung["feature"], "spec": rung["spec"], "state": "not reached"}
        report.add("ladder", climb_one(tool, target, rung, min(left, MOST_RUNG)) if left > 1 else row)


def compare(tool, target: str, report, file: pathlib.Path, until: float) -> None:
    """Variants of the model's constants, one behind the other: their ratios are of one hour."""
    for constant in json.loads(file.read_text()):
        if constant["target"] != target:
            continue
        for variant in constant["variants"]:
            row = {"feature": f"{constant['constant']}: {variant['name']}", "spec": constant["spec"]}
            config = {**constant["config"], **variant["config"]}  # null: the variant has no such knob
            kernel = {"spec": constant["spec"],
                      "config": {knob: choice for knob, choice in config.items() if choice is not None}}
            left = until - time.monotonic()
            apart = tool.apart("constants", TILEWRIGHT_CUDA_MACROS=variant.get("macros", ""))
            report.add("constants", {**row, **tune_config(apart, target, kernel, min(left, MOST_RUNG))}
                       if left > 1 else {**row, "state": "not reached"})


def watch_one(tool, program: str, arguments: list[str], rung: dict, seconds: float) -> dict:
    """One rung's stored kernel under a program of NVIDIA's. It may not be confined there."""
    kind = " ".join([program, *arguments[:2]])
    row = {"feature": f"{rung['feature']}, {kind}", "spec": rung["spec"]}
    code, error = tool.watched(WATCHDOG_MS).under([program, *arguments], seconds, "replay", rung["spec"])
    if code is None:
        return {**row, "state": "timed out", "reason": error}
    if code == ERRORS:
        return {**row, "state": "wrong", "reason": error[-1000:]}
    return {**row, "state": "right" if code == 0 else "refused", "reason": error[-400:] if code else ""}


def watch(tool, report, until: float) -> None:
    """Sanitizer and profiler on the last rungs that are right, as far as both are installed."""
    right = [row for row in report.rows["ladder"] if row["state"] == "right"][-3:]
    runs = [("compute-sanitizer", ["--tool", check, "--target-processes", "all", "--error-exitcode",
                                   str(ERRORS)]) for check in SANITIZED]
    runs.append(("ncu", ["--set", "basic", "--target-processes", "all"]))
    for program, arguments in runs:
        if shutil.which(program) is None:
            report.add("tools", {"feature": program, "state": "not installed"})
            continue
        for rung in right:
            left = until - time.monotonic()
            if left > 1:
                report.add("tools", watch_one(tool, program, arguments, rung, min(left, MOST_TOOL)))
