"""Fakes for tests of code that stands on this package; ships with it, needs nothing else."""

from __future__ import annotations


class FakeClock:
    """A clock that stands still until told to advance.

    Example:
        >>> clock = FakeClock()
        >>> clock.advance(1.5)
        >>> clock.monotonic()
        1.5
    """

    def __init__(self, start_seconds: float = 0.0) -> None:
        self._now = start_seconds

    def monotonic(self) -> float:
        """Return the seconds this clock shows."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: Time would go back, which a monotonic clock never does.
        """
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot advance by {seconds} seconds")
        self._now += seconds
