"""The examples, as a user would run them."""

import pathlib
import sys

import pytest
import torch

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    for name in ("pooling", "serving"):
        sys.modules.pop(name, None)


def test_pooling_learns(examples, device_name):
    import pooling

    losses = torch.tensor(pooling.main(["--device", device_name]))
    assert losses[:5].mean() > 1.1  # ln 4 = 1.39 is chance
    assert losses[-5:].mean() < 0.5


def test_serving(examples, device_name, capsys):
    import serving

    serving.main(["--device", device_name])
    assert capsys.readouterr().out.count("as each request alone") == 5
