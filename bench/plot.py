"""Draws the ratios of a report of bench/peers.py.

    python3 bench/plot.py peers.json peers.png
"""

import argparse
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of backend)


def draw_pass(axes, direction, result, baseline):
    """Bars of every library beside each other, for each shape and for the geometric mean."""
    rows, means = result["shapes"], result["geometric_mean"]
    labels = [row["name"] for row in rows] + ["geometric\nmean"]
    width = 0.8 / max(len(means), 1)
    for index, name in enumerate(means):
        ratios = [row["libraries"].get(name, {}).get("ratio") for row in rows] + [means[name]]
        for column, ratio in enumerate(ratios):
            if ratio is None:  # the library does not run this shape
                continue
            place = column + (index - (len(means) - 1) / 2) * width
            axes.bar(place, ratio, width, color=f"C{index}", label=name if column == len(ratios) - 1 else None)
            axes.text(place, ratio, f"{ratio:.2f}", ha="center", va="bottom", fontsize=6)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(labels)), labels, rotation=30, ha="right", fontsize=8)
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
        draw_pass(axes, direction, result, report["baseline"])
    figure.suptitle(f"{report['gpu']}, driver {report['driver']}, PyTorch {report['torch']}, {report['date']}")
    figure.tight_layout()
    figure.savefig(options.image, dpi=120)


if __name__ == "__main__":
    main()
