"""What a database of `jfa tune export` has to show: ratios of candidates by knob.

    python3 bench/sweeps.py sweep.json      # how much each knob matters, class by class
"""

import json
import sys


def knobs_of(tuning):
    """{"item_stages": 3} of "item_stages=3"."""
    return {name: int(value) for name, value in (piece.split("=") for piece in tuning.split(",") if piece)}


def points(record):
    """{knob: [(value, ratio, lower quartile, upper quartile, alone, won)]}: a candidate stands at every knob that it
    changes, `alone` if that is the only one. Those without times are left out."""
    by_knob = {}
    for trial in record["trials"]:
        knobs = knobs_of(trial["tuning"])
        if "ratio" not in trial or not trial.get("times_ms"):
            continue
        for knob, value in knobs.items():
            by_knob.setdefault(knob, []).append((value, *trial["ratio"], len(knobs) == 1, trial["outcome"] == "won"))
    return {knob: sorted(values) for knob, values in sorted(by_knob.items())}


def range_of(record, knob):
    """The best and the worst ratio of candidates that change this knob alone, the defaults (1) among them: how much
    the knob matters to the class."""
    ratios = [1.0] + [ratio for _, ratio, _, _, alone, _ in points(record).get(knob, []) if alone]
    return min(ratios), max(ratios)


def describe(records):
    """Lines: of every knob and pass, in how many classes it gains or loses more than 1 %, and the extremes."""
    lines = []
    knobs = sorted({(record["class"].split("-")[0], knob) for record in records for knob in points(record)})
    for direction, knob in knobs:
        ranges = [(*range_of(record, knob), record["shapes"][0]["name"]) for record in records
                  if record["class"].startswith(direction) and knob in points(record)]
        best, worst = min(ranges), max(ranges, key=lambda entry: entry[1])
        lines.append(f"{direction:9}{knob:20} alone: gains over 1 % in {sum(low < 0.99 for low, _, _ in ranges)} of "
                     f"{len(ranges)} classes, best {best[0]:.3f} ({best[2]}), worst {worst[1]:.3f} ({worst[2]})")
    return lines


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        report = json.load(file)
    print("\n".join(describe(report.get("records", [report]))))
