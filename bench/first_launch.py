#!/usr/bin/env python3
"""Times a cold serving process up to the end of its first launch: medians of many processes.

Each process opens the database, prepares one kernel, packs the weights and launches once. Nothing
is compiled. build/release/first-launch is the process."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS = {"process_us": "start of the process and the dynamic loader, and its end",
         "open_us": "tw_open: the database read into memory",
         "prepare_us": "tw_prepare, tw_find: the kernel checked and loaded",
         "pack_us": "tw_pack_weights: the weight laid out for the kernel",
         "first_launch_us": "the first tw_launch",
         "later_launch_us": "a later tw_launch, median of 1000"}


def run(program: pathlib.Path, database: str, spec: str, directory: pathlib.Path) -> dict:
    """One process, with an empty PATH, so that no compiler could be found."""
    begin = time.perf_counter()
    done = subprocess.run([str(program), database, spec], capture_output=True, text=True,
                          check=False, env={"PATH": str(directory)})
    wall = (time.perf_counter() - begin) * 1e6
    if done.returncode != 0:
        sys.exit(f"first_launch: {done.stderr.strip()}")
    times = json.loads(done.stdout)
    known = sum(times[step] for step in ("open_us", "prepare_us", "pack_us", "first_launch_us"))
    return {"process_us": wall - known - 1000 * times["later_launch_us"], **times}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database")
    parser.add_argument("spec")
    parser.add_argument("--program", type=pathlib.Path,
                        default=ROOT / "build" / "release" / "first-launch")
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    runs = [run(options.program.resolve(), options.database, options.spec, ROOT / "docs")
            for _ in range(options.runs)]
    medians = {step: statistics.median(times[step] for times in runs) for step in STEPS}
    if options.json:
        print(json.dumps({"spec": options.spec, "runs": options.runs, **medians}))
        return 0
    print(f"{options.spec}, medians of {options.runs} processes")
    for step, meaning in STEPS.items():
        print(f"{medians[step]:10.1f} us  {meaning}")
    total = sum(medians[step] for step in ("open_us", "prepare_us", "pack_us", "first_launch_us"))
    print(f"{total:10.1f} us  from main() to the end of the first launch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
