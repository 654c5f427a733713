"""Times a whole model with its parts on Tilewright and without, since a trial of one part does not see what the runtime
loses around it: fusions across its edges and layouts of its own."""
from __future__ import annotations

import pathlib
import statistics
import sys
import time
from typing import Any

_MOST = 1.0  # a run with the parts, over one without
_MOST_OF_PART = 0.98  # as the provider has it: kMostTimeOfPart in provider/trial.h
_SECONDS, _ROUNDS = 1, 40  # of a race, at least


def keep_winners(model: Any, folder: pathlib.Path, files: list[pathlib.Path], threads: int, level: Any) -> None:
    """Deletes model files, those that win the least first, until a run of the model with the rest is not slower than one
    without. A model with open sizes is not timed, and keeps its files."""
    race = _Race(model, folder, threads, level)
    if race.inputs is None:
        return
    ratio = race.ratio()  # the provider judges each part meanwhile
    kept = sorted((file for file in files if _judged(file) <= _MOST_OF_PART), key=_judged)
    _delete(set(files) - set(kept))
    while kept and ratio > _MOST:
        _delete(kept[len(kept) // 2:])
        kept = kept[:len(kept) // 2]
        if kept:
            ratio = race.ratio()
    said = f"; a run of the model takes {100 * ratio:.0f}% of its time without" if kept else ""
    print(f"{folder}: {len(kept)} of {len(files)} files of parts make the model faster and are kept{said}", file=sys.stderr)


def _verdicts(file: pathlib.Path) -> pathlib.Path:
    return file.with_name(file.name + ".trials")


def _judged(file: pathlib.Path) -> float:
    """The part's time over that of the CPU provider, by the latest verdict; 1 without any."""
    verdicts = _verdicts(file)
    lines = verdicts.read_text(encoding="utf-8").splitlines() if verdicts.is_file() else []
    return float(lines[-1].split()[1]) if lines else 1.0


def _delete(files: Any) -> None:
    for file in files:
        file.unlink(missing_ok=True)
        _verdicts(file).unlink(missing_ok=True)


class _Race:
    """Sessions of one model with the provider and without, in turns on the same inputs."""

    def __init__(self, model: Any, folder: pathlib.Path, threads: int, level: Any):
        self.model = model if isinstance(model, bytes) else str(model)
        self.folder, self.threads, self.level = folder, threads, level
        self.before = self._session(False)
        self.inputs = self._inputs()

    def _session(self, ours: bool) -> Any:
        import onnxruntime

        from . import add_to

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.log_severity_level = 3
        if self.level is not None:
            options.graph_optimization_level = self.level
        if not ours:
            return onnxruntime.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])
        return onnxruntime.InferenceSession(self.model, add_to(options, models=self.folder))

    def _inputs(self) -> dict[str, Any] | None:
        """Floats in [-1, 1), and 1 for all other types; nothing where a size is open."""
        import numpy as np

        types = {"float": np.float32, "float16": np.float16, "double": np.float64, "bool": np.bool_}
        random = np.random.default_rng(0)
        inputs = {}
        for port in self.before.get_inputs():
            name = port.type.removeprefix("tensor(").removesuffix(")")
            if not all(isinstance(size, int) for size in port.shape):
                return None
            if name.startswith("float") or name == "double":
                inputs[port.name] = (2 * random.random(port.shape) - 1).astype(types.get(name, np.float32))
            else:
                inputs[port.name] = np.ones(port.shape, types.get(name, name))
        return inputs

    def ratio(self) -> float:
        """Of the first quartiles, which other work on the processors moves the least."""
        sessions = (self.before, self._session(True))
        seconds: tuple[list[float], list[float]] = ([], [])
        started = time.perf_counter()
        while len(seconds[0]) < _ROUNDS or time.perf_counter() - started < _SECONDS:
            for which in (0, 1) if len(seconds[0]) % 2 else (1, 0):
                begun = time.perf_counter()
                sessions[which].run(None, self.inputs)
                seconds[which].append(time.perf_counter() - begun)
        before, after = (statistics.quantiles(own, n=4)[0] for own in seconds)
        return after / before
