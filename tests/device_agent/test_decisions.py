"""Decisions are tables and formulas; each is checked whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_agent._decisions import (
    FAILURE_REASONS,
    REFUSAL_REMEDIES,
    Loss,
    Next,
    after_loss,
    backoff_s,
    cloud_limit_s,
    is_tight,
    refusal_reason,
)
from device_agent.answers import Reason
from protocol import FailureCode, RefusalCode


def test_every_failure_has_a_reason_other_than_planned() -> None:
    assert set(FAILURE_REASONS) == set(FailureCode)
    assert Reason.PLANNED not in FAILURE_REASONS.values()


@pytest.mark.parametrize("code", list(RefusalCode))
def test_refusals_that_pass_are_busy_the_others_refused(code: RefusalCode) -> None:
    expected = Reason.BUSY if code.advice == "retry" else Reason.REFUSED
    assert refusal_reason(code) is expected


def test_every_refusal_that_does_not_pass_has_a_remedy() -> None:
    assert set(REFUSAL_REMEDIES) == {code for code in RefusalCode if code.advice == "give_up"}


@pytest.mark.parametrize("loss", list(Loss))
def test_a_frame_is_sent_again_once_and_only_if_the_worker_forgot_the_session(loss: Loss) -> None:
    first = Next.SEND_AGAIN if loss is Loss.UNKNOWN_SESSION else Next.FINISH_HERE
    assert after_loss(loss, sent_times=1) is first
    assert after_loss(loss, sent_times=2) is Next.FINISH_HERE


@pytest.mark.parametrize(
    ("head_s", "finish_s", "limit_s"),
    [
        (0.0, 0.0, 11.5),
        (0.0, 0.2, 11.5),
        (0.0, 0.8, 11.0),
        (0.0, 1.2, 10.5),
        (0.0, 1.9, 10.0),
        (1.0, 0.9, 10.875),
        (0.0, 2.1, 12.0),  # from here on only the worker can keep the deadline
        (1.0, 1.1, 12.0),
        (3.0, 0.1, 12.0),
    ],
)
def test_the_deadline_less_what_the_device_needs_goes_to_the_cloud(
    head_s: float, finish_s: float, limit_s: float
) -> None:
    assert cloud_limit_s(10.0, 10.0 + head_s, 2.0, finish_s) == pytest.approx(limit_s)


@pytest.mark.parametrize(
    ("head_s", "finish_s", "tight"),
    [(0.0, 0.0, False), (0.8, 0.5, False), (1.1, 0.1, True), (0.0, 1.3, True), (0.1, 5.0, True)],
)
def test_a_deadline_is_tight_where_the_worker_has_less_than_a_quarter(
    head_s: float, finish_s: float, tight: bool
) -> None:
    assert is_tight(2.0, head_s, finish_s) is tight


@given(
    attempt=st.integers(0, 10**6),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_the_back_off_is_between_half_a_second_and_32(attempt: int, jitter: float) -> None:
    wait_s = backoff_s(attempt, jitter, 1.0, 32.0)
    assert 0.5 <= wait_s <= 32.0
    assert wait_s >= backoff_s(attempt, 0.0, 1.0, 32.0)


def test_the_back_off_doubles() -> None:
    waits = [backoff_s(attempt, 0.0, 1.0, 32.0) for attempt in range(8)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 16, 16]
