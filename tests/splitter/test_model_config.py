"""What is declared beside a model: read strictly, in bounded time and memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profiler.values import TensorSlot
from splitter.errors import PlanError
from splitter.model_config import ModelConfig, find_model_config, labels_note

PREPROCESS = "preprocess: {height: 4, width: 4, mean: [0, 0, 0], std: [1, 1, 1]}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "m.yaml"


def find(config: Path) -> ModelConfig:
    return find_model_config(config.with_suffix(".onnx"), None)


def test_both_keys_are_read(config: Path) -> None:
    config.write_text(PREPROCESS + "labels: l.txt\n")
    (config.parent / "l.txt").write_text("cat\ndog\n")
    found = find(config)
    assert found.labels == ("cat", "dog")
    assert found.preprocess is not None
    assert found.preprocess.height == 4


def test_without_a_file_nothing_is_declared(config: Path) -> None:
    assert find(config) == ModelConfig()


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{after}: &{after} {{<<: [{','.join([f'*{before}'] * 9)}]}}\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, r"aliases such as \*a are not read"),
        (MERGES, r"aliases such as \*a are not read"),
        ("labels: &x [*x]", "aliases"),
        ("x: " + "y" * 70_000, "it holds more than 65,536 bytes, the limit"),
        ("[" * 20_000, "is not valid YAML"),
        ("labels: 2001-99-99", "is not valid YAML"),
        ("labels: " + "9" * 5000, "is not valid YAML|give the name"),
        ("? [a, b]\n: 1", "is not valid YAML"),
        ("!!python/object/apply:os.system [ls]", "is not valid YAML"),
        ("- 1", "is no mapping"),
        ("labels: [cat, dog]", "give the name of a file"),
        ("label: x", "did you mean 'labels'"),
        ("labels: none.txt", "No such file"),
        ("labels: .", "it is a folder, not a file"),
        ("labels: /dev/zero", "it is a device, not a file"),
        ("labels: pipe", "it is a named pipe, not a file"),
        ("labels: huge", "it holds more than 16,777,216 bytes, the limit"),
        ("labels: binary", "is not UTF-8 text"),
    ],
)
def test_mistakes_are_told_at_once(config: Path, text: str, message: str) -> None:
    os.mkfifo(config.parent / "pipe")
    (config.parent / "huge").touch()
    os.truncate(config.parent / "huge", 1 << 40)
    (config.parent / "binary").write_bytes(b"\xff\xfe")
    config.write_text(text)
    with pytest.raises(PlanError, match=message) as caught:
        find(config)
    assert str(config) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("named", ["/dev/zero", "/"])
def test_a_config_that_has_no_end_is_refused(named: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="not a file"):
        find_model_config(tmp_path / "m.onnx", Path(named))


class TestLabels:
    TEN = tuple("0123456789")

    @pytest.mark.parametrize("shape", [(1, 10), (10,), (1, 10, 1, 1)])
    def test_that_fit_the_output_need_no_note(self, shape: tuple[int, ...]) -> None:
        assert labels_note(self.TEN, [TensorSlot("y", "float32", shape)]) == []

    def test_that_are_not_declared_need_none(self) -> None:
        assert labels_note((), [TensorSlot("y", "float32", (1, 1000))]) == []

    @pytest.mark.parametrize(
        "outputs",
        [
            [TensorSlot("y", "float32", (1, 1001))],
            [TensorSlot("y", "float32", (2, 5))],
            [TensorSlot("y", "int64", (1, 10))],
            [TensorSlot("y", "float32", (1, 10)), TensorSlot("z", "float32", (1, 10))],
        ],
    )
    def test_that_no_answer_can_show_are_told_with_the_outputs(
        self, outputs: list[TensorSlot]
    ) -> None:
        (note,) = labels_note(self.TEN, outputs)
        assert note.startswith("No answer will show the 10 labels")
        assert f"y {outputs[0].dtype} {list(outputs[0].shape)}" in note
