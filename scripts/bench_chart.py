#!/usr/bin/env python3
"""Draws docs/bench.svg: the measured speed beside each baseline, by family of operators.

The source is the table of a page in docs/benchmarks/ or what `tune-cli bench --json` printed. A
bar is the geometric mean of a family's ratios, the line through it goes from the least to the
largest one."""
import argparse
import json
import math
import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks" / "zen4.md"
CHART = ROOT / "docs" / "bench.svg"
HEADING = "2 threads"
FAMILIES = {"matmul": "matmul", "conv1d": "convolution", "conv2d": "convolution",
            "conv3d": "convolution", "depthwise_conv2d": "depthwise",
            "conv2d_transpose": "transposed conv", "softmax": "softmax"}
COLORS = ("#1462c4", "#2a9d8f", "#b5651d", "#7b4fa3")
LEAST, MOST = 0.5, 8.0  # the scale's ends; values beyond are drawn at the end, with their number
WIDTH, LEFT, RIGHT, TOP, ROW, GAP = 760, 130, 70, 66, 15, 14

Ratios = dict[str, dict[str, list[float]]]  # family -> baseline -> ratios


class Source(NamedTuple):
    ratios: Ratios
    caption: str


def family_of(spec: str) -> str | None:
    return FAMILIES.get(spec.split(":")[0])


def add(ratios: Ratios, spec: str, baseline: str, ratio: float) -> None:
    family = family_of(spec)
    if family:
        ratios.setdefault(family, {}).setdefault(baseline, []).append(ratio)


def of_page(page: pathlib.Path, heading: str) -> Source:
    """The rows of the first table under a heading whose columns name baselines."""
    lines = page.read_text(encoding="utf-8").split("\n")
    if f"## {heading}" not in lines:
        sys.exit(f"bench_chart: {page} has no heading '## {heading}'")
    ratios: Ratios = {}
    names: list[str] = []
    for line in lines[lines.index(f"## {heading}") + 1:]:
        if line.startswith("## "):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            if ratios:
                break
        elif not names:
            names = [cell.split(" (")[0] for cell in cells]
        elif "`" in line:
            spec = cells[0].split("`")[1]
            for name, cell in zip(names[5:], cells[5:]):
                if re.fullmatch(r"[\d.]+x", cell):
                    add(ratios, spec, name, float(cell[:-1]))
    if not ratios:
        sys.exit(f"bench_chart: {page} has no table of ratios under '## {heading}'")
    title = lines[0].lstrip("# ")
    date = re.search(r"20\d\d-\d\d-\d\d", "\n".join(lines))
    return Source(ratios, f"{title}, {heading}, {date.group(0) if date else 'no date'}")


def of_json(file: pathlib.Path) -> Source:
    ratios: Ratios = {}
    results = json.loads(file.read_text(encoding="utf-8"))["results"]
    for result in results:
        for baseline, ratio in (result.get("ratio") or {}).items():
            if ratio and baseline != "default":
                add(ratios, result["spec"], baseline, ratio)
    if not ratios:
        sys.exit(f"bench_chart: {file} has no ratio to a baseline")
    return Source(ratios, f"tune-cli bench, {len(results)} workloads, {file.name}")


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def x_of(ratio: float) -> float:
    clipped = min(max(ratio, LEAST), MOST)
    share = math.log(clipped / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{words}</text>'


def chart(source: Source) -> str:
    baselines = list(dict.fromkeys(name for found in source.ratios.values() for name in found))
    families = [name for name in dict.fromkeys(FAMILIES.values()) if name in source.ratios]
    parts, y = [], TOP
    for family in families:
        found = source.ratios[family]
        count = max(len(values) for values in found.values())
        middle = y + ROW * len(found) / 2
        parts.append(text(LEFT - 10, middle, family, ' text-anchor="end" class="name"'))
        parts.append(text(LEFT - 10, middle + 13, f"{count} workloads", ' text-anchor="end"'))
        for baseline in (name for name in baselines if name in found):
            mean, least, most = geomean(found[baseline]), min(found[baseline]), max(found[baseline])
            color = COLORS[baselines.index(baseline) % len(COLORS)]
            begin, end = sorted((x_of(1), x_of(mean)))
            parts.append(f'<rect x="{begin:.1f}" y="{y + 2}" width="{max(end - begin, 1):.1f}" '
                         f'height="{ROW - 4}" fill="{color}"><title>{family} beside {baseline}: '
                         f'{mean:.2f}x ({least:.2f}x to {most:.2f}x)</title></rect>')
            parts.append(f'<path class="span" d="M{x_of(least):.1f},{y + ROW / 2}'
                         f'H{x_of(most):.1f}"/>')
            parts.append(text(WIDTH - RIGHT + 10, y + ROW - 3, f"{mean:.2f}x", ' class="name"'))
            y += ROW
        y += GAP
    axis = []
    for tick in (0.5, 1, 2, 4, 8):
        kind = "one" if tick == 1 else "grid"
        axis.append(f'<path class="{kind}" d="M{x_of(tick):.1f},{TOP - 8}V{y - GAP + 6}"/>')
        axis.append(text(x_of(tick), y + 6, f"{tick}x", ' text-anchor="middle"'))
    legend = []
    for i, baseline in enumerate(baselines):
        x = LEFT + i * 190
        legend.append(f'<rect x="{x}" y="30" width="11" height="11" '
                      f'fill="{COLORS[i % len(COLORS)]}"/>')
        legend.append(text(x + 16, 40, baseline))
    title = "Speed beside each baseline (geometric mean; line: least to largest). Above 1x: Tilewright is faster"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 34}" role="img" '
        f'aria-label="{title}">',
        "<style>text{font:12px system-ui,sans-serif;fill:#5b6570}.name{fill:#1c2127}"
        ".grid{stroke:#d9dee4}.one{stroke:#1c2127}.span{stroke:#1c2127;stroke-width:1.5}"
        "svg{background:#fff}</style>",
        f'<rect width="{WIDTH}" height="{y + 34}" fill="#fff"/>',
        text(10, 18, title, ' class="name"'), *legend, *axis, *parts,
        text(10, y + 26, source.caption), "</svg>"]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=pathlib.Path, default=PAGE, metavar="FILE",
                        help="page of docs/benchmarks/, or JSON of 'tune-cli bench --json'")
    parser.add_argument("--heading", default=HEADING, help="the page's heading over the table")
    parser.add_argument("-o", dest="output", type=pathlib.Path, default=CHART, metavar="FILE")
    parser.add_argument("--check", action="store_true",
                        help="write nothing; exit 1 where the chart is not current")
    options = parser.parse_args()
    source = (of_json(options.source) if options.source.suffix == ".json"
              else of_page(options.source, options.heading))
    drawn = chart(source)
    if not options.check:
        options.output.write_text(drawn, encoding="utf-8")
        return 0
    if options.output.exists() and options.output.read_text(encoding="utf-8") == drawn:
        return 0
    print(f"{options.output} is not current: scripts/bench_chart.py writes it.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
