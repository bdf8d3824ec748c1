"""The page says what the plan says, needs nothing else, and no name breaks out of it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from splitter.page.style import DARK, LIGHT, PARTS, stylesheet
from tests.splitter.page.plans import Planned, Read, figures, planned, read_page, split_plan
from tests.zoo import chain_cnn, multi_input


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    return split_plan(tmp_path_factory.mktemp("split"))


@pytest.fixture(scope="module")
def read(split: Planned) -> Read:
    return read_page(split.page)


def shown(value: Any, text: str) -> bool:
    """Whether a text is a number as people read it."""
    if value is None or isinstance(value, str):
        return text == ("?" if value is None else value)
    _, _, decimals = text.partition(".")
    half = 0.5 * 10.0 ** -len(decimals) if "e" not in text else abs(float(value)) / 200
    difference = abs(float(text.replace(",", "")) - float(value))
    return difference <= half * (1 + 1e-9)


def test_every_figure_is_that_of_json(split: Planned, read: Read) -> None:
    content, found = split.content, figures(read)
    predictions: dict[str, Mapping[str, Any]] = {
        each["cut"]: each["predicted"] for each in content["candidates"]
    }
    predictions["device"] = content["baselines"]["device"]
    predictions["cloud"] = content["baselines"]["cloud"]
    for cut, predicted in predictions.items():
        for name, value in predicted.items():
            text, exact = found[cut, name]
            assert exact == value
            assert shown(value, text), (cut, name, text, value)
    assert {cut for cut, _ in found} >= set(predictions)


def test_every_number_is_shown_as_it_is(read: Read) -> None:
    assert len(read.numbers) > 100
    for text, attributes in read.numbers:
        value = json.loads(attributes["value"] or "")
        assert shown(value, text), (text, value)


def test_the_plan_is_embedded(split: Planned, read: Read) -> None:
    (text,) = read.embedded
    assert json.loads(text) == split.content
    (script,) = [attributes for name, attributes in read.elements if name == "script"]
    assert script == {"type": "application/json", "id": "plan"}


def test_no_name_breaks_out(split: Planned, read: Read) -> None:
    assert any("onerror" in tensor.name for tensor in split.plan.chosen.tensors)
    assert split.page.count("</script") == 1
    for name, attributes in read.elements:
        assert name not in {"img", "iframe", "object", "embed", "base", "form"}
        assert not [key for key in attributes if key.startswith("on")]
    assert "\u202e" not in split.page


def test_nothing_is_loaded(read: Read) -> None:
    for name, attributes in read.elements:
        assert not {"src", "srcset", "action", "data"} & set(attributes), name
        target = attributes.get("href")
        assert target is None or target.startswith("#") or target == "data:,"
    assert "url(" not in stylesheet()
    assert "@import" not in stylesheet()


def test_headings_rows_and_columns_are_named(read: Read) -> None:
    names = [name for name, _ in read.elements]
    assert names.count("h1") == 1
    assert names.count("caption") == names.count("table") >= 6
    assert all(each["scope"] in {"row", "col"} for name, each in read.elements if name == "th")
    identifiers = [each["id"] for _, each in read.elements if "id" in each]
    assert len(identifiers) == len(set(identifiers))
    links = {(each["href"] or "")[1:] for name, each in read.elements if name == "a"}
    assert links <= set(identifiers)


def test_figures_have_a_title_and_a_description(read: Read) -> None:
    pairs = itertools.pairwise(read.elements)
    first = [inner for (_, attributes), (inner, _) in pairs if attributes.get("role") == "img"]
    assert len(first) > 12
    assert set(first) == {"title"}
    assert sum(name == "desc" for name, _ in read.elements) == len(first)


def test_what_the_reader_must_know_is_there(split: Planned) -> None:
    page = split.page
    for text in ("breaks --keep-on-device input", "uplink_bytes&lt;=400000", "pi3 (predicted"):
        assert text in page
    for note in split.plan.notes:
        assert note.split("'")[0][:40] in page
    for word in ("latency", "bands", "front", "rates", "network", "why", "figures"):
        assert f'id="{word}"' in page
    assert 'id="policies"' not in page


def test_a_trace_has_its_policies(tmp_path: Path) -> None:
    (tmp_path / "drive.csv").write_text("t_s,mbps\n0,200\n1,20\n2,2\n")
    link = f"{tmp_path}/drive.csv,rtt=1ms"
    found = planned(tmp_path, chain_cnn().proto, "--device", "pi4", "--link", link)
    read = read_page(found.page)
    assert ("section", {"id": "policies"}) in read.elements
    values = {attributes["value"] for _, attributes in read.numbers}
    for policy in found.plan.policies:
        assert {json.dumps(policy.latency_ms), json.dumps(policy.regret_ms)} <= values


def test_a_machine_between_has_a_section_of_its_own(tmp_path: Path) -> None:
    edge = ("--edge", "laptop-i7-12700h", "--edge-link", "ethernet")
    found = planned(
        tmp_path, multi_input().proto, "--device", "pi3", "--link", "wifi", *edge, "--explain"
    )
    page = found.page
    read_page(page)
    sections = re.findall(r'class="tier (\w+)"', page)
    assert sections == ["device", "edge", "cloud"]


def luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_letters_stand_out(colours: Mapping[str, str]) -> None:
    """WCAG 2.2: 4.5 for letters (1.4.3), 3 for what figures are made of (1.4.11)."""
    assert colours.keys() == LIGHT.keys()
    for letters, ground in (("ink", "page"), ("muted", "page"), ("mark", "page"), ("page", "ink")):
        assert contrast(colours[letters], colours[ground]) >= 4.5
    for part in PARTS:
        assert contrast(colours[f"on-{part}"], colours[part]) >= 4.5
    for line in ("line", "device"):
        assert contrast(colours[line], colours["page"]) >= 3
