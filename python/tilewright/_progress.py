"""How a tuning run is shown while it goes on."""
from __future__ import annotations

import re
import sys
from typing import Any, Callable, Literal, Union

from ._errors import ArgumentError

Progress = Union[Literal["auto", "bar", "lines"], Callable[[str], object], None]

# A line of tune-cli: "[2/5] ffn, trial 24/64, best 2.1 ms, …".
_LINE = re.compile(r"\[(?P<at>\d+)/(?P<count>\d+)\] (?P<name>.*?),? ?trial (?P<trial>\d+)"
                   r"(?:/(?P<budget>\d+))?(?P<rest>.*)")


class Lines:
    """Each line to a function."""

    def __init__(self, take: Callable[[str], object]):
        self._take = take

    def __call__(self, line: str) -> None:
        self._take(line)

    def close(self) -> None:
        pass


class Bar:
    """A progress bar over the trials of all workloads: tqdm's, else one line of standard error."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
            self._bar: Any = tqdm(unit="trial")
        except ImportError:
            self._bar = None
        self._done: dict[str, int] = {}  # trials by workload
        self._width = 0

    def __call__(self, line: str) -> None:
        found = _LINE.match(line)
        if found is None:
            self._note(line)
            return
        self._done[found["at"]] = int(found["trial"])
        done = sum(self._done.values())
        total = int(found["budget"]) * int(found["count"]) if found["budget"] else None
        told = f"[{found['at']}/{found['count']}] {found['name']}".strip()
        if self._bar is not None:
            self._bar.total = total
            self._bar.set_description_str(told, refresh=False)
            self._bar.set_postfix_str(found["rest"].strip(", "), refresh=False)
            self._bar.update(done - self._bar.n)
            self._bar.refresh()
            return
        self._draw(f"{told}{self._drawn(done, total)}{found['rest']}")

    @staticmethod
    def _drawn(done: int, total: int | None) -> str:
        if total is None:
            return f" {done} trials"
        full = min(20, 20 * done // max(1, total))
        return f" |{'#' * full}{'-' * (20 - full)}| {done}/{total}"

    def _draw(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def _note(self, line: str) -> None:
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
            return
        if self._width:
            sys.stderr.write("\n")
            self._width = 0
        print(line, file=sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._width:
            sys.stderr.write("\n")


def _in_a_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def progress_of(progress: Progress) -> Lines | Bar | None:
    """What takes the lines of a run."""
    if progress == "auto":
        progress = "bar" if _in_a_notebook() or sys.stderr.isatty() else "lines"
    if progress == "bar":
        return Bar()
    if progress == "lines":
        return Lines(lambda line: print(line, file=sys.stderr))
    if progress is None or callable(progress):
        return None if progress is None else Lines(progress)
    raise ArgumentError(f"progress is {progress!r}; expected 'auto', 'bar', 'lines', a function of a line, "
                        f"or None")
