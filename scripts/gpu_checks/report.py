"""The report of scripts/gpu-check as markdown."""
import collections

# States of a kernel that is not right.
BAD = ("wrong", "faults", "hangs")


def states(rows: list[dict]) -> str:
    """"31 right, 2 refused"."""
    counts = collections.Counter(row["state"] for row in rows)
    return ", ".join(f"{n} {state}" for state, n in sorted(counts.items()))


def conditions(report: dict) -> str:
    """Driver and clocks, as far as they are known."""
    facts, now = report["device_facts"], report["nvidia_smi"]
    words = [f"driver {facts['driver']}"] if facts.get("driver") else []
    if facts.get("clock_mhz"):
        words.append(f"clocks up to {facts['clock_mhz']} MHz, memory {facts['memory_clock_mhz']} MHz")
    if now:
        words.append(f"after the run {now['clocks.sm']}, memory {now['clocks.mem']}, "
                     f"{now['power.draw']} of {now['power.limit']}, {now['temperature.gpu']} C")
    return "; ".join(words) or "driver and clocks not known"


def first_steps(report: dict) -> list[str]:
    """Sentences on the probe, and on the first rung of the ladder that is not right."""
    lines, probe = [], report.get("probe") or {}
    if "fill_gb_per_second" in probe:
        lines += [f"The device's memory is filled at {probe['fill_gb_per_second']} GB/s; a submission takes "
                  f"{probe['submission_us']} us.", ""]
    if probe.get("problem"):
        lines += [f"Probe of the driver: {probe['problem']}.", ""]
    stick = report.get("yardstick") or {}
    if "tflops" in stick:
        clock = stick.get("clock_mhz_at_least")
        lines += [f"cuBLASLt {stick['version']} computes {stick['product']} at {stick['tflops']} TFLOP/s"
                  f"{f': tensor cores run at {clock} MHz or more' if clock else ''}.", ""]
    if stick.get("problem"):
        lines += [f"cuBLASLt as a yardstick: {stick['problem']}.", ""]
    for part, title in (("ladder", "Kernels of one feature each"), ("tools", "Sanitizer and profiler"),
                        ("constants", "Kernels that differ in one constant of the cost model")):
        rows = report.get(part, [])
        if rows:
            bad = [f"{row['feature']} {row['state']}" for row in rows
                   if row["state"] in BAD]
            lines += [f"{title}: {states(rows)}{'; ' + ', '.join(bad) if bad else ''}.", ""]
    return lines


def constants(report: dict) -> list[str]:
    """Variants of each constant with their times beside the first one's."""
    lines, first = [], {}
    for row in report.get("constants", []):
        constant = row["feature"].rsplit(": ", 1)[0]
        first.setdefault(constant, row.get("seconds"))
        told = row["state"]
        if "seconds" in row:
            ratio = f", {row['seconds'] / first[constant]:.2f}x" if first[constant] else ""
            told = f"{row['seconds'] * 1e6:.1f}{ratio}"
        lines.append(f"| {row['feature']} | `{row['spec']}` | {told} |")
    head = ["| variant | workload | microseconds, and beside the first |", "| --- | --- | --- |"]
    return [*head, *lines, ""] if lines else []


def kinds(row: dict) -> str:
    return ", ".join(f"{kind} {found['seconds'] * 1e6:.1f}" if "seconds" in found else f"{kind} wrong"
                     for kind, found in row.get("kinds", {}).items())


def table(report: dict) -> str:
    """The report as markdown."""
    names = sorted({name for row in report["measured"] for name in row.get("peers", {})})
    versions = {name: version for row in report["measured"]
                for name, version in row.get("peer_versions", {}).items()}
    told = any(row.get("kinds") for row in report["measured"])
    missed = sum(row["state"] == "not reached" for row in report["measured"])
    reached = (f"All {len(report['measured'])} workloads were reached." if missed == 0 else
               f"{missed} of {len(report['measured'])} workloads were not reached in the time.")
    lines = [f"# {report['device']}, {report['date']}", "",
             *([] if report["complete"] else ["Ended before it was done.", ""]),
             f"`{report['command']}` for `{report['target']}`; {conditions(report)}.", "",
             f"Tests on the device: {states(report['tests'])}.", "",
             *first_steps(report),
             f"Kernels compared with the oracle on the device: {states(report['checks'])}.", "",
             *constants(report),
             reached, "",
             "Columns of libraries say how often their time is that of the kernel: over 1 the kernel "
             "is faster." if names else "No other library was found.", "",
             "Kernels are the fastest that tuning found; those marked \"model\" were chosen with no "
             "GPU and are measured here for the first time.", "",
             "| workload | | microseconds | roofline |" + "".join(f" {n} {versions.get(n, '')} |"
                                                                 for n in names)
             + (" by kind |" if told else ""),
             "| --- | --- | ---: | ---: |" + " ---: |" * len(names) + (" --- |" if told else "")]
    for row in report["measured"]:
        seconds = f"{row['seconds'] * 1e6:.1f}" if "seconds" in row else ""
        roofline = f"{100 * row['roofline_fraction']:.0f}%" if "roofline_fraction" in row else ""
        ratios = "".join(f" {row['ratio'][n]:.2f}x |" if n in row.get("ratio", {}) else " |"
                         for n in names)
        state = row["state"] + (", model" if row.get("predicted") else "")
        lines.append(f"| `{row['spec']}` | {state} | {seconds} | {roofline} |{ratios}"
                     + (f" {kinds(row)} |" if told else ""))
    return "\n".join(lines) + "\n"
