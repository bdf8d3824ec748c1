"""What a profile says about costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.errors import ProfileError
from profiler.profile import CodecSpeed, LayerCost
from profiler.testing import fake_profile
from profiler.values import ModelIdentity, TensorSlot

MODEL = ModelIdentity("net", "ab" * 32)
INPUT = TensorSlot("image", "float32", (1, 3, 8, 8))
LAYERS = (
    LayerCost("conv", ("conv", "relu"), 6.0, 0.1, layout_ms=1.0),
    LayerCost("fc", ("fc",), 2.0, 0.1),
)
# 0.5 overhead + 8 layers + 1 layout + 0.5 unattributed, which is spread over the 9 before it
PROFILE = replace(
    fake_profile({}, model=MODEL, inputs=(INPUT,)),
    layers=LAYERS,
    whole_ms=10.0,
    overhead_ms=0.5,
    border_ms_per_mb=0.4,
    exchange_ms=0.8,
    unattributed_ms=0.5,
)


def test_all_nodes_cost_the_whole_without_the_overhead() -> None:
    assert PROFILE.cost_of(["conv", "relu", "fc"]) == pytest.approx(9.5)
    assert PROFILE.run_ms(["conv", "relu", "fc"]) == pytest.approx(10.0)


def test_half_a_layer_costs_half_of_it_and_of_its_layout_changes() -> None:
    assert PROFILE.cost_of(["conv"]) == pytest.approx(9.5 / 9 * 3.5)


def test_a_node_counts_once_and_an_unknown_one_is_free() -> None:
    assert PROFILE.cost_of(["fc", "fc", "folded away"]) == pytest.approx(9.5 / 9 * 2)


def test_no_nodes_take_no_time() -> None:
    assert PROFILE.run_ms([], border_bytes=1000) == 0


def test_each_side_of_a_cut_pays_half_of_the_border() -> None:
    assert PROFILE.border_ms(5_000_000) == pytest.approx(1.0)
    handed_over = PROFILE.run_ms(["conv"], border_bytes=5_000_000)
    assert handed_over == pytest.approx(PROFILE.run_ms(["conv"]) + 1.0)


@given(st.sets(st.sampled_from(["conv", "relu", "fc"])))
def test_head_and_tail_take_the_whole_and_one_overhead_more(head: set[str]) -> None:
    tail = {"conv", "relu", "fc"} - head
    extra = PROFILE.overhead_ms if head and tail else 0
    assert PROFILE.run_ms(head) + PROFILE.run_ms(tail) == pytest.approx(PROFILE.whole_ms + extra)


def test_scaling_multiplies_the_model_and_not_the_codecs() -> None:
    slow = PROFILE.scaled(4, "emulated board")
    assert slow.label == "emulated board"
    assert slow.whole_ms == 40
    assert slow.cost_of(["fc"]) == pytest.approx(4 * PROFILE.cost_of(["fc"]))
    assert slow.run_ms(["conv"], 1000) == pytest.approx(4 * PROFILE.run_ms(["conv"], 1000))
    assert slow.layout_ms == pytest.approx(4 * PROFILE.layout_ms)
    assert slow.codecs == PROFILE.codecs
    assert slow.notes == ("Times of 'fake' multiplied by 4.",)


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf")])
def test_refuses_to_scale_by_nonsense(factor: float) -> None:
    with pytest.raises(ProfileError, match="factor above 0"):
        PROFILE.scaled(factor, "x")


def test_codec_times() -> None:
    speed = CodecSpeed(encode_mb_s=100, decode_mb_s=200, fixed_ms=0.5)
    assert speed.encode_ms(1_000_000) == pytest.approx(10.5)
    assert speed.decode_ms(1_000_000) == pytest.approx(5.5)


def test_accepts_its_own_model_and_inputs() -> None:
    PROFILE.require(MODEL, [INPUT])


def test_refuses_another_model() -> None:
    with pytest.raises(ProfileError, match=r"is of net \(sha256 abababababab.*profile this model"):
        PROFILE.require(ModelIdentity("net", "cd" * 32), [INPUT])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([replace(INPUT, shape=(2, 3, 8, 8))], r"'image' float32 \[1, 3, 8, 8\], not .*\[2, 3"),
        ([], r"'image' float32 \[1, 3, 8, 8\], not absent"),
        ([INPUT, TensorSlot("mask", "bool", (1,))], "'mask' absent, not bool"),
    ],
)
def test_refuses_other_inputs(inputs: list[TensorSlot], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        PROFILE.require(MODEL, inputs)
