"""cuBLASLt's rate at one large product, by which the clock under load is judged. Run as a program: a
library that hangs or faults takes this process alone.

usage: yardstick.py DRIVER [SIZE]    prints one JSON document; TILEWRIGHT_PEERS names folders of libraries
"""
import ctypes
import json
import os
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from gpu_checks.probe import TOOLKITS, Driver, Problem, find_driver, loads  # noqa: E402

LIBRARIES = ("libcublasLt.so.13", "libcublasLt.so.12")
SIZE, RUNS, CANDIDATES, WORKSPACE = 8192, 20, 8, 64 << 20
# Numbers of cuBLASLt's interface (runtime/cuda/peers/cublas_lt_functions.h).
TRANS_A, OP_T, COMPUTE_32F, R_32F, R_16BF, MAX_WORKSPACE = 3, 1, 68, 0, 14, 1
# Operations of bf16 in a cycle of an SM, by compute capability; attributes of a device.
OPERATIONS = {(8, 0): 2048, (8, 9): 1024, (9, 0): 4096}
SMS, MAJOR, MINOR = 16, 75, 76


class Candidate(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4)]


def find_library(environment: dict[str, str]) -> str | None:
    """The first cuBLASLt that loads: of wheels (TILEWRIGHT_PEERS), the loader's, of a toolkit."""
    peers = [folder for folder in environment.get("TILEWRIGHT_PEERS", "").split(":") if folder]
    paths = [f"{folder}/{name}" for folder in peers for name in LIBRARIES]
    paths += [*LIBRARIES, *(f"{folder}/{name}" for folder in TOOLKITS for name in LIBRARIES)]
    return next(filter(loads, paths), None)


def random_block(values: int) -> bytes:
    """Elements of bf16 between 0.5 and 2 of either sign: zeros would draw less power."""
    block = bytearray(os.urandom(2 * values))
    signs = bytes(0x3f | (byte & 0x80) for byte in range(256))
    block[1::2] = bytes(block[1::2]).translate(signs)
    return bytes(block)


def values_of(block: bytes) -> list[float]:
    halves = struct.unpack(f"<{len(block) // 2}H", block)
    words = struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves))
    return list(struct.unpack(f"<{len(halves)}f", words))


class Blas:
    """The functions of cuBLASLt that the yardstick calls. Each failure names its function."""

    def __init__(self, path: str):
        self.library = ctypes.CDLL(path)
        self.library.cublasLtGetVersion.restype = ctypes.c_size_t
        self.handle = self.made("cublasLtCreate")

    def call(self, name: str, *arguments) -> None:
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise Problem(f"{name}: status {status}")

    def made(self, name: str, *arguments) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def set(self, name: str, handle, attribute: int, value) -> None:
        self.call(name, handle, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))

    def product(self, n: int):
        """D = A^T B of n x n elements by columns, and the algorithms that the library proposes for it."""
        what = self.made("cublasLtMatmulDescCreate", COMPUTE_32F, R_32F)
        self.set("cublasLtMatmulDescSetAttribute", what, TRANS_A, ctypes.c_int(OP_T))
        layout = self.made("cublasLtMatrixLayoutCreate", R_16BF, ctypes.c_uint64(n), ctypes.c_uint64(n),
                           ctypes.c_int64(n))
        wish = self.made("cublasLtMatmulPreferenceCreate")
        self.set("cublasLtMatmulPreferenceSetAttribute", wish, MAX_WORKSPACE, ctypes.c_uint64(WORKSPACE))
        candidates, found = (Candidate * CANDIDATES)(), ctypes.c_int()
        self.call("cublasLtMatmulAlgoGetHeuristic", self.handle, what, *[layout] * 4, wish, CANDIDATES,
                  candidates, ctypes.byref(found))
        return what, layout, [c for c in candidates[:found.value] if c.state == 0]


class Yardstick:
    """One product on the device: its operands, and its time by an algorithm of the library."""

    def __init__(self, driver: Driver, blas: Blas, n: int):
        self.driver, self.blas, self.n = driver, blas, n
        self.a, self.b, self.d = (self.memory(2 * n * n) for _ in range(3))
        self.space = self.memory(WORKSPACE)
        self.block = random_block(min(n * n, 64 * n))
        for operand in (self.a, self.b):
            for at in range(0, 2 * n * n, len(self.block)):
                driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(operand.value + at), self.block,
                            ctypes.c_size_t(len(self.block)))
        self.what, self.layout, self.candidates = blas.product(n)

    def memory(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def run(self, candidate: Candidate) -> None:
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        self.blas.call("cublasLtMatmul", self.blas.handle, self.what, ctypes.byref(one), self.a, self.layout,
                       self.b, self.layout, ctypes.byref(zero), self.d, self.layout, self.d, self.layout,
                       candidate.algorithm, self.space, ctypes.c_size_t(WORKSPACE), None)

    def seconds(self, candidate: Candidate) -> float:
        """Of one of many runs one behind the other: the clock is that under load."""
        self.run(candidate)
        self.driver.call("cuCtxSynchronize")
        return self.driver.seconds(lambda: [self.run(candidate) for _ in range(RUNS)]) / RUNS

    def is_right(self) -> bool:
        """Whether the first element is that of the operands, which begin with the same row."""
        got = ctypes.create_string_buffer(2)
        self.driver.call("cuMemcpyDtoH_v2", got, self.d, ctypes.c_size_t(2))
        want = sum(x * x for x in values_of(self.block[:2 * self.n]))
        return abs(values_of(got.raw)[0] - want) <= abs(want) / 64


def attribute(driver: Driver, which: int) -> int:
    value = ctypes.c_int()
    driver.call("cuDeviceGetAttribute", ctypes.byref(value), which, 0)
    return value.value


def measure(driver: Driver, blas: Blas, n: int) -> dict:
    stick = Yardstick(driver, blas, n)
    best, problems = None, []
    for candidate in stick.candidates:
        try:
            took = stick.seconds(candidate)
        except Problem as problem:
            problems.append(str(problem))
            continue
        if not stick.is_right():
            raise Problem("its product is wrong")
        best = took if best is None else min(best, took)
    if best is None:
        raise Problem("; ".join(dict.fromkeys(problems)) or "it proposes no algorithm")
    rate = 2 * n ** 3 / best
    per_cycle = OPERATIONS.get((attribute(driver, MAJOR), attribute(driver, MINOR)), 0)
    cycles = attribute(driver, SMS) * per_cycle
    return {"seconds": best, "tflops": round(rate / 1e12, 1),
            **({"clock_mhz_at_least": round(rate / cycles / 1e6)} if cycles else {})}


def yardstick(driver_path: str, environment: dict[str, str], n: int) -> dict:
    path = find_library(environment)
    if path is None:
        return {"problem": "no cuBLASLt loads"}
    found: dict = {"library": path, "product": f"bf16 {n}x{n}x{n}"}
    try:
        driver = Driver(driver_path)
        context = ctypes.c_void_p()
        driver.call("cuInit", 0)
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        driver.call("cuCtxSetCurrent", context)
        blas = Blas(path)
        found["version"] = blas.library.cublasLtGetVersion()
        found.update(measure(driver, blas, n))
    except Problem as problem:
        found["problem"] = str(problem)
    return found


def main() -> None:
    path = find_driver(sys.argv[1] if len(sys.argv) > 1 else "")
    n = int(sys.argv[2]) if len(sys.argv) > 2 else SIZE
    print(json.dumps(yardstick(path, dict(os.environ), n) if path else
                     {"problem": "no library of the CUDA driver loads"}))


if __name__ == "__main__":
    main()
