"""Tuning on a Ray cluster: each worker is an actor that runs `tune-cli worker` where Ray places it.

    tilewright.ray.tune("matmul:m=512,n=3072,k=768", workers=8)

`python -m tilewright.ray` is one such worker's end here, between its standard streams and its actor; it is
what `tune-cli tune --workers ray:COUNT` starts. Lines go both ways as they are.
"""
from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional

from ._program import find_program
from ._tune import Results
from ._tune import tune as _tune

# Ray's options of an actor as JSON, such as {"num_cpus": 8, "resources": {"zen4": 1}}.
_OPTIONS = "TILEWRIGHT_RAY_OPTIONS"


def tune(specs: Any, *, workers: int = 1, address: Optional[str] = None,
         actor_options: Optional[Dict[str, Any]] = None, **options: Any) -> Results:
    """tilewright.tune() with candidates measured by `workers` actors of the Ray cluster at `address` (that of
    RAY_ADDRESS, or a new one on this machine). `actor_options` are Ray's for each actor: num_cpus (1),
    resources and others, by which it is placed and the cluster grows. `options` as tune() takes them.

    Each machine needs tune-cli of the same version, which this package has. A lost actor's trials go to
    others, and it is started again."""
    import json

    import ray

    started = not ray.is_initialized()
    if started:
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    changed = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address,
               _OPTIONS: json.dumps(actor_options or {})}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        arguments = [*options.pop("arguments", ()), "--workers", f"ray:{workers}"]
        return _tune(specs, arguments=arguments, **options)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if started:
            ray.shutdown()


class _Worker:
    """In the actor's process: `tune-cli worker`, whose lines wait here to be fetched."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([find_program(), "worker"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.lines: "queue.Queue[Optional[bytes]]" = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def fetch(self, seconds: float) -> List[Optional[bytes]]:
        """The lines that have come, after `seconds` at most; None behind the last one."""
        found: List[Optional[bytes]] = []
        try:
            found.append(self.lines.get(timeout=seconds))
            while True:
                found.append(self.lines.get_nowait())
        except queue.Empty:
            return found

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


def _relay() -> int:
    import json

    import ray

    ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), log_to_driver=False)
    options = {"num_cpus": 1, **json.loads(os.environ.get(_OPTIONS, "{}"))}
    # Two methods at once: one waits for lines while the other sends.
    actor = ray.remote(_Worker).options(max_concurrency=2, **options).remote()

    def send() -> None:
        for line in sys.stdin.buffer:
            ray.get(actor.send.remote(line))
        try:
            ray.get(actor.close.remote(), timeout=30)
        finally:
            os._exit(0)

    threading.Thread(target=send, daemon=True).start()
    while True:
        for line in ray.get(actor.fetch.remote(1.0)):
            if line is None:
                return 1
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(_relay())
