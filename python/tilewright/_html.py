"""Tables for notebooks."""
from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Iterable, Sequence

if TYPE_CHECKING:
    from ._core import Kernel, Model, Prepared
    from ._types import Port

_ROWS = 200  # of a table


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """An HTML table; a long one ends with the number of rows that it leaves out."""
    text = html.escape(caption)
    parts = [f"<p><code>{text}</code></p>" if caption else ""]
    rows = list(rows)
    if heads:
        cells = "".join(f"<th style='text-align:left'>{html.escape(head)}</th>" for head in heads)
        parts.append(f"<table><thead><tr>{cells}</tr></thead><tbody>")
        for row in rows[:_ROWS]:
            cells = "".join(f"<td style='text-align:left'>{html.escape(str(cell))}</td>" for cell in row)
            parts.append(f"<tr>{cells}</tr>")
        parts.append("</tbody></table>")
    if len(rows) > _ROWS:
        parts.append(f"<p>and {len(rows) - _ROWS} more</p>")
    return "".join(parts)


def seconds(value: float | None) -> str:
    """A time that a person reads."""
    if not value:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def prepared_html(prepared: Prepared) -> str:
    """Prepared._repr_html_."""
    return table(["spec", "sizes", "outcome", "time", "threads", "reason", "tuned by"],
                 [[line.spec, line.sizes, line.outcome, seconds(line.seconds), line.threads or "",
                   line.reason, line.command] for line in prepared.report])


def kernel_html(kernel: Kernel) -> str:
    """Kernel._repr_html_."""
    return table(["operand", "role", "type", "shape", "packed"],
                 [[o.name, o.role, o.dtype,
                   ["?" if extent is None else extent for extent in o.shape], o.packed]
                  for o in kernel.operands], repr(kernel))


def _sizes_text(port: Port) -> str:
    return ", ".join(str(most) if most == least else f"{least}..{most}"
                     for most, least in zip(port.shape, port.least))


def model_html(model: Model) -> str:
    """Model._repr_html_."""
    ports = ", ".join(f"{p.name}: {p.dtype}[{_sizes_text(p)}]" for p in (*model.inputs, *model.outputs))
    return table(["node", "spec", "outcome", "tuned", "last run", "reason"],
                 [[n.label, n.spec, n.outcome, seconds(n.tuned_seconds), seconds(n.seconds), n.reason]
                  for n in model.nodes], ports)
