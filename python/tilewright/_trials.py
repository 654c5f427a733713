"""The trials of a database as rows of a table."""
from __future__ import annotations

import datetime
import json
import os
import subprocess
from typing import Any, Iterable, Mapping

from ._html import seconds, table
from ._program import failure, find_program, spec_arguments


class Trials(list):
    """A list of flat dicts, one for each trial; pandas.DataFrame() takes it. In a notebook, a table."""

    def _repr_html_(self) -> str:
        return table(["op", "trial", "verdict", "time", "sketch", "threads", "reason"],
                     [[t["op"], t["trial"], t["verdict"], seconds(t["seconds"]), t["sketch"], t["threads"],
                       t["reason"]] for t in self])


def _run(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([find_program(), *arguments], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")


def _hashes(specs: Any) -> set[str]:
    """The workloads of specs, by which the database knows them."""
    with _run("tune", "--dry-run", "--json", "--", *spec_arguments(specs)) as process:
        output, errors = process.communicate()
    if process.returncode != 0:
        raise failure(process.returncode, errors)
    return {result["workload"] for result in json.loads(output)["results"]}


def _rows(db: str | os.PathLike[str], kinds: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """The rows of these tables. Every row was held to its checksum."""
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    starts = {f'{{"table":"{kind}"': kind for kind in rows}
    with _run("db", "export", "-", "--db", os.fspath(db)) as process:
        for line in process.stdout or ():
            kind = starts.get(line[:line.find(",")])
            if kind is not None:  # and no kernels, which are long
                rows[kind].append(json.loads(line))
        errors = process.stderr.read() if process.stderr else ""
    if process.returncode != 0:
        raise failure(process.returncode, errors)
    return rows


def trials(db: str | os.PathLike[str] = "tilewright.db",
           specs: str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]] | None = None) -> Trials:
    """The trials that a database holds, the oldest first; of these specs alone where they are given.

    Each is a flat dict. "seconds" is the median time, None for a trial that failed, whose "verdict" and
    "reason" say how. "predicted": a model ranked it and nobody measured it. "confirmed": one that was
    measured again at the end of a run, beside its rivals. "config.NAME" is the choice for each knob of the
    sketch.
    """
    wanted = None if specs is None else _hashes(specs)
    rows = _rows(db, ("workloads", "targets", "records"))
    workloads = {row["hash"]: row for row in rows["workloads"]}
    targets = {row["hash"]: row for row in rows["targets"]}
    found = Trials()
    for row in sorted(rows["records"], key=lambda r: (r["created"], r["trial"])):
        if wanted is not None and row["workload_hash"] not in wanted:
            continue
        workload = workloads.get(row["workload_hash"], {})
        created = datetime.datetime.fromtimestamp(row["created"] / 1e6, datetime.timezone.utc)
        trial = {
            "workload": row["workload_hash"], "spec": workload.get("canonical", ""),
            "op": workload.get("op", ""), "label": row["label"],
            "chip": targets.get(row["target_hash"], {}).get("chip", ""),
            "trial": row["trial"], "verdict": row["verdict"], "reason": row["reason"],
            "seconds": row["median_seconds"] or None, "best_seconds": row["best_seconds"] or None,
            "samples": len(row["samples"]), "threads": row["threads"], "sketch": row["sketch"],
            "default": bool(row["is_default"]), "confirmed": bool(row.get("confirmed", 0)),
            "predicted": bool(row["offline"]), "seed": row["seed"], "created": created.isoformat(),
        }
        try:
            config = json.loads(row["config"])
        except ValueError:
            config = {}
        trial.update({f"config.{name}": choice for name, choice in config.items()})
        found.append(trial)
    return found
