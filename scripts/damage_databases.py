#!/usr/bin/env python3
"""Damages databases and gives each to every command and to the serving library.

    scripts/damage_databases.py [--count 1000] [--seed 1] [--jobs 2] [--build build/release]
                                 [--keep FOLDER]

Each file is a sound database with two tuned integer kernels and a damage that follows from its seed:
cut, flipped bits, pages that are zeroed, copied or exchanged, cells that SQL changes, a foreign
journal. A command must end with a documented exit code, a kernel that runs must give the right
integers, and the library must refuse with an error or compute them. Ends with 1 when one does not,
prints its seed, and keeps the damaged file under --keep.
"""
import argparse
import collections
import concurrent.futures
import importlib.util
import logging
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPECS = ["matmul:m=12,n=16,k=24,dtype=i8", "elementwise:shape=100,fn=relu,dtype=i32"]
# Done, an operand's file that is not there, a database's trouble, the budget's end, a miss.
EXIT_CODES = {0, 2, 5, 6, 7}
COMMAND_SECONDS = 60
SQL_TABLES = ["records", "artifacts", "workloads", "targets", "runs", "models", "meta", "origins"]

# {db}: the damaged file; {dir}: a folder of the case's own. Those that write get a copy.
COMMANDS = [
    "best --db {db} --json",
    "best --db {db}",
    "replay --db {db} --threads 1 --json {specs}",
    "run --db {db} --threads 1 --in A={dir}/a.npy --in B={dir}/b.npy --out C={dir}/c.npy {matmul}",
    "show --db {db} --threads 1 --source {matmul}",
    "explain --db {db} --threads 1 {specs}",
    "export --db {db} --threads 1 -o {dir}/kernels {specs}",
    "report --db {db} -o {dir}/report.html",
    "db info --db {db}",
    "db check --db {db}",
    "db export --db {db} {dir}/rows.jsonl",
    "db export --db {db} --serve {dir}/serve.db",
    "db merge --db {dir}/fresh.db {db}",
    "db import --db {dir}/imported.db {dir}/rows.jsonl",
    "db train --db {copy}",
    "db prune --db {copy} --drop-damaged",
]
# These take a second: one of so many files gets them.
SLOW = {
    "bench --db {db} --threads 1 --rounds 1 {matmul}": 25,
    "tune --db {copy} --threads 1 --trials 2 --quiet {matmul}": 25,
    "tune --db {copy} --threads 1 --trials 6 --resume --quiet {matmul}": 50,
}


def flip(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice([1, 1, 2, 8, 64])):
        at = draw.randrange(len(data))
        data[at] ^= 1 << draw.randrange(8)


def flip_header(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(100)] = draw.randrange(256)


def cut(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)):]


def page(data: bytearray, draw: random.Random) -> slice:
    at = draw.randrange(len(data) // 4096) * 4096
    return slice(at, at + 4096)


def zero_page(data: bytearray, draw: random.Random) -> None:
    data[page(data, draw)] = bytes(4096)


def random_page(data: bytearray, draw: random.Random) -> None:
    data[page(data, draw)] = draw.randbytes(4096)


def copy_page(data: bytearray, draw: random.Random) -> None:
    data[page(data, draw)] = data[page(data, draw)]


def exchange_pages(data: bytearray, draw: random.Random) -> None:
    one, other = page(data, draw), page(data, draw)
    data[one], data[other] = data[other], data[one]


def scribble(data: bytearray, draw: random.Random) -> None:
    length = draw.choice([4, 32, 500])
    at = draw.randrange(len(data) - length)
    data[at:at + length] = draw.randbytes(length)


BYTES = [flip, flip, flip_header, cut, zero_page, random_page, copy_page, exchange_pages, scribble]


def random_value(draw: random.Random):
    return draw.choice([None, 0, -1, 2**63 - 1, 1e308, float("inf"), "", "x" * 5000, "\x00\xff",
                        b"", draw.randbytes(30), b"\x7fELF" + draw.randbytes(200), "{}", "[[[", -5])


def change_cell(path: pathlib.Path, draw: random.Random) -> None:
    """What another program's UPDATE leaves: rows whose checksums do not fit."""
    with sqlite3.connect(path) as connection:
        table = draw.choice(SQL_TABLES)
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        if not columns:
            return
        column = draw.choice(columns)
        where = "" if draw.random() < 0.3 else " WHERE rowid = (SELECT min(rowid) FROM {0})"
        try:
            connection.execute(f'UPDATE {table} SET "{column}" = ?' + where.format(table),
                               (random_value(draw),))
        except sqlite3.Error:
            connection.execute(f"DELETE FROM {table}")
    connection.close()


def damage(whole: bytes, path: pathlib.Path, draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.25:
        path.write_bytes(whole)
        change_cell(path, draw)
        return "cell"
    data = bytearray(whole)
    change = draw.choice(BYTES)
    change(data, draw)
    path.write_bytes(data)
    if kind > 0.95:
        pathlib.Path(str(path) + "-journal").write_bytes(draw.randbytes(draw.choice([1, 600, 5000])))
    return change.__name__


def integers(seed: int):
    import numpy
    values = numpy.random.default_rng(seed)
    a = values.integers(-128, 128, (12, 24), dtype=numpy.int8)
    b = values.integers(-128, 128, (24, 16), dtype=numpy.int8)
    return a, b, a.astype(numpy.int32) @ b.astype(numpy.int32)


def use_library(db: pathlib.Path, seed: int) -> str:
    """In a child process: "" where kernels compute the right integers or errors are refusals."""
    import numpy
    import tilewright
    logging.getLogger("tilewright").setLevel(logging.CRITICAL)
    a, b, c = integers(seed)
    try:
        prepared = tilewright.Library(str(db)).prepare(SPECS, threads=1)
        kernel = prepared[SPECS[0]]
        given = tilewright.empty(a.shape, "i8")
        given[...] = a
        weight = tilewright.empty(b.shape, "i8")
        weight[...] = b
        result = kernel(given, weights=kernel.pack({"B": weight}))
        if not numpy.array_equal(numpy.asarray(result), c):
            return "the library's kernel gives wrong integers"
    except (tilewright.Error, KeyError):
        return ""
    return ""


def in_child(body) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(COMMAND_SECONDS)
        try:
            said = body()
        except BaseException as error:  # whatever is no refusal
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return f"the library died of signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said


def problem_of(command: str, ended: subprocess.CompletedProcess, folder: pathlib.Path,
               expected) -> str:
    if ended.returncode not in EXIT_CODES:
        return f"exit code {ended.returncode}: {ended.stderr[-500:]}"
    if "worker died" in ended.stderr or "signal" in ended.stderr:
        return f"a worker died: {ended.stderr[-500:]}"
    if command.startswith("run") and ended.returncode == 0:
        import numpy
        if not numpy.array_equal(numpy.load(folder / "c.npy"), expected):
            return "wrong integers"
    return ""


def try_case(seed: int, whole: bytes, tune_cli: pathlib.Path, keep: pathlib.Path) -> tuple[str, list[str], int]:
    import numpy
    draw = random.Random(seed)
    problems, runs = [], 0
    with tempfile.TemporaryDirectory(prefix="tw_damage_") as name:
        folder = pathlib.Path(name)
        db, copy = folder / "a.db", folder / "copy.db"
        kind = damage(whole, db, draw)
        a, b, c = integers(seed)
        numpy.save(folder / "a.npy", a)
        numpy.save(folder / "b.npy", b)
        chosen = COMMANDS + [c for c, often in SLOW.items() if draw.randrange(often) == 0]
        for command in chosen:
            if "{copy}" in command:
                shutil.copyfile(db, copy)
            words = command.format(db=db, copy=copy, dir=folder, matmul=SPECS[0],
                                   specs=" ".join(SPECS)).split()
            runs += 1
            try:
                ended = subprocess.run([tune_cli, *words], capture_output=True, text=True,
                                       errors="replace", timeout=COMMAND_SECONDS, check=False)
                said = problem_of(command, ended, folder, c)
            except subprocess.TimeoutExpired:
                said = f"still running after {COMMAND_SECONDS} s"
            if said:
                problems.append(f"{command}: {said}")
        said = in_child(lambda: use_library(db, seed))
        runs += 1
        if said:
            problems.append(said)
        if problems:
            keep.mkdir(parents=True, exist_ok=True)
            damage(whole, keep / f"{seed}.db", random.Random(seed))
    return kind, problems, runs


def tuned_database(tune_cli: pathlib.Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tw_damage_") as name:
        db = pathlib.Path(name) / "whole.db"
        subprocess.run([tune_cli, "tune", "--quiet", "--db", db, "--threads", "1", "--trials", "4",
                        *SPECS], check=True, stdout=subprocess.DEVNULL)
        return db.read_bytes()


def try_cases(seeds: list[int], whole: bytes, build: pathlib.Path, keep: pathlib.Path):
    sys.path.insert(0, str(build / "python"))
    return [(seed, *try_case(seed, whole, build / "tune-cli", keep)) for seed in seeds]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("damaged"))
    arguments = parser.parse_args()
    if importlib.util.find_spec("numpy") is None:
        print("scripts/damage_databases.py: this Python has no numpy; scripts/deps installs it for "
              "/usr/bin/python3", file=sys.stderr)
        return 4
    whole = tuned_database(arguments.build / "tune-cli")
    last = arguments.seed + arguments.count
    parts = [list(range(s, min(s + 10, last))) for s in range(arguments.seed, last, 10)]
    kinds: collections.Counter = collections.Counter()
    failures = runs = 0
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        waiting = [pool.submit(try_cases, part, whole, arguments.build, arguments.keep)
                   for part in parts]
        for part in concurrent.futures.as_completed(waiting):
            for seed, kind, problems, ran in part.result():
                kinds[kind] += 1
                runs += ran
                failures += bool(problems)
                for said in problems:
                    print(f"scripts/damage_databases.py --count 1 --seed {seed} ({kind}): {said}",
                          flush=True)
    for kind, count in sorted(kinds.items()):
        print(f"{kind:16} {count}")
    print(f"{arguments.count} databases, {runs} runs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
