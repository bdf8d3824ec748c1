"""The page in a real browser: nothing is asked for, nothing complains, and it fits phones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.splitter.page.browser import Page, find_browser, open_browser
from tests.splitter.page.plans import Planned, split_plan

WIDTHS = [360, 1280]

TOO_SMALL = """
[...document.querySelectorAll("svg[role=img], .swatch")].filter(svg => {
    const box = svg.getBoundingClientRect();
    return box.width < 10 || box.height < 10;
}).length
"""
OUTSIDE = """
[...document.querySelectorAll("h1, h2, p, li, dd, svg.plot text")].filter(each => {
    const box = each.getBoundingClientRect();
    return !each.closest(".scroll") && (box.left < 0 || box.right > innerWidth);
}).map(each => each.textContent)
"""
OVERLAPPING = """
[...document.querySelectorAll("svg.plot")].flatMap(svg => {
    const found = [];
    const texts = [...svg.querySelectorAll(":scope > text.tick, :scope > text.mark")];
    const boxes = texts.map(text => text.getBoundingClientRect());
    for (let i = 0; i < texts.length; i++)
        for (let j = 0; j < i; j++)
            if (boxes[i].left < boxes[j].right && boxes[j].left < boxes[i].right
                && boxes[i].top + 3 < boxes[j].bottom && boxes[j].top + 3 < boxes[i].bottom)
                found.push([texts[i].textContent, texts[j].textContent]);
    return found;
})
"""
FIGURES = """
JSON.stringify([...document.querySelectorAll("data[data-field]")].map(each =>
    [each.dataset.cut, each.dataset.field, JSON.parse(each.value)]))
"""
EMBEDDED = 'JSON.stringify(JSON.parse(document.getElementById("plan").textContent))'
GROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    program = find_browser()
    if program is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with open_browser(program, tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    return split_plan(tmp_path_factory.mktemp("split"))


@pytest.fixture(scope="module")
def file(split: Planned, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "plan.html"
    path.write_text(split.page, encoding="utf-8")
    return path


@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_asks_for_nothing(browser: Page, file: Path, width: int) -> None:
    browser.open(file, width)
    assert browser.said() == []
    assert browser.requested() == [file.as_uri()]
    assert browser.evaluate("innerWidth") == width
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.querySelectorAll('svg[role=img]').length") > 12
    assert browser.evaluate(TOO_SMALL) == 0
    assert browser.evaluate(OUTSIDE) == []
    assert browser.evaluate(OVERLAPPING) == []


def test_its_figures_are_those_of_json(browser: Page, file: Path, split: Planned) -> None:
    browser.open(file, 1280)
    assert json.loads(browser.evaluate(EMBEDDED)) == split.content
    rows: list[tuple[str, str, Any]] = json.loads(browser.evaluate(FIGURES))
    shown = {(cut, name): value for cut, name, value in rows}
    for each in split.content["candidates"]:
        for name, value in each["predicted"].items():
            assert shown[each["cut"], name] == value


def test_dark_screens_get_a_dark_page_and_paper_a_light_one(browser: Page, file: Path) -> None:
    grounds = []
    for scheme, media in (("light", "screen"), ("dark", "screen"), ("dark", "print")):
        browser.open(file, 800, scheme=scheme, media=media)
        grounds.append(browser.evaluate(GROUND))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 27)", "rgb(255, 255, 255)"]
    assert browser.evaluate("document.documentElement.scrollWidth") <= 800
