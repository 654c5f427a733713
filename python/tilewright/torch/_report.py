"""The table of tilewright.torch.report(): what became of each graph."""
from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Dict, List

from .._html import seconds, table

_log = logging.getLogger("tilewright")
_COLUMNS = ["graph", "region", "state", "operators", "tilewright", "inductor", "eager", "reason"]


def tell(line: str) -> None:
    """A line in the log of the package."""
    _log.warning("torch: %s", line)


@dataclass
class Row:
    """A region of a graph.

    `state` is "taken", "in parts" (its regions have rows of their own), "dropped" (it lost or differed), "left"
    (no file runs it) or "fallback" (taken, but not for the last call). `seconds` are those of a run of the
    whole graph, with warm caches, by who ran it; `cold` those after the caches were filled with other data.
    `operators` counts the operators of PyTorch in it.
    """
    graph: str
    region: str
    state: str = "left"
    operators: Dict[str, int] = field(default_factory=dict)
    seconds: Dict[str, float] = field(default_factory=dict)
    cold: Dict[str, float] = field(default_factory=dict)
    reason: str = ""
    command: str = ""
    file: str = ""

    def cells(self) -> List[str]:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(
            self.operators.items(), key=lambda item: -item[1])[:4])
        return [self.graph, self.region, self.state, counts,
                *(seconds(self.seconds.get(who)) for who in ("tilewright", "inductor", "eager")), self.reason]

    def tell(self, state: str, reason: str, command: str = "") -> None:
        """Changes the state, with one line in the log `tilewright` where PyTorch runs the region."""
        if (state, reason) == (self.state, self.reason):
            return
        self.state, self.reason, self.command = state, reason, command
        if state != "taken":
            tell(f"{self.graph}, {self.region}: {state}: {reason}" + (f"; {command}" if command else ""))


class Rows(List[Row]):
    """Rows that print as a table, also in a notebook."""

    def _repr_html_(self) -> str:
        return table(_COLUMNS, [row.cells() for row in self])

    def __getitem__(self, place):  # type: ignore[no-untyped-def,override]
        found = super().__getitem__(place)
        return Rows(found) if isinstance(place, slice) else found

    def __str__(self) -> str:
        lines = [_COLUMNS, *(row.cells() for row in self)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(_COLUMNS))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                         for line in lines)


_rows = Rows()


def add_row(graph: str, region: str, operators: Dict[str, int]) -> Row:
    _rows.append(Row(graph, region, operators=operators))
    return _rows[-1]


def drop_row(dropped: Row) -> None:
    _rows[:] = [row for row in _rows if row is not dropped]


def report() -> Rows:
    """A row for each region of each graph that torch.compile gave to this backend, in their order."""
    return Rows(_rows)
