"""The shipped network knows what is on the shipped photos."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from demos.photos import FOLDER, Photo, read_photos
from profiler.engine import EngineOptions, OnnxRuntimeEngine, Session
from splitter.model_config import ModelConfig, find_model_config

MODEL = FOLDER.parent / "models" / "efficientnet_lite0.onnx"
PHOTOS = read_photos()


@pytest.fixture(scope="module")
def session() -> Session:
    return OnnxRuntimeEngine(EngineOptions(threads=1)).load(MODEL)


@pytest.fixture(scope="module")
def config() -> ModelConfig:
    return find_model_config(MODEL, None)


def first_guess(session: Session, config: ModelConfig, pixels: np.ndarray) -> str:
    assert config.preprocess is not None
    logits = session.run({"image": config.preprocess.normalise(pixels)})["logits"]
    return config.labels[int(logits.argmax())]


@pytest.mark.parametrize("photo", PHOTOS.values(), ids=PHOTOS.keys())
def test_the_first_guess_is_right(photo: Photo, session: Session, config: ModelConfig) -> None:
    assert config.preprocess is not None
    assert first_guess(session, config, config.preprocess.pixels(photo.path)) in photo.right


@pytest.mark.parametrize("photo", PHOTOS.values(), ids=PHOTOS.keys())
def test_the_first_guess_is_right_after_jpeg(
    photo: Photo, session: Session, config: ModelConfig
) -> None:
    assert config.preprocess is not None
    file = io.BytesIO()
    Image.fromarray(config.preprocess.pixels(photo.path)).save(file, "JPEG", quality=90)
    assert first_guess(session, config, np.asarray(Image.open(file))) in photo.right


def test_there_is_one_name_for_each_class(config: ModelConfig) -> None:
    assert len(config.labels) == len(set(config.labels)) == 1000
    assert {label for photo in PHOTOS.values() for label in photo.right} <= set(config.labels)


def test_every_photo_is_listed_small_and_has_a_source() -> None:
    sources = (FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    assert {path.name for path in FOLDER.glob("*.jpg")} == set(PHOTOS)
    for name, photo in PHOTOS.items():
        assert f"`{name}`" in sources
        assert photo.path.stat().st_size < 64_000
        with Image.open(photo.path) as picture:
            assert min(picture.size) <= 400


def test_the_network_is_the_one_that_the_notice_is_about() -> None:
    notice = (MODEL.parent / "NOTICE.md").read_text(encoding="utf-8")
    assert hashlib.sha256(MODEL.read_bytes()).hexdigest() in notice


def test_the_network_is_the_shared_one(shared: Path) -> None:
    assert (shared / "models" / MODEL.name).read_bytes() == MODEL.read_bytes()


def test_preprocessing_gives_the_recorded_input(shared: Path, config: ModelConfig) -> None:
    """The recorded input is the cat photo, resized with another filter before it was shrunk."""
    assert config.preprocess is not None
    with np.load(shared / "models" / "efficientnet_lite0.feed.npz") as feed:
        recorded = feed["image"]
    gaps = {
        name: np.abs(
            config.preprocess.normalise(config.preprocess.pixels(photo.path)) - recorded
        ).mean()
        for name, photo in PHOTOS.items()
    }
    assert gaps.pop("cat.jpg") < 0.05
    assert min(gaps.values()) > 0.3
