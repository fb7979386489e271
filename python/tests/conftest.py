"""Options and fixtures of the package's tests.

--device sim:sm_100a (the default) runs them on a simulated GPU, --device cuda:0 on a real one, where tests/gpu is run,
too. Without PyTorch the tests that need it are not collected, and the last lines say how many those are.
"""

import contextlib
import importlib.util
import pathlib
import re

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
_left_out = []


def pytest_addoption(parser):
    parser.addoption("--device", default="sim:sm_100a", help="the device to run on: sim:sm_100a, sim:sm_90a, cuda:0")


def _tests_in(path):
    return len(re.findall(r"^\s*def test_", path.read_text(), re.MULTILINE))


def pytest_ignore_collect(collection_path, config):
    path = pathlib.Path(collection_path)
    if path.is_dir() or not path.name.startswith("test_"):
        return None
    if path.parent.name == "gpu" and not config.getoption("--device").startswith("cuda"):
        _left_out.append(("a GPU", _tests_in(path)))
        return True
    if not HAS_TORCH and re.search(r"^import torch", path.read_text(), re.MULTILINE):
        _left_out.append(("PyTorch", _tests_in(path)))
        return True
    return None


def pytest_terminal_summary(terminalreporter):
    for need in ("PyTorch", "a GPU"):
        count = sum(tests for what, tests in _left_out if what == need)
        if count:
            terminalreporter.write_line(f"not run: {count} tests that need {need}")


@pytest.fixture(scope="session")
def device_name(request):
    """The device as jfa calls it."""
    return request.config.getoption("--device")


@pytest.fixture
def on_device(device_name):
    """Calls on CPU tensors run on the simulated device for the length of the test."""
    import jfa

    with contextlib.ExitStack() as stack:
        if device_name.startswith("sim:"):
            stack.enter_context(jfa.simulate(device_name))
        yield device_name


@pytest.fixture
def device(on_device):
    """The device of the tensors."""
    return "cpu" if on_device.startswith("sim:") else on_device
