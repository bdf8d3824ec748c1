"""Link presets: all are usable, say where they come from, and what is not certain."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from profiler.errors import LinkError
from profiler.links import presets
from profiler.links.parsing import parse_link
from profiler.links.presets import link_preset_names, load_link_preset

ASKED_FOR = {"2g", "3g", "4g", "5g", "lte", "wifi", "dsl", "cable", "ethernet"}


def test_the_usual_networks_are_there() -> None:
    assert set(link_preset_names()) >= ASKED_FOR


@pytest.mark.parametrize("name", link_preset_names())
def test_every_preset_is_a_link_with_a_source_and_its_doubts(name: str) -> None:
    preset = load_link_preset(name)
    link = parse_link(name)
    assert link == preset.link()
    assert (link.uplink_mbps, link.downlink_mbps) == (preset.uplink_mbps, preset.downlink_mbps)
    assert 0 < link.rtt_ms < 1000
    assert len(preset.source) > 20
    assert preset.verified == (not preset.doubt)
    assert link.notes == (() if preset.verified else (f"Link preset {name}: {preset.doubt}.",))
    assert link.to_dict()["source"] == link.source == f"preset {name}: {preset.source}"


def test_a_round_trip_that_is_given_replaces_that_of_the_preset() -> None:
    link = parse_link("lte,rtt=60ms")
    assert link.rtt_ms == 60
    assert link.uplink_mbps == load_link_preset("lte").uplink_mbps
    assert "with the given round trip" in link.source
    assert parse_link(" LTE , rtt=0ms").rtt_ms == 0


def test_the_power_model_is_named_where_there_is_one() -> None:
    assert parse_link("wifi").to_dict()["power"] == "wifi"
    assert "power" not in parse_link("dsl").to_dict()


def test_numbers_are_those_of_the_collected_data(shared: Path) -> None:
    data = yaml.safe_load((shared / "data" / "devices" / "links.yaml").read_text())
    for name, fields in data["presets"].items():
        preset = load_link_preset(name)
        assert preset.uplink_mbps == fields["up_mbps"]
        assert preset.downlink_mbps == fields["down_mbps"]
        assert preset.rtt_ms == fields["rtt_ms"]
        assert preset.power == fields.get("power")


@pytest.mark.parametrize("text", ["", "[", "lte: 3", "lte: {speed: 3}", "- lte"])
def test_a_broken_file_is_named(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "links.yaml"
    path.write_text(text)
    monkeypatch.setattr(presets, "_FILE", path)
    monkeypatch.setattr(presets, "_read", presets._read.__wrapped__)
    with pytest.raises(LinkError, match=r"file of link presets .*links.yaml is broken"):
        link_preset_names()
