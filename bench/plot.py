"""Draws the ratios of a report of bench/peers.py.

    python3 bench/plot.py peers.json peers.png
"""

import argparse
import json

import matplotlib

from ratios import comparable_means, libraries, ratio

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


def main():
    parser = argparse.ArgumentParser(description="Draw the ratios of a report of bench/peers.py.")
    parser.add_argument("report", help="JSON that peers.py wrote")
    parser.add_argument("image", help="where to draw: a .png or .svg")
    options = parser.parse_args()
    with open(options.report) as file:
        report = json.load(file)
    passes = report["passes"]
    figure, all_axes = plt.subplots(len(passes), 1, figsize=(12, 4.5 * len(passes)), squeeze=False)
    for axes, (direction, result) in zip(all_axes[:, 0], passes.items()):
        draw_pass(axes, direction, result["shapes"], report["baseline"])
    figure.suptitle(f"{report['gpu']}, driver {report['driver']}, PyTorch {report['torch']}, {report['date']}")
    figure.tight_layout()
    figure.savefig(options.image, dpi=120)


if __name__ == "__main__":
    main()
