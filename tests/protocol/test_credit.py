from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protocol.credit import CreditLedger


def test_spending_stops_at_the_credit_and_goes_on_after_release():
    ledger = CreditLedger(100)
    assert ledger.spend(1, 60)
    assert not ledger.spend(2, 41)
    assert ledger.spend(3, 40)
    assert ledger.outstanding == 100
    assert ledger.release(1) == 60
    assert ledger.spend(2, 41)
    assert ledger.outstanding == 81


def test_a_resend_takes_its_place_again():
    ledger = CreditLedger(100)
    assert ledger.spend(1, 80)
    assert ledger.spend(1, 80)
    assert ledger.outstanding == 80
    assert ledger.release(1) == 80
    assert ledger.outstanding == 0


def test_an_answer_that_comes_twice_gives_nothing_back():
    ledger = CreditLedger(100)
    ledger.spend(1, 10)
    assert (ledger.release(1), ledger.release(1), ledger.release(99)) == (10, 0, 0)


def test_more_than_the_whole_credit_never_fits():
    ledger = CreditLedger(100)
    assert not ledger.spend(1, 101)
    assert ledger.outstanding == 0


def test_negative_numbers_are_refused():
    with pytest.raises(ValueError, match="negative"):
        CreditLedger(-1)
    with pytest.raises(ValueError, match="negative"):
        CreditLedger(1).spend(1, -1)


class LedgerAgainstDict(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.ledger = CreditLedger(50)
        self.model = {}

    @rule(number=st.integers(0, 6), size=st.integers(0, 60))
    def spend(self, number, size):
        after = {**self.model, number: max(size, self.model.get(number, 0))}
        fits = sum(after.values()) <= 50
        assert self.ledger.spend(number, size) == fits
        if fits:
            self.model = after

    @rule(number=st.integers(0, 6))
    def release(self, number):
        assert self.ledger.release(number) == self.model.pop(number, 0)

    @invariant()
    def sums_agree(self):
        assert self.ledger.outstanding == sum(self.model.values())
        assert self.ledger.outstanding <= self.ledger.credit_bytes


TestLedgerAgainstDict = LedgerAgainstDict.TestCase
