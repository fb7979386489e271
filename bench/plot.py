"""Draws the ratios of a report of bench/peers.py, or a sweep of `jfa tune`: every candidate's time by the knobs that it
changes, the winner marked.

    python3 bench/plot.py peers.json peers.png
    jfa tune export DATABASE -o sweep.json && python3 bench/plot.py sweep.json sweep.png --only self-512,pma-64
"""

import argparse
import json

import matplotlib

from ratios import comparable_means, libraries, ratio
from sweeps import points

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of backend)


def columns(rows):
    """[(label, {library: ratio})]: every shape, then the means. A mean of one shape is that shape again, and left out."""
    shapes = [(row["name"], {name: ratio(row, name) for name in libraries(rows) if ratio(row, name) is not None})
              for row in rows]
    means = [(f"geometric mean\nof {count} shapes", values) for count, values in comparable_means(rows) if count > 1]
    return shapes + means


def draw_pass(axes, direction, rows, baseline):
    """The bars of a column stand side by side, centred on its label."""
    names = libraries(rows)
    width = 0.8 / max(len(names), 1)
    places = {name: ([], []) for name in names}
    all_columns = columns(rows)
    for column, (_, ratios) in enumerate(all_columns):
        for index, (name, value) in enumerate(ratios.items()):
            places[name][0].append(column + (index - (len(ratios) - 1) / 2) * width)
            places[name][1].append(value)
    for name, (where, values) in places.items():
        count = sum(ratio(row, name) is not None for row in rows)
        bars = axes.bar(where, values, width, label=f"{name}, {count} of {len(rows)} shapes")
        axes.bar_label(bars, fmt="%.2f", fontsize=6)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(all_columns)), [label for label, _ in all_columns], rotation=30, ha="right",
                    rotation_mode="anchor", fontsize=8)
    axes.set_ylabel(f"{direction}: times as fast as {baseline}")
    axes.legend(fontsize=8)


def draw_peers(report):
    passes = report["passes"]
    figure, all_axes = plt.subplots(len(passes), 1, figsize=(12, 4.5 * len(passes)), squeeze=False)
    for axes, (direction, result) in zip(all_axes[:, 0], passes.items()):
        draw_pass(axes, direction, result["shapes"], report["baseline"])
    figure.suptitle(f"{report['gpu']}, driver {report['driver']}, PyTorch {report['torch']}, {report['date']}")
    return figure


def draw_record(axes, record):
    """A column a knob; candidates that change it alone are filled, others hollow, the winner a star."""
    by_knob = points(record)
    for column, values in enumerate(by_knob.values()):
        for index, (value, ratio_, lower, upper, alone, won) in enumerate(values):
            where = column + 0.8 * ((index + 0.5) / len(values) - 0.5)
            colour = "tab:red" if won else "tab:blue" if alone else "tab:gray"
            axes.plot([where, where], [lower, upper], color=colour, linewidth=0.8)
            axes.plot([where], [ratio_], marker="*" if won else "o", markersize=11 if won else 4, color=colour,
                      markerfacecolor=colour if alone or won else "white")
            if alone or won:
                axes.annotate(str(value), (where, ratio_), fontsize=5, textcoords="offset points", xytext=(3, 3))
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(by_knob)), by_knob, rotation=20, ha="right", rotation_mode="anchor", fontsize=7)
    axes.set_ylabel("time / the defaults'", fontsize=7)
    shapes = ", ".join(shape["name"] for shape in record["shapes"])
    axes.set_title(f"{shapes}: {record['class']}\n{record['winner'] or 'the defaults'} ({record['winner_ratio']:.3f})",
                   fontsize=7)


def draw_sweep(records):
    columns_ = 2 if len(records) > 1 else 1
    rows = (len(records) + columns_ - 1) // columns_
    figure, all_axes = plt.subplots(rows, columns_, figsize=(8 * columns_, 3.2 * rows), squeeze=False)
    for axes in all_axes.flat[len(records):]:
        axes.set_visible(False)
    for axes, record in zip(all_axes.flat, records):
        draw_record(axes, record)
    first = records[0]
    note = ", times of the simulator, not a GPU's" if first["simulated"] else ""
    figure.suptitle(f"{first['device']}, CUDA {first['driver']}, jfa {first['jfa']}{note}", fontsize=9)
    return figure


def main():
    parser = argparse.ArgumentParser(description="Draw a report of bench/peers.py, or a sweep of `jfa tune`.")
    parser.add_argument("report", help="JSON that peers.py wrote, a record of `jfa tune`, or what it exported")
    parser.add_argument("image", help="where to draw: a .png or .svg")
    parser.add_argument("--only", default="", help="of a sweep, the classes with these shapes: NAME,...")
    options = parser.parse_args()
    with open(options.report) as file:
        report = json.load(file)
    if "passes" in report:
        figure = draw_peers(report)
    else:
        wanted = set(options.only.split(",")) - {""}
        records = [record for record in report.get("records", [report])
                   if not wanted or wanted & {shape["name"] for shape in record["shapes"]}]
        if not records:
            parser.error(f"--only {options.only}: the sweep has no such shape")
        figure = draw_sweep(records)
    figure.tight_layout()
    figure.savefig(options.image, dpi=120)


if __name__ == "__main__":
    main()
