"""Energy of frames, by values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.energy import (
    DevicePower,
    FrameBytes,
    FrameEnergy,
    FrameTimes,
    Radio,
    frame_energy,
)
from profiler.errors import PowerError, RadioError
from profiler.links import SteadyLink
from profiler.links.presets import link_preset_names, load_link_preset
from profiler.radios import load_radio, radio_names

BOARD = DevicePower(idle_w=2.0, busy_w=6.0)
# Sends 10 Mbit/s at 300 mW and receives 20 Mbit/s at 200 mW.
RADIO = Radio("toy", 20, 5, 100, 100)
LINK = SteadyLink(10, 20, 30)
# 100 ms up and 10 ms down.
PAYLOAD = FrameBytes(125_000, 25_000)
NOTHING = FrameBytes(0, 0)


def test_a_frame_computes_transmits_and_waits() -> None:
    energy = frame_energy(FrameTimes(50, 250), PAYLOAD, BOARD, RADIO, LINK)
    assert energy.compute_mj == pytest.approx(6 * 50)
    assert energy.waiting_mj == pytest.approx(2 * 200)
    assert energy.radio_mj == pytest.approx(0.3 * 100 + 0.2 * 10)
    assert energy.device_energy_mj == pytest.approx(300 + 400 + 32)


def test_a_frame_that_stays_on_the_device_needs_no_radio() -> None:
    energy = frame_energy(FrameTimes(50, 50), NOTHING, BOARD, None, LINK)
    assert energy == FrameEnergy(300, 0.0, 0.0)


def test_a_period_adds_rest_until_the_next_frame_and_changes_nothing_else() -> None:
    lone = frame_energy(FrameTimes(50, 250), PAYLOAD, BOARD, RADIO, LINK)
    every_second = frame_energy(FrameTimes(50, 250, 1000), PAYLOAD, BOARD, RADIO, LINK)
    assert every_second.waiting_mj == pytest.approx(2 * 950)
    assert replace(every_second, waiting_mj=lone.waiting_mj) == lone


def test_frames_longer_than_the_period_follow_each_other() -> None:
    assert FrameTimes(50, 250, 100).frame_ms == 250


def test_the_base_of_a_whole_telephone_is_not_the_radios() -> None:
    telephone = replace(RADIO, beta_up_mw=2400, beta_down_mw=2400, base_mw=2300)
    of_radio, of_telephone = (
        frame_energy(FrameTimes(50, 250), PAYLOAD, BOARD, radio, LINK)
        for radio in (RADIO, telephone)
    )
    assert of_telephone == of_radio


class TestTail:
    RADIO = replace(RADIO, tail_mw=1000, tail_ms=10_000)

    def radio_mj(self, period_ms: float | None) -> float | None:
        times = FrameTimes(50, 250, period_ms)
        return frame_energy(times, PAYLOAD, BOARD, self.RADIO, LINK).radio_mj

    def test_a_lone_frame_pays_for_all_of_it(self) -> None:
        assert self.radio_mj(None) == pytest.approx(32 + 10_000)

    def test_a_radio_that_sleeps_before_the_next_frame_costs_the_same(self) -> None:
        assert self.radio_mj(60_000) == pytest.approx(32 + 10_000)

    def test_a_radio_that_never_sleeps_costs_the_pause(self) -> None:
        assert self.radio_mj(1000) == pytest.approx(32 + 1000 - 110)

    def test_there_is_none_without_bytes(self) -> None:
        energy = frame_energy(FrameTimes(50, 250, 1000), NOTHING, BOARD, self.RADIO, LINK)
        assert energy.radio_mj == 0


def test_what_nobody_knows_is_none() -> None:
    energy = frame_energy(FrameTimes(50, 250), PAYLOAD, None, RADIO, LINK)
    assert energy == FrameEnergy(None, pytest.approx(32), None)
    assert energy.device_energy_mj is None
    energy = frame_energy(FrameTimes(50, 250), PAYLOAD, BOARD, None, LINK)
    assert energy == FrameEnergy(300, None, 400)
    assert energy.device_energy_mj is None


@pytest.mark.parametrize(
    ("idle_w", "busy_w"), [(-1, 2), (3, 2), (1, math.inf), (math.nan, 2), (1, math.nan)]
)
def test_powers_that_cannot_be_are_refused(idle_w: float, busy_w: float) -> None:
    with pytest.raises(PowerError, match=r"0 <= idle_w <= busy_w"):
        DevicePower(idle_w, busy_w)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ((2, 1), "compute_ms is 2 and latency_ms 1; computing is part of the latency"),
        ((-1, 1), "compute_ms is -1"),
        ((1, math.inf), "latency_ms inf"),
        ((1, 1, 0), "period_ms is 0; give a number above 0, or None"),
    ],
)
def test_times_that_cannot_be_are_refused(times: tuple[float, ...], message: str) -> None:
    with pytest.raises(PowerError, match=message):
        FrameTimes(*times)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("alpha_up_mw_per_mbps", -1, "alpha_up_mw_per_mbps of radio 'toy' is -1; give 0 or more"),
        ("tail_ms", math.nan, "tail_ms of radio 'toy' is nan"),
        ("base_mw", 101, "base_mw of radio 'toy' is 101, more than its beta"),
    ],
)
def test_radios_that_cannot_be_are_refused(field: str, value: float, message: str) -> None:
    with pytest.raises(PowerError, match=message):
        replace(RADIO, **{field: value})


def test_published_radios_are_all_usable() -> None:
    for name in radio_names():
        radio = load_radio(name)
        assert radio.name == name
        assert radio.sending_mw(10) > radio.receiving_mw(10) > 0


def test_every_radio_that_a_link_names_is_there() -> None:
    named = {load_link_preset(name).power for name in link_preset_names()} - {None}
    assert named == set(radio_names())


def test_the_lte_of_the_literature() -> None:
    """180 ms for a 130 kB picture at 5.85 Mbit/s, at 3.85 W."""
    lte = load_radio("lte")
    assert lte.sending_mw(5.85) == pytest.approx(3852.6, abs=0.1)
    assert (lte.tail_ms, lte.verified) == (11_576, False)


def test_an_unknown_radio_lists_those_there_are() -> None:
    with pytest.raises(
        RadioError, match=r"no radio 'wify' \(did you mean 'wifi'\?\); radios: 3g, "
    ):
        load_radio("wify")


@pytest.mark.parametrize("text", ["toy: 3", "toy: {alpha_up_mw_per_mbps: 1}", "{", "- toy"])
def test_a_broken_file_of_radios_is_named(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "radios.yaml"
    path.write_text(text)
    monkeypatch.setattr("profiler.radios._FILE", path)
    with pytest.raises(RadioError, match=r"radios\.yaml"):
        load_radio("toy")
