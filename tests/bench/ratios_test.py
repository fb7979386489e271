"""Means of ratios are compared over the same shapes only. Usage: bench_ratios_test.py <folder bench>"""

import json
import pathlib
import sys
import unittest

BENCH = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(BENCH))
import ratios  # noqa: E402
import sweeps  # noqa: E402


def row(**libraries):
    entries = {name: {} if value is None else {"ratio": value} for name, value in libraries.items()}
    return {"name": "shape", "libraries": {"baseline": {"ms": {}}} | entries}


class RatiosTest(unittest.TestCase):
    def test_a_mean_stands_beside_means_over_the_same_shapes(self):
        rows = [row(a=2, b=None), row(a=8, b=3), row(a=2, b=12), row(a=4)]
        self.assertEqual(ratios.libraries(rows), ["a", "b"])
        means = ratios.comparable_means(rows)
        self.assertEqual([count for count, _ in means], [4, 2])
        self.assertEqual(list(means[0][1]), ["a"])
        self.assertAlmostEqual(means[0][1]["a"], 128 ** 0.25)
        self.assertAlmostEqual(means[1][1]["a"], 4)
        self.assertAlmostEqual(means[1][1]["b"], 6)
        self.assertEqual(ratios.describe_means(rows), "over 4 shapes a 3.36; over 2 shapes a 4.00, b 6.00")

    def test_libraries_that_share_no_shape_are_not_compared(self):
        means = ratios.comparable_means([row(a=2), row(b=3)])
        self.assertEqual([list(values) for _, values in means], [["a"], ["b"]])

    def test_nothing_measured(self):
        self.assertEqual(ratios.describe_means([row(a=None)]), "none")

    def test_committed_reports(self):
        def described(report, direction):
            with open(BENCH / "results" / report) as file:
                return ratios.describe_means(json.load(file)["passes"][direction]["shapes"])

        self.assertEqual(described("peers-h200.json", "forward"),
                         "over 14 shapes jfa 1.83; over 1 shape jfa 1.76, cudnn 1.91")
        self.assertEqual(described("flex-h200.json", "backward"), "over 4 shapes jfa 2.17, flex_attention 0.72")


class SweepsTest(unittest.TestCase):
    RECORD = {"trials": [
        {"tuning": "", "outcome": "timed", "ratio": [1, 1, 1], "times_ms": [[1]]},
        {"tuning": "a=2", "outcome": "timed", "ratio": [1.25, 1.2, 1.3], "times_ms": [[1]]},
        {"tuning": "a=1,b=3", "outcome": "won", "ratio": [0.5, 0.4, 0.6], "times_ms": [[1]]},
        {"tuning": "b=4", "outcome": "failed", "reason": "signal 11"}]}

    def test_a_candidate_stands_at_every_knob_that_it_changes(self):
        self.assertEqual(sweeps.points(self.RECORD), {"a": [(1, 0.5, 0.4, 0.6, False, True), (2, 1.25, 1.2, 1.3, True, False)],
                                                      "b": [(3, 0.5, 0.4, 0.6, False, True)]})

    def test_a_knob_matters_by_what_is_lost_without_it(self):
        self.assertEqual((sweeps.gain_of(self.RECORD, "a"), sweeps.worst_of(self.RECORD, "a")), (0.5, 1.25))
        other = {"trials": self.RECORD["trials"] + [
            {"tuning": "b=3", "outcome": "timed", "ratio": [0.5, 0.4, 0.6], "times_ms": [[1]]},
            {"tuning": "a=3", "outcome": "stopped early", "ratio": [0.25, 0.2, 0.3], "times_ms": [[1]]}]}
        self.assertEqual(sweeps.gain_of(other, "a"), 1)  # as good without it; two rounds prove nothing
        self.assertEqual((sweeps.gain_of(other, "b"), sweeps.worst_of(other, "b")), (0.5, 1))
        record = self.RECORD | {"class": "forward-bf16", "shapes": [{"name": "s"}]}
        self.assertEqual(len(sweeps.describe([record])), 2)
        self.assertIn("gains over 1 % in 1 of 1 classes, best 0.500 (s), worst 1.250 (s)",
                      sweeps.describe([record])[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
