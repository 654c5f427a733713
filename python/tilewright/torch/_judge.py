"""Whether a region may take the place of what it replaces: same results, and never slower."""
from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Dict, Sequence, Tuple

import torch

# A region stays where it takes at most 1/LEAST of the time of the fastest other, warm and cold.
LEAST = 0.98
_WARM_ROUNDS = 9
_COLD_ROUNDS = 7
_TURN = 0.01  # seconds of a turn, at least
_COLD_BYTES = 64 << 20  # where the size of the caches is not known


def difference(got: Sequence[Any], wanted: Sequence[Any], tolerance: float) -> str:
    """"" where outputs agree, else how they differ. A float may be off by `tolerance` of the largest
    magnitude of its output, or by four roundings of a narrow type; others have to be equal."""
    if len(got) != len(wanted):
        return f"{len(got)} outputs; expected {len(wanted)}"
    for index, (ours, theirs) in enumerate(zip(got, wanted)):
        if not isinstance(theirs, torch.Tensor):
            return f"output {index} is a {type(theirs).__name__}; expected a tensor"
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"output {index} is {ours.dtype} {tuple(ours.shape)}; expected {theirs.dtype} " \
                   f"{tuple(theirs.shape)}"
        if not theirs.dtype.is_floating_point:
            if not torch.equal(ours, theirs):
                return f"output {index} differs in {int((ours != theirs).sum())} of {theirs.numel()} elements"
            continue
        if theirs.numel() == 0:
            continue
        finite = torch.isfinite(theirs)
        same = torch.equal(torch.nan_to_num(ours[~finite]), torch.nan_to_num(theirs[~finite]))
        largest = float(theirs[finite].abs().max()) if finite.any() else 0.0
        off = float((ours[finite] - theirs[finite]).abs().max()) if finite.any() else 0.0
        share = max(tolerance, 4 * torch.finfo(theirs.dtype).eps)
        if not same or not off <= share * largest:
            return f"output {index} is off by {off:.3g} of {largest:.3g}; the tolerance is {share:.3g}"
    return ""


def shares_memory(outputs: Sequence[Any], inputs: Sequence[torch.Tensor]) -> str:
    """"" where each output has memory of its own, else which one is a view: a file makes none."""
    seen = {given.untyped_storage().data_ptr(): "an input" for given in inputs if given.numel()}
    for index, made in enumerate(outputs):
        if isinstance(made, torch.Tensor) and made.numel():
            storage = made.untyped_storage().data_ptr()
            if storage in seen:
                return f"output {index} is a view of {seen[storage]}"
            seen[storage] = "another output"
    return ""


def _cache_bytes() -> int:
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index3/size") as file:
            return min(int(file.read().strip().rstrip("K")) << 10, 256 << 20)
    except (OSError, ValueError):
        return _COLD_BYTES


def _seconds(run: Callable[[], Any], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - start) / times


def race(candidates: Dict[str, Callable[[], Any]]) -> Tuple[Dict[str, float], Dict[str, float]]:
    """Medians of the seconds of a run, by turns: with warm caches, and after a walk over other data."""
    times = {}
    for who, run in candidates.items():
        run()
        times[who] = max(1, int(_TURN / max(_seconds(run, 1), 1e-7)))
    warm: Dict[str, list[float]] = {who: [] for who in candidates}
    cold: Dict[str, list[float]] = {who: [] for who in candidates}
    for rnd in range(_WARM_ROUNDS):
        for who in list(candidates)[:: 1 if rnd % 2 else -1]:
            run = candidates[who]
            run()
            warm[who].append(_seconds(run, times[who]))
    walked = torch.zeros(2 * _cache_bytes() // 4)
    for rnd in range(_COLD_ROUNDS):
        for who in list(candidates)[:: 1 if rnd % 2 else -1]:
            walked.add_(1)
            cold[who].append(_seconds(candidates[who], 1))
    return ({who: statistics.median(samples) for who, samples in warm.items()},
            {who: statistics.median(samples) for who, samples in cold.items()})


def loses(who: str, warm: Dict[str, float], cold: Dict[str, float]) -> str:
    """"" where `who` may stay, else what is faster."""
    for kind, seconds in (("warm", warm), ("cold", cold)):
        other = min((name for name in seconds if name != who), key=seconds.__getitem__, default=None)
        if other is not None and seconds[other] < LEAST * seconds[who]:
            return (f"{1e3 * seconds[who]:.3g} ms with {kind} caches; {other} takes "
                    f"{1e3 * seconds[other]:.3g} ms")
    return ""
