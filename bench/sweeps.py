"""What a database of `jfa tune export` has to show: ratios of candidates by knob."""


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
