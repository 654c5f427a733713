"""Exceptions: one for each status of the C interface. Their text is the library's own sentence, which
names the thing at fault and says what would be accepted."""
from __future__ import annotations


class Error(Exception):
    """Whatever Tilewright refuses or fails at."""

    status: str = ""
    """What the C interface calls it: "tensor", "miss", …"""


class ArgumentError(Error, ValueError):
    """An argument that makes no sense, or an object that was closed."""

    status = "argument"


class SpecError(Error, ValueError):
    """A spec that says no workload."""

    status = "spec"


class DatabaseError(Error):
    """A file that is missing, locked, damaged, or none of ours."""

    status = "database"


class MissError(Error, LookupError):
    """No kernel serves what was asked for; the report has the command that would tune one."""

    status = "miss"


class TensorError(Error, ValueError):
    """An operand's shape, element type, strides, alignment or device."""

    status = "tensor"


class WeightsError(Error, ValueError):
    """Weights that were packed for another kernel, or are missing."""

    status = "weights"


class DeviceError(Error, RuntimeError):
    """No such device or toolchain, or it failed."""

    status = "device"


class KernelError(Error, RuntimeError):
    """A kernel that does not load, or reported a failure."""

    status = "kernel"


class AllocationError(Error, MemoryError):
    """Out of memory, or a workspace that is too small."""

    status = "memory"


class InternalError(Error, RuntimeError):
    """A fault of the library itself."""

    status = "internal"


class FileError(Error):
    """A file of weights that is missing, damaged, or lacks what was asked for."""

    status = "file"


class TuneError(Error, RuntimeError):
    """Tuning ended without a kernel: no candidate was valid, or the budget ended before one was."""

    status = "tune"


BY_STATUS: dict[int, type[Error]] = {
    1: ArgumentError,
    2: SpecError,
    3: DatabaseError,
    4: MissError,
    5: TensorError,
    6: WeightsError,
    7: DeviceError,
    8: KernelError,
    9: AllocationError,
    10: InternalError, 11: FileError,
}
"""By tw_status."""
