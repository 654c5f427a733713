"""Times a whole model with its parts on Tilewright and without, since a trial of one part does not see what the runtime
loses around it: fusions across its edges and layouts of its own."""
from __future__ import annotations

import pathlib
import statistics
import sys
import time
from typing import Any

_MOST = 1.0  # a run with the parts, over one without
_MOST_OF_PART = 0.98  # as the provider has it: most_time in provider/trial.h
_SECONDS, _ROUNDS = 1, 40  # of a race, at least
_MOST_SECONDS, _LEAST_ROUNDS = 20, 5  # a slow model has fewer rounds


def keep_winners(model: Any, folder: pathlib.Path, files: list[pathlib.Path], threads: int, level: Any) -> None:
    """Deletes model files, those that win the least first, until a run of the model with the rest is not slower than one
    without. A model that cannot be timed keeps its files, and so does a part without a verdict of the provider."""
    try:
        race = _Race(model, folder, threads, level)
        race.judge()  # a session tries each part; that of the next line tries those once more that seem slow
        ratio = race.ratio()
    except _Untimed as why:
        print(f"{folder}: the model is not timed with its parts, and all of them are kept: {why}", file=sys.stderr)
        return
    judged = {file: _judged(file) for file in files}
    kept = sorted((file for file in files if judged[file] <= _MOST_OF_PART), key=lambda file: judged[file])
    _delete(set(files) - set(kept))
    while kept and ratio > _MOST:
        _delete(kept[len(kept) // 2:])
        kept = kept[:len(kept) // 2]
        if kept:
            ratio = race.ratio()
    said = f"; a run of the model takes {100 * ratio:.0f}% of its time without" if kept else ""
    print(f"{folder}: {len(kept)} of {len(files)} files of parts make the model faster and are kept{said}", file=sys.stderr)


class _Untimed(Exception):
    """Why a model cannot be timed."""


def _verdicts(file: pathlib.Path) -> pathlib.Path:
    return file.with_name(file.name + ".trials")


def _judged(file: pathlib.Path) -> float:
    """The part's time over that of the CPU provider, by the latest verdict; the most that a part may take without any,
    since the provider uses what it cannot try."""
    verdicts = _verdicts(file)
    lines = verdicts.read_text(encoding="utf-8").splitlines() if verdicts.is_file() else []
    return float(lines[-1].split()[1]) if lines else _MOST_OF_PART


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
        return onnxruntime.InferenceSession(self.model, add_to(options, models=self.folder, trial_seconds=3600))

    def _inputs(self) -> dict[str, Any]:
        """Floats in [-1, 1), and 1 for all other types."""
        import numpy as np

        types = {"float": np.float32, "float16": np.float16, "double": np.float64, "bool": np.bool_}
        random = np.random.default_rng(0)
        inputs = {}
        for port in self.before.get_inputs():
            name = port.type.removeprefix("tensor(").removesuffix(")")
            if not all(isinstance(size, int) for size in port.shape):
                raise _Untimed(f"input '{port.name}' has open sizes")
            if name in ("float", "float16", "double"):
                inputs[port.name] = (2 * random.random(port.shape) - 1).astype(types[name])
            elif name == "bool" or name.lstrip("u").startswith("int"):
                inputs[port.name] = np.ones(port.shape, types.get(name, name))
            else:
                raise _Untimed(f"input '{port.name}' is {port.type}")
        return inputs

    def judge(self) -> None:
        """Lets the provider try its files."""
        self._session(True)

    def ratio(self) -> float:
        """The time with the provider over that without: first quartiles, which other work on the processors moves the
        least."""
        sessions = (self.before, self._session(True))
        seconds: tuple[list[float], list[float]] = ([], [])
        started = time.perf_counter()
        while self._goes_on(len(seconds[0]), time.perf_counter() - started):
            for which in (0, 1) if len(seconds[0]) % 2 else (1, 0):
                begun = time.perf_counter()
                try:
                    sessions[which].run(None, self.inputs)
                except Exception as error:  # the runtime's exceptions have no base of their own
                    raise _Untimed(f"a run on made inputs fails: {error}") from error
                seconds[which].append(time.perf_counter() - begun)
        before, after = (statistics.quantiles(own, n=4)[0] for own in seconds)
        return after / before

    @staticmethod
    def _goes_on(rounds: int, seconds: float) -> bool:
        if seconds > _MOST_SECONDS:
            return rounds < _LEAST_ROUNDS
        return rounds < _ROUNDS or seconds < _SECONDS
