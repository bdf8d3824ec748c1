"""Execution providers by the names that people type."""

from __future__ import annotations

import onnxruntime
import pytest

from profiler.engine import EngineOptions, OnnxRuntimeEngine
from profiler.errors import EngineError
from profiler.providers import provider_name, queues_work


@pytest.mark.parametrize("name", ["cpu", "CPU", "CPUExecutionProvider", "cpuexecutionprovider"])
def test_short_and_full_names_in_any_case(name: str) -> None:
    assert provider_name(name) == "CPUExecutionProvider"
    engine = OnnxRuntimeEngine(EngineOptions(threads=1, provider=name))
    assert engine.options.provider == "CPUExecutionProvider"


def test_every_provider_of_this_build_has_a_short_name() -> None:
    for full in onnxruntime.get_available_providers():
        assert provider_name(full.removesuffix("ExecutionProvider").lower()) == full


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cudda", r"no execution provider 'cudda' \(did you mean 'cuda'\?\) in onnxruntime .*cpu"),
        ("CPUExecutionProvidr", r"did you mean 'CPUExecutionProvider'\?"),
        ("", r"no execution provider '' in onnxruntime .*\(available: .*cpu"),
        ("toaster", r"no execution provider 'toaster' in onnxruntime"),
    ],
)
def test_an_unknown_one_names_those_there_are(name: str, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        provider_name(name)


def test_one_that_this_build_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(
        EngineError,
        match=r"^CUDAExecutionProvider is not in this build of onnxruntime .* \(available: cpu\)",
    ):
        provider_name("cuda")


def test_the_providers_that_queue_are_providers() -> None:
    queueing = [name for name in onnxruntime.get_all_providers() if queues_work(name)]
    assert "CUDAExecutionProvider" in queueing
    assert "CPUExecutionProvider" not in queueing
