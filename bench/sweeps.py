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


def gain_of(record, knob):
    """The best ratio of all candidates over the best of those that leave the knob as it is: 1 if nothing is lost
    without it. Only candidates that were timed to the end count, the defaults (1) among them."""
    ratios = [(knobs_of(trial["tuning"]), trial["ratio"][0]) for trial in record["trials"]
              if trial["outcome"] in ("timed", "won") and "ratio" in trial]
    best = min([1.0] + [ratio for _, ratio in ratios])
    return best / min([1.0] + [ratio for knobs, ratio in ratios if knob not in knobs])


def worst_of(record, knob):
    """The most that a value of the knob costs, all else equal: how much its default matters."""
    ratios = {frozenset(knobs_of(trial["tuning"]).items()): trial["ratio"][0] for trial in record["trials"]
              if "ratio" in trial}
    costs = [1.0]
    for knobs, ratio in ratios.items():
        others = frozenset(entry for entry in knobs if entry[0] != knob)
        if others != knobs and others in ratios:
            costs.append(ratio / ratios[others])
    return max(costs)


def describe(records):
    """Lines: of every knob and pass, what it gains beside all others, in how many classes more than 1 %, and the most
    that it costs."""
    lines = []
    knobs = sorted({(record["class"].split("-")[0], knob) for record in records for knob in points(record)})
    for direction, knob in knobs:
        own = [record for record in records if record["class"].startswith(direction) and knob in points(record)]
        gains = [(gain_of(record, knob), record["shapes"][0]["name"]) for record in own]
        worst = max((worst_of(record, knob), record["shapes"][0]["name"]) for record in own)
        best = min(gains)
        lines.append(f"{direction:9}{knob:20} gains over 1 % in {sum(gain < 0.99 for gain, _ in gains)} of {len(own)} "
                     f"classes, best {best[0]:.3f} ({best[1]}), worst {worst[0]:.3f} ({worst[1]})")
    return lines


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        report = json.load(file)
    print("\n".join(describe(report.get("records", [report]))))
