"""torch.compile(model, backend="tilewright"): who runs a graph, and when another one does."""
from __future__ import annotations

import gc
import itertools
import pathlib
import shutil
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

import torch
from torch import fx

from .._errors import ArgumentError
from .._program import find_program
from ._capture import Capture, Left, Unavailable, capture, heavy_nodes
from ._judge import LEAST, difference, loses, race, shares_memory
from ._partition import operators, partition
from ._region import Region, default_folder, one_line
from ._rest import compile_rest, fixed_sizes
from ._report import Row, Rows, add_row, drop_row, report, tell
from ._stored import byte_tolerance
from ._watch import Watch

CHANGED = ("weights have changed since its file was made; after torch.compiler.reset() the next call looks "
           "for a file of the new ones")
_numbers = itertools.count()
_live: weakref.WeakSet[Graph] = weakref.WeakSet()


@dataclass
class Options:
    """`options=` of torch.compile.

    `folder` holds the files. `tune`: "first" makes a missing file of kernels of the folder's database and
    first answers; "5m" searches for so long; None makes none. `fallback` runs what is left: "inductor" or
    "eager"; by default Inductor where there is a C++ compiler. `tolerance`: how far a float may be off, as
    a share of its output's largest magnitude. `largest`: the largest size of a dynamic dimension.
    `partition`: whether a graph may be taken in parts. `measure`: whether a region has to be as fast as
    what it replaces.
    """
    folder: str | pathlib.Path | None = None
    tune: str | None = "first"
    fallback: str | None = None
    tolerance: float = 1e-3
    largest: int | None = None
    partition: bool = True
    measure: bool = True

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> Options:
        names = list(cls.__dataclass_fields__)
        for name in given or {}:
            if name not in names:
                raise ArgumentError(f"option '{name}' is none of backend=\"tilewright\"; expected one of "
                                    f"{', '.join(names)}")
        options = cls(**(given or {}))
        if options.fallback not in (None, "inductor", "eager"):
            raise ArgumentError(f"option 'fallback' is '{options.fallback}'; expected 'inductor' or 'eager'")
        options.fallback = options.fallback or ("inductor" if shutil.which("g++") or shutil.which("clang++")
                                                else "eager")
        options.folder = pathlib.Path(options.folder or default_folder())
        return options


def told(error: Exception) -> str:
    """A reason for the table: an unforeseen error leaves a graph to PyTorch, too."""
    return str(error) if isinstance(error, Left) else f"{type(error).__name__}: {one_line(error)}"


class Graph:
    """A graph of dynamo and who runs it. `run` changes: the first run decides, later ones are runs of the
    files or of the fallback."""

    def __init__(self, gm: fx.GraphModule, arguments: Sequence[Any], options: Options,
                 mode: str | None) -> None:
        self.options, self.number = options, next(_numbers)
        self.name = f"graph {self.number}"
        self.rows = [add_row(self.name, "whole", operators(gm.graph))]
        self.eager = fx.GraphModule(gm, fx.Graph())
        self.eager.graph.output(self.eager.graph.graph_copy(gm.graph, {}))
        self.eager.recompile()
        self.inductor: Callable[..., Any] | None = None
        self.region: Region | None = None
        self.candidate: Callable[[Sequence[torch.Tensor]], Sequence[Any]] | None = None
        self.sample: tuple[Any, ...] = ()
        self.lock = threading.Lock()
        self.run: Callable[..., Any] = self._fallback
        try:
            self._capture(gm, arguments)
            self.run = self._first
        except Exception as error:
            self._leave(told(error))
        if options.fallback == "inductor" and not self._decided():
            self._compile_inductor(gm, arguments, mode)
        _live.add(self)

    def _decided(self) -> bool:
        """Whether a file runs for which nothing has to be measured."""
        stored = self.region.verdict() if self.region is not None else {}
        return self._stays(stored) and (self.options.tune in (None, "first") or bool(stored.get("tuned")))

    def _capture(self, gm: fx.GraphModule, arguments: Sequence[Any]) -> None:
        if not heavy_nodes(gm.graph):
            raise Left("no product, convolution, attention or norm in it")
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise Left("gradients are on; expected torch.inference_mode() or torch.no_grad()")
        self.taken = capture(gm, arguments, self.options.largest)
        self.watch = Watch([arguments[place] for place in self.taken.statics])
        self.region = self._region_of(self.taken, self.rows[0], torch.get_num_threads())

    def _region_of(self, taken: Capture, row: Row, threads: int) -> Region:
        return Region(taken, row, pathlib.Path(self.options.folder), threads, str(self.options.fallback))

    def _compile_inductor(self, gm: fx.GraphModule, arguments: Sequence[Any], mode: str | None) -> None:
        from torch._inductor import list_mode_options
        from torch._inductor.compile_fx import compile_fx
        try:
            self.inductor = compile_fx(gm, list(arguments),
                                       config_patches=list_mode_options(mode) if mode else None)
        except Exception as error:  # of many types, such as a missing compiler
            tell(f"{self.name}: eager runs in the place of Inductor: {one_line(error)}")

    def _fallback(self, *arguments: Any) -> Any:
        return (self.inductor or self.eager)(*arguments)

    def _leave(self, reason: object, state: str = "left", command: str = "") -> None:
        """The fallback runs it from now on."""
        self.candidate, self.run = None, self._fallback
        self._tell(state, str(reason), command)

    def _tell(self, state: str, reason: str, command: str = "") -> None:
        """One line for all regions."""
        self.rows[0].tell(state, reason, command)
        for row in self.rows[1:]:
            if row.state != "left":
                row.state, row.reason = state, reason

    # The first run decides.

    def _first(self, *arguments: Any) -> Any:
        with self.lock:
            if self.run == self._first:
                self.sample = arguments
                self.decide(arguments, None if self.options.tune == "first" else self.options.tune)
        return self.run(*arguments)

    def decide(self, arguments: Sequence[Any], time: str | None, again: bool = False) -> None:
        """Finds or makes files, compares, measures, and sets `run`. A search for a file takes `time`; where
        there was one, the file is made `again` on request alone."""
        inputs = [arguments[place] for place in self.taken.inputs]
        stored = self.region.verdict()
        self.again = again or (time is not None and not stored.get("tuned"))
        if self.again:  # Inductor's times stay known, since its code may not be there any more
            stored = {name: stored[name] for name in ("parts", "seconds", "cold") if name in stored}
        if stored.get("verdict") == "dropped":
            self._prefer(stored["seconds"], stored["cold"])
            self._leave(f"{stored['reason']}; remembered in {self.region.notes}", "dropped")
            return
        try:
            with torch.no_grad():
                self.candidate = self._whole(inputs, time, stored.get("parts", "")) \
                    or self._parts(inputs, time)
                self.run = self._taken
                if not self._stays(stored):
                    self._judge(arguments, inputs, time, stored)
                    return
        except Exception as error:
            self._leave(told(error))
            return
        self.rows[0].seconds, self.rows[0].cold = stored["seconds"], stored["cold"]
        if len(self.rows) == 1:
            self.rows[0].tell("taken", "")

    def _stays(self, stored: Mapping[str, Any]) -> bool:
        """Whether an earlier process found out that the file may run."""
        return stored.get("verdict") in (("taken",) if self.options.measure else ("taken", "compared"))

    def _whole(self, inputs: Sequence[torch.Tensor], time: str | None,
               parts: str) -> Callable[..., Any] | None:
        """All of it in one file; None where parts may do, which `parts` says of an earlier run."""
        if not parts:
            try:
                return self._made(self.region, inputs, time).run
            except Unavailable:
                raise
            except Left as reason:
                if not self.options.partition:
                    raise
                parts = str(reason)
        self.rows[0].reason = parts
        return None

    def _made(self, region: Region, inputs: Sequence[torch.Tensor], time: str | None) -> Region:
        """The region, opened; its file is made where it is missing and may be."""
        if self.again or not region.open():
            if self.options.tune is None and not self.again:
                raise Unavailable(f"no file {region.file}, and the option tune=None makes none")
            region.compile(inputs, time)
            region.open()
            region.add_specs()
        return region

    def _parts(self, inputs: Sequence[torch.Tensor], time: str | None) -> Callable[..., Any]:
        whole = self.rows[0].reason
        for row in self.rows[1:]:
            drop_row(row)
        del self.rows[1:]

        def make(name: str, graph: fx.Graph, capture_it: Callable[[], Capture],
                 given: Sequence[Any]) -> tuple[Capture, Callable[..., Any]] | None:
            row = add_row(self.name, name.replace("_", " "), operators(graph))
            self.rows.append(row)
            try:
                taken = capture_it()
                region = self._region_of(taken, row, self.region.threads)
                region = self._made(region, [given[place] for place in taken.inputs], time)
            except Left as reason:
                row.tell("left", str(reason))
                return None
            row.tell("taken", "")
            return taken, region.run

        try:
            split = partition(self.taken, inputs, make)
        except Left as reason:
            raise Left(whole if str(reason) == whole else f"{whole}; in parts: {reason}") from reason
        self.rows[0].reason = ""
        self.rows[0].tell("in parts", whole)
        self.split = split  # owns the regions
        rest: Callable[..., Any] = split
        if self.options.fallback == "inductor" and fixed_sizes(split):
            try:
                rest = compile_rest(split)
                rest(*inputs)
            except Exception as error:  # of many types
                tell(f"{self.name}: eager runs the operators between regions: {one_line(error)}")
                rest = split
        return lambda given: rest(*given)

    def _judge(self, arguments: Sequence[Any], inputs: Sequence[torch.Tensor], time: str | None,
               stored: Mapping[str, Any]) -> None:
        """Drops the candidate where it differs from eager's results or is slower than another."""
        row, warm, cold = self.rows[0], {}, {}
        parts = row.reason if row.state == "in parts" else ""
        if self.region.is_open and (reason := self.region.fits(inputs)):
            self._leave(reason, "fallback")
            return
        wanted = self.eager(*arguments)
        reason = shares_memory(wanted, inputs) or difference(self.candidate(inputs), wanted,
                                                             byte_tolerance(self.taken.module.graph,
                                                                            self.options.tolerance))
        if not reason and self.options.measure:
            others = {"eager": self.eager, **({"inductor": self.inductor} if self.inductor else {})}
            warm, cold = race({"tilewright": lambda: self._taken(*arguments),
                               **{who: lambda run=run: run(*arguments) for who, run in others.items()}})
            for seconds, before in ((warm, "seconds"), (cold, "cold")):
                if "inductor" not in seconds and "inductor" in stored.get(before, {}):
                    seconds["inductor"] = stored[before]["inductor"]
            row.seconds, row.cold = warm, cold
            reason = loses("tilewright", warm, cold)
        self._prefer(warm, cold)
        self.region.store_verdict(verdict="dropped" if reason else "taken" if warm else "compared",
                                  reason=reason, seconds=warm, cold=cold, tuned=time, parts=parts)
        if reason:
            self._leave(reason, "dropped",
                        'tilewright.torch.tune("5m") searches for faster kernels' if warm else "")
        elif not parts:
            row.tell("taken", "")

    def _prefer(self, warm: Mapping[str, float], cold: Mapping[str, float]) -> None:
        """Inductor gives way to eager where that was faster, by more than noise and with both kinds of caches."""
        if all(seconds.get("eager", 1.0) < LEAST * seconds.get("inductor", 0.0) for seconds in (warm, cold)):
            self.inductor = None

    # Runs of a graph that was taken.

    def _taken(self, *arguments: Any) -> Any:
        if self.watch.changed([arguments[place] for place in self.taken.statics]):
            return self._give_way(CHANGED, arguments)
        inputs = [arguments[place] for place in self.taken.inputs]
        if self.region.is_open and (reason := self.region.fits(inputs)):
            return self._give_way(reason, arguments)
        return self.candidate(inputs)

    def _give_way(self, reason: str, arguments: Sequence[Any]) -> Any:
        self._tell("fallback", reason)
        return self._fallback(*arguments)

    def tune(self, time: str | None) -> None:
        if not self.sample or self.region is None:
            return
        if self.watch.changed([self.sample[place] for place in self.taken.statics]):
            self.rows[0].tell("fallback", CHANGED)
            return
        self.decide(self.sample, time, again=True)


def backend(gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
            mode: str | None = None) -> Callable[..., Any]:
    """The backend "tilewright" of torch.compile; `options` are the fields of Options. `mode` is Inductor's,
    for what is left to it."""
    graph = Graph(gm, example_inputs, Options.read(options), mode)
    return lambda *arguments: graph.run(*arguments)


def tune(time: str | None = None) -> Rows:
    """Makes the files of this process's graphs anew, which run them from then on, and returns report().

    Each file gets a search of `time` ("5m"); None takes what the folder's kernels.db holds, such as what
    tilewright.tune("FOLDER/specs.txt", db="FOLDER/kernels.db") found. Graphs that never ran or whose weights
    changed are left out. DeviceError without tune-cli.
    """
    find_program()  # its error is the caller's: a graph without it would lose its file
    gc.collect()  # graphs that dynamo has dropped
    for graph in sorted(_live, key=lambda graph: graph.number):
        graph.tune(time)
    return report()
