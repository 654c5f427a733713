"""What the CUDA driver says of the first GPU, and what it takes to give it work. Run as a program:
a driver that hangs or faults takes this process alone.

usage: probe.py [LIBRARY]    prints one JSON document
"""
import ctypes
import json
import os
import pathlib
import sys
import time

# Folders in which containers have a driver that the loader does not know.
DRIVERS = ("libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1",
           "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
# Tensor maps, and so the kernels for sm_90a, are of this version.
LEAST_VERSION = 12000
TOOLKITS = ("/usr/local/cuda/lib64", "/opt/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/wsl/lib")
NVRTC = ("libnvrtc.so.13", "libnvrtc.so.12")
MOST_BYTES, SUBMISSIONS = 1 << 30, 1000


class Problem(Exception):
    """The reason why there is no more to tell."""


def loads(path: str) -> bool:
    try:
        ctypes.CDLL(path)
        return True
    except OSError:
        return False


def find_driver(named: str = "") -> str | None:
    """The first library of the driver that loads, the one that is named before all others."""
    return next((path for path in ((named,) if named else DRIVERS) if loads(path)), None)


def wheel_toolkit(folders: list[str]) -> str | None:
    """The folder of a wheel of Python that holds NVRTC in its lib/."""
    for place in folders:
        for lib in sorted(pathlib.Path(place).glob("nvidia/*/lib"), reverse=True):
            if any((lib / name).exists() for name in NVRTC):
                return str(lib.parent)
    return None


def nvrtc_elsewhere(environment: dict[str, str]) -> bool:
    """Whether the runtime finds NVRTC by itself (runtime/cuda/libraries.cc)."""
    homes = [environment[name] for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    cache = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folders = [*TOOLKITS, *(f"{home}/lib64" for home in homes), f"{cache}/tilewright/cuda/lib"]
    return any(map(loads, NVRTC)) or any(os.path.exists(f"{folder}/{name}") for folder in folders
                                         for name in NVRTC)


def additions(environment: dict[str, str], folders: list[str]) -> dict[str, str]:
    """Variables with which tune-cli finds the driver and NVRTC where it would not look."""
    found = {}
    driver = find_driver(environment.get("TILEWRIGHT_CUDA_DRIVER", ""))
    if driver and driver != DRIVERS[0] and not environment.get("TILEWRIGHT_CUDA_DRIVER"):
        found["TILEWRIGHT_CUDA_DRIVER"] = driver
    toolkit = wheel_toolkit(folders)
    if toolkit and not environment.get("TILEWRIGHT_CUDA") and not nvrtc_elsewhere(environment):
        found["TILEWRIGHT_CUDA"] = toolkit
    return found


class Driver:
    """The functions of libcuda that the probe calls. Each failure names its function."""

    def __init__(self, path: str):
        self.library = ctypes.CDLL(path)

    def call(self, name: str, *arguments) -> None:
        try:
            function = getattr(self.library, name)
        except AttributeError:
            raise Problem(f"the driver has no {name}") from None
        status = function(*arguments)
        if status != 0:
            raise Problem(f"{name}: error {status}")

    def seconds(self, work) -> float:
        """The time on the device's clock of what `work` submits to the default stream."""
        events = [ctypes.c_void_p() for _ in range(2)]
        for event in events:
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", events[0], None)
        work()
        self.call("cuEventRecord", events[1], None)
        self.call("cuEventSynchronize", events[1])
        took = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(took), *events)
        return took.value / 1e3


def fill_numbers(driver: Driver, free: int) -> dict:
    """Bytes that the device's memory takes in a second, and the time of a submission."""
    size = min(MOST_BYTES, free // 4)
    memory = ctypes.c_uint64()
    driver.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))

    def fill(count: int, bytes_each: int) -> None:
        for _ in range(count):
            driver.call("cuMemsetD8Async", memory, ctypes.c_ubyte(1), ctypes.c_size_t(bytes_each), None)

    fill(1, size)
    took = driver.seconds(lambda: fill(1, size))
    begin = time.perf_counter()
    fill(SUBMISSIONS, 4)
    driver.call("cuCtxSynchronize")
    submission = (time.perf_counter() - begin) / SUBMISSIONS
    driver.call("cuMemFree_v2", memory)
    return {"fill_gb_per_second": round(size / took / 1e9, 1),
            "submission_us": round(submission * 1e6, 2)}


def probe(path: str) -> dict:
    found: dict = {"driver_library": path}
    try:
        driver = Driver(path)
        version, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        driver.call("cuInit", 0)
        driver.call("cuDriverGetVersion", ctypes.byref(version))
        found["driver_version"] = version.value
        if version.value < LEAST_VERSION:
            raise Problem(f"the driver is one of CUDA {version.value // 1000}.{version.value % 1000 // 10}; "
                          "kernels for sm_90a need 12.0")
        driver.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(256)
        driver.call("cuDeviceGetName", name, 256, device)
        found["device"] = name.value.decode()
        total = ctypes.c_size_t()
        driver.call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
        found["memory_bytes"] = total.value
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        driver.call("cuCtxSetCurrent", context)
        found.update(fill_numbers(driver, total.value))
    except Problem as problem:
        found["problem"] = str(problem)
    return found


def main() -> None:
    path = find_driver(sys.argv[1] if len(sys.argv) > 1 else "")
    print(json.dumps(probe(path) if path else {"problem": "no library of the CUDA driver loads"}))


if __name__ == "__main__":
    main()
