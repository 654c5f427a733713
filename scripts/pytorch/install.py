#!/usr/bin/env python3
"""Installs PyTorch of PyPI for the CPU, where scripts/bench_pytorch.py and the tests look for it.

PyPI's wheel for Linux is linked with NVIDIA's libraries, 3 GB in packages of their own, although a program
on the CPU calls none of their functions. They are left out: libraries of the same names take their place,
whose functions all return the error "no device".
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import peer_venv  # noqa: E402

# Imported by torch, its exporter to ONNX and our tests. MODELS is for scripts/pytorch/bench_models.py.
BESIDE = ("numpy", "onnx", "onnxscript", "filelock", "typing-extensions", "setuptools>=77.0.3", "sympy",
          "networkx", "jinja2", "fsspec", "mpmath")
MODELS = ("transformers", "pillow")
GPU = r"lib(cu|nv|nccl)"  # names of NVIDIA's libraries
NO_DEVICE = 100  # cudaErrorNoDevice, and an error to all the other libraries


def read_elf(library: pathlib.Path) -> tuple[set[str], set[str], set[tuple[str, str, str]]]:
    """The libraries that it needs, the names that it defines, and (name, version, file) of what it takes.

    Version and file are "" for a name without a version, which any library may define.
    """
    text = subprocess.run(["readelf", "-W", "-d", "--dyn-syms", "-V", library], check=True, text=True,
                          capture_output=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
    files, file = {}, ""
    for line in text.partition("Version needs section")[2].splitlines():
        if found := re.search(r"File: (\S+)", line):
            file = found[1]
        elif found := re.search(r"Name: (\S+)", line):
            files[found[1]] = file
    defined, taken = set(), set()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[4] not in ("GLOBAL", "WEAK"):
            continue
        name, _, version = fields[7].partition("@")
        if fields[6] != "UND":
            defined.add(name)
        elif fields[4] == "GLOBAL":
            taken.add((name, version, files.get(version, "")))
    return needed, defined, taken


def write_stub(path: pathlib.Path, versions: dict[str, set[str]]) -> None:
    """A library whose functions return NO_DEVICE, or the text of an error: names by version, "" for none."""
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "stub.s"), pathlib.Path(folder, "stub.map")
        texts, numbers = [], []
        map_lines = []
        for version, names in versions.items():
            for name in sorted(names):
                kind = texts if re.search("(String|ErrorName|ncclGetLastError)$", name) else numbers
                kind.append(f".globl {name}\n.type {name}, @function\n{name}:")
            if version:
                map_lines.append(f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};")
        lines = ['.section .note.GNU-stack,"",@progbits', ".text", *numbers, f"mov ${NO_DEVICE}, %eax", "ret",
                 *texts, "lea text(%rip), %rax", "ret", 'text: .asciz "no device"']
        source.write_text("\n".join(lines) + "\n")
        script.write_text("\n".join(map_lines) + "\n")
        subprocess.run(["cc", "-shared", "-nostdlib", f"-Wl,-soname,{path.name}", "-o", path, source,
                        *([f"-Wl,--version-script={script}"] if map_lines else [])], check=True)


def add_stubs(folder: pathlib.Path) -> int:
    """Stubs of all of NVIDIA's libraries that those of torch in `folder` need; their number."""
    needed, defined, taken = set(), set(), set()
    for library in (folder / "torch").rglob("*.so*"):
        if re.match(GPU, library.name):
            continue  # a stub of an earlier call
        with open(library, "rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        libraries, names, symbols = read_elf(library)
        needed |= libraries
        defined |= names
        taken |= symbols
    missing = sorted(soname for soname in needed if re.match(GPU, soname))
    if not missing:
        return 0
    # torch loads the CUDA runtime first and for all, so names without a version are found there.
    common = next((soname for soname in missing if soname.startswith("libcudart.")), missing[0])
    stubs: dict[str, dict[str, set[str]]] = {soname: defaultdict(set) for soname in missing}
    for name, version, file in taken:
        if version and file in stubs:
            stubs[file][version].add(name)
        elif not version and name not in defined and re.match(r"_*(cu|nv|nccl)", name):
            stubs[common][""].add(name)
    for soname, versions in stubs.items():
        write_stub(folder / "torch" / "lib" / soname, versions)
    return len(missing)


def install(folder: pathlib.Path, models: bool = False) -> None:
    """Makes or mends the environment in `folder`."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)

    def pip(*arguments: str) -> None:
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-input", "--no-compile",
                        "--disable-pip-version-check", "--only-binary=:all:", *arguments], check=True,
                       stdin=subprocess.DEVNULL)

    pip("--no-deps", "torch>=2.6", *(["torchvision"] if models else []))
    pip(*BESIDE, *(MODELS if models else ()))
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([str(python), "-c", where], check=True, text=True, capture_output=True)
    add_stubs(pathlib.Path(packages.stdout.strip()))
    subprocess.run([str(python), "-c", "import torch; torch.ones(2) @ torch.ones(2)"], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", action="store_true", help="only print the folder")
    parser.add_argument("--force", action="store_true", help="install again")
    parser.add_argument("--models", action="store_true",
                        help="torchvision and transformers, too, for scripts/pytorch/bench_models.py")
    options = parser.parse_args()
    folder = peer_venv.prefix() / "pytorch"
    if options.prefix:
        print(folder)
        return 0
    if options.force:
        shutil.rmtree(folder, ignore_errors=True)
    install(folder, options.models)
    return 0


if __name__ == "__main__":
    sys.exit(main())
