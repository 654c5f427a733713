#!/usr/bin/env python3
"""Compares the analytical model of GPU kernels with NVIDIA's own, nvMatmulHeuristics. Needs no GPU.

Draws kernels of matrix products (build/release/gpu_predictions): tiles, clusters and parts of k at
random, every other knob at its first option. Both models predict each (shape, tile) pair on each
GPU. Prints per GPU the rank correlation (Spearman) over all pairs, over all pairs with each shape's
geometric mean divided out, and within shapes (median); and how much slower the kernel that one model
would choose is by the other one, geometric mean over the shapes. --rates prints the rates that both
reach from memory and from tensor cores instead. NVIDIA's is a peer from PyPI: --install puts it into an
environment of its own.
"""
import argparse
import ctypes
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peer_venv  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "nvidia-matmul-heuristics==0.1.0.27"

# Our target, NVIDIA's name of the GPU, and of the library whose kernels it describes.
GPUS = {
    "h100": ("cuda:h100", "H100_SXM", "CUTLASS3"),
    "h200": ("cuda:sm_90a", "H200_SXM", "CUTLASS3"),
    "a100": ("cuda:sm_80", "A100_SXM_80GB", "CUTLASS"),
    "b200": ("cuda:sm_100", "B200", "CUTLASS"),
    "rtx5090": ("cuda:sm_120", "RTX_5090", "CUTLASS"),
    "l40s": ("cuda:sm_89", "L40S", "CUTLASS"),
}
# GPUs whose kernels are the same are predicted from one draw.
TOGETHER = (("h100", "h200"), ("a100",), ("b200",), ("rtx5090",), ("l40s",))

# Products of language models and cubes, from few rows to many; k along the rows of both operands.
SHAPES = [(m, n, k)
          for m in (64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192)
          for n, k in ((1024, 8192), (1280, 8192), (2048, 2048), (4096, 4096), (4096, 14336),
                       (5120, 5120), (6144, 4096), (8192, 1024), (8192, 28672), (11008, 4096),
                       (14336, 4096), (28672, 8192))
          ] + [(size, size, size) for size in (512, 1024, 8192)]
RATES = [(8192, 8192, 8192), (4096, 4096, 4096), (64, 16384, 16384), (64, 4096, 14336)]

DRAWN = [".tile", ".cluster", ".parts"]
PINNED = {"CUTLASS3": {".layout?": "none", ".copies?": "roles", ".mma": "wgmma_f32_bf16"},
          "CUTLASS": {".layout?": "none", ".mma": "m16n8k16_f32_bf16"}}
TILE = re.compile(r"(\d+)x(\d+)x(\d+)/(\d+)x(\d+)")


def choice(config: dict, knob: str, otherwise):
    """Of the block that multiplies: with parts of k its name is a longer one."""
    names = [name for name in config if name.endswith(knob)]
    return config[max(names, key=len)] if names else otherwise


class Peer:
    """NVIDIA's model of one GPU. TST: factors and results of bf16, f32 accumulators."""

    def __init__(self, gpu: str, library: str, precision: str = "TST"):
        import nvMatmulHeuristics as nv
        self.nv, self.is_hopper, self.precision = nv, library == "CUTLASS3", precision
        self.layout = nv.NvMatmulHeuristicsMatmulLayout.NT_ROW_MAJOR
        target = nv.NvMatmulHeuristicsTarget[library]
        self.model = nv.NvMatmulHeuristicsInterfaceEx(target, gpu=nv.NvMatmulHeuristicsNvidiaGpu[gpu])
        if not self.model.loadInternalDiscoverySet(self.layout, self.precision):
            print(f"compare_gpu_models: no profile of {gpu} is in the package", file=sys.stderr)
        self.backend = self.model.createBackend(target)

    def problem(self, m: int, n: int, k: int):
        return self.nv.NvMatmulHeuristicsInterface.nvmmhMatmulProblem(m, n, k, 1, int(self.layout))

    def config(self, ours: dict):
        """Our config in the words of theirs; nothing where they have none."""
        fields = TILE.fullmatch(str(choice(ours, ".tile", "")))
        mma = choice(ours, ".mma", "none")
        if not fields or mma == "none" or mma.startswith("wgmma") != self.is_hopper:
            return None
        m, n, k, warp_m, warp_n = map(int, fields.groups())
        theirs = self.nv.NvMatmulHeuristicsInterface.nvmmhKernelConfiguration()
        cluster = choice(ours, ".cluster", "1x1").split("x")
        # A warpgroup of theirs has warps of 64 x 64, whatever the tile is.
        warp = (64, min(n, 64), k) if self.is_hopper else (warp_m, warp_n, k)
        instruction = (64, 8, 16) if self.is_hopper else (16, 8, 16)
        for name, values in (("cta", (m, n, k)), ("warp", warp), ("instr", instruction),
                             ("cluster", (int(cluster[0]), int(cluster[1])))):
            for place, value in enumerate(values):
                getattr(theirs, name)[place] = value
        theirs.splitK = int(choice(ours, ".parts", 1))
        theirs.loadStages, theirs.gridSwizzle, theirs.ctaOrder = int(choice(ours, ".stages", 1)), 1, 0
        return theirs

    def seconds(self, shape: tuple[int, int, int], config) -> float:
        """0 for a config that theirs does not take."""
        problem = self.problem(*shape)
        return self.model.nvMatmulHeuristicsEstimateRuntime(
            self.model.handle, self.precision.encode(), self.model.target, ctypes.byref(problem),
            ctypes.byref(config), self.model.hardware_descriptor)

    def best(self, shape: tuple[int, int, int]) -> dict:
        """Of the kernels that theirs proposes."""
        return self.model.get(self.problem(*shape), 8, self.precision)[0]


def ranks(values: list[float]) -> list[float]:
    """Equal values share the mean of their places."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    places, begin = [0.0] * len(values), 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for i in order[begin:end]:
            places[i] = (begin + end - 1) / 2
        begin = end
    return places


def spearman(a: list[float], b: list[float]) -> float:
    if len(set(a)) < 2 or len(set(b)) < 2:
        return math.nan
    return statistics.correlation(ranks(a), ranks(b))


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def predictions(program: pathlib.Path, gpus: tuple[str, ...], shapes, count: int, seed: int):
    """What our model says: (gpu, shape, line of gpu_predictions)."""
    specs = {f"matmul:m={m},n={n},k={k},dtype=bf16,out=bf16,trans_b=true": (m, n, k)
             for m, n, k in shapes}
    request = {"specs": list(specs), "targets": [GPUS[gpu][0] for gpu in gpus], "count": count,
               "seed": seed, "drawn": DRAWN, "pinned": PINNED[GPUS[gpus[0]][2]]}
    names = {GPUS[gpu][0]: gpu for gpu in gpus}
    ran = subprocess.run([program], input=json.dumps(request), stdout=subprocess.PIPE, text=True,
                         check=True)
    for line in map(json.loads, ran.stdout.splitlines()):
        yield names[line["target"]], specs[line["spec"]], line


def compare(pairs: dict[tuple, list[tuple[float, float]]]) -> dict:
    """The figures over the pairs (ours, NVIDIA's) of each shape."""
    shapes = [found for found in pairs.values() if len(found) > 2]
    all_pairs = [pair for found in shapes for pair in found]
    relative, chosen, chosen_by_peer = [], [], []
    for found in shapes:
        ours, theirs = (geometric_mean([pair[side] for pair in found]) for side in (0, 1))
        relative += [(a / ours, b / theirs) for a, b in found]
        chosen.append(min(found)[1] / min(b for _, b in found))
        chosen_by_peer.append(min(found, key=lambda pair: pair[1])[0] / min(a for a, _ in found))
    within = [spearman(*map(list, zip(*found))) for found in shapes]
    return {"shapes": len(shapes), "pairs": len(all_pairs),
            "all": spearman(*map(list, zip(*all_pairs))),
            "relative": spearman(*map(list, zip(*relative))),
            "within_shapes": statistics.median(x for x in within if not math.isnan(x)),
            "our_choice_by_theirs": geometric_mean(chosen),
            "their_choice_by_ours": geometric_mean(chosen_by_peer)}


def correlate(arguments: argparse.Namespace) -> dict:
    results, lines = {}, []
    for gpus in TOGETHER:
        gpus = tuple(gpu for gpu in gpus if gpu in arguments.gpus)
        if not gpus:
            continue
        peers = {gpu: Peer(*GPUS[gpu][1:]) for gpu in gpus}
        pairs: dict[str, dict] = {gpu: {} for gpu in gpus}
        for gpu, shape, line in predictions(arguments.build / "gpu_predictions", gpus, SHAPES,
                                            arguments.draws, arguments.seed):
            config = peers[gpu].config(line["config"])
            theirs = peers[gpu].seconds(shape, config) if config else 0
            if theirs > 0:
                pairs[gpu].setdefault(shape, []).append((line["seconds"], theirs))
                lines.append({"gpu": gpu, "shape": shape, "nvidia": theirs, **line})
        results.update({gpu: compare(pairs[gpu]) for gpu in gpus})
    if arguments.pairs:
        arguments.pairs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print("| GPU | shapes | pairs | all pairs | shape divided out | within a shape, median | "
          "our choice by theirs | their choice by ours |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for gpu, r in results.items():
        print(f"| {gpu} | {r['shapes']} | {r['pairs']} | {r['all']:.3f} | {r['relative']:.3f} | "
              f"{r['within_shapes']:.3f} | {r['our_choice_by_theirs']:.2f} | "
              f"{r['their_choice_by_ours']:.2f} |")
    return results


def rates(arguments: argparse.Namespace) -> None:
    """Both models' best of each shape: TFLOP/s, and TB/s of operands that are moved once."""
    print("| GPU | m x n x k | ours | NVIDIA's |")
    print("| --- | --- | --- | --- |")
    for gpu in arguments.gpus:
        peer, best = Peer(*GPUS[gpu][1:]), {}
        for _, shape, line in predictions(arguments.build / "gpu_predictions", (gpu,), RATES,
                                          arguments.draws, arguments.seed):
            best[shape] = min(best.get(shape, math.inf), line["seconds"])
        for shape in RATES:
            m, n, k = shape
            cells = [f"{1e6 * seconds:.1f} us, {2e-12 * m * n * k / seconds:.0f} TFLOP/s, "
                     f"{2e-12 * (m * k + k * n + m * n) / seconds:.2f} TB/s"
                     for seconds in (best[shape], peer.best(shape)["runtime"])]
            print(f"| {gpu} | {m} x {n} x {k} | {cells[0]} | {cells[1]} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true",
                        help=f"make the environment with {PACKAGE} where it is missing")
    parser.add_argument("--gpus", nargs="+", choices=GPUS, metavar="GPU",
                        default=["h100", "h200", "a100", "b200", "rtx5090"],
                        help=f"of {', '.join(GPUS)} (%(default)s)")
    parser.add_argument("--draws", type=int, default=60, help="for each shape (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--pairs", type=pathlib.Path, metavar="FILE",
                        help="write each pair as a line of JSON")
    parser.add_argument("--rates", action="store_true", help="print rates of the best kernels")
    arguments = parser.parse_args()
    peer_venv.enter("nvidia-matmul-heuristics", "nvMatmulHeuristics", [PACKAGE], arguments.install)
    if not (arguments.build / "gpu_predictions").exists():
        sys.exit(f"compare_gpu_models: there is no gpu_predictions in '{arguments.build}'; build it: "
                 "cmake --build build/release --target gpu_predictions")
    if arguments.rates:
        rates(arguments)
    else:
        correlate(arguments)


if __name__ == "__main__":
    main()
