"""Plans to draw pages of, and pages as a program reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import onnx

from profiler.graph.model import load_model
from splitter.cuts import CutSpace
from splitter.explanation import Explanation, plan_content
from splitter.options import parse_options, request_of
from splitter.page import plan_page
from splitter.plans import Plan
from splitter.request import Planning
from tests.zoo import resnet_toy

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<!--\u202e"
WISHES = ("--keep-on-device", "input", "--subject-to", "uplink_bytes<=400000", "--explain")
PIN = ("--pin", f"{HOSTILE}y=cloud")


@dataclass(frozen=True)
class Planned:
    """A plan with all that a page shows."""

    plan: Plan
    space: CutSpace
    explanation: Explanation | None

    @property
    def page(self) -> str:
        return plan_page(self.plan, self.space, self.explanation)

    @property
    def content(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        content: dict[str, Any] = json.loads(json.dumps(plan_content(self.plan, self.explanation)))
        return content


def planned(folder: Path, proto: onnx.ModelProto, *options: str) -> Planned:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    parsed = parse_options([str(path), *options])
    request = request_of(parsed, lambda _: None)
    planning = Planning(request, load_model(path), folder)
    plan = planning.plan()
    explanation = planning.explanation(plan) if parsed.explain else None
    return Planned(plan, planning.situation.space, explanation)


def split_plan(folder: Path) -> Planned:
    """A split, a baseline that breaks a rule, names that attack the page, and the reasons."""
    return planned(folder, hostile_model(), "--device", "pi3", "--link", "lte", *WISHES, *PIN)


def hostile_model() -> onnx.ModelProto:
    """A network all of whose names are attempts to break out of where they are shown."""
    proto = resnet_toy().proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for node in copy.graph.node:
        node.name = f"{HOSTILE}{node.output[0]}"
        for names in (node.input, node.output):
            names[:] = [f"{HOSTILE}{name}" for name in names]
    for value in (*copy.graph.input, *copy.graph.output):
        value.name = f"{HOSTILE}{value.name}"
    for weight in copy.graph.initializer:
        weight.name = f"{HOSTILE}{weight.name}"
    del copy.graph.value_info[:]
    return copy


@dataclass
class Read(HTMLParser):
    """A page: its elements, the numbers in it, and what it embeds.

    Attributes:
        elements: Name and attributes of each element.
        numbers: The shown text of each number with the attributes of its element.
        embedded: The text of each script element.
    """

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    numbers: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    embedded: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in {"meta", "link", "br"}:
            return
        self.open.append(tag)
        if tag == "data":
            self.numbers.append(("", dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "data":
            text, attributes = self.numbers.pop()
            self.numbers.append((text + data, attributes))
        if self.open and self.open[-1] == "script":
            self.embedded.append(data)


def read_page(page: str) -> Read:
    read = Read()
    read.feed(page)
    read.close()
    assert not read.open
    return read


def figures(read: Read) -> Mapping[tuple[str, str], tuple[str, Any]]:
    """Return what the table of all figures says: text and value by cut and field."""
    return {
        (cut, name): (text, json.loads(attributes["value"] or ""))
        for text, attributes in read.numbers
        if (cut := attributes.get("data-cut")) and (name := attributes.get("data-field"))
    }
