"""Bandwidth over time, as recorded on a real network."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.emulator.errors import LinkSettingsError
from protocol.files import read_file
from protocol.rates import HIGHEST_MBPS, LOWEST_MBPS
from protocol.text import one_line

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST_BYTES = 1 << 26  # a week in steps of a tenth of a second is a quarter of it
_LONGEST_S = 1e9  # clocks and timeouts carry a hundred years, but not much more


@dataclass(frozen=True)
class BandwidthTrace:
    """A rate that changes in steps and starts again at its end.

    Attributes:
        times_s: When each step begins; starts at 0 and grows.
        mbps: The rate of each step in Mbit/s; zeros are outages, but not all may be zero.
    """

    times_s: tuple[float, ...]
    mbps: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.times_s or len(self.times_s) != len(self.mbps):
            raise LinkSettingsError(
                f"a trace needs one rate for each time: {len(self.times_s)} times, "
                f"{len(self.mbps)} rates"
            )
        if self.times_s[0] != 0:
            raise LinkSettingsError(f"a trace starts at 0 s, not at {self.times_s[0]} s")
        for before, after in zip(self.times_s, self.times_s[1:], strict=False):
            if not before < after:
                raise LinkSettingsError(f"trace times must grow: {after} s follows {before} s")
        if not all(math.isfinite(value) for value in (*self.times_s, *self.mbps)):
            raise LinkSettingsError("a trace holds finite numbers only")
        if self.times_s[-1] > _LONGEST_S:
            raise LinkSettingsError(f"a trace lasts {_LONGEST_S:g} s at most")
        if min(self.mbps) < 0 or max(self.mbps) == 0:
            raise LinkSettingsError("trace rates must be 0 or more, and at least one above 0")
        for rate in self.mbps:
            if rate and not LOWEST_MBPS <= rate <= HIGHEST_MBPS:
                raise LinkSettingsError(
                    f"a trace rate of {rate:g} is out of range; "
                    f"give 0, or {LOWEST_MBPS:g} to {HIGHEST_MBPS:g}"
                )

    @property
    def period_s(self) -> float:
        """Length of one round. The last step lasts as long as the one before it, a lone one 1 s."""
        if len(self.times_s) == 1:
            return 1
        return 2 * self.times_s[-1] - self.times_s[-2]

    @property
    def peak_mbps(self) -> float:
        """The highest rate."""
        return max(self.mbps)

    @classmethod
    def from_csv(cls, path: Path) -> BandwidthTrace:
        """Read a file with the header ``t_s,mbps`` and one step a line; blank lines are skipped.

        Raises:
            LinkSettingsError: The file cannot be read or is no such trace.
        """
        try:
            text = read_file(path, _LARGEST_BYTES).decode("utf-8-sig")
            reader = csv.reader(io.StringIO(text, newline=""))
            rows = [(reader.line_num, row) for row in reader if ",".join(row).strip()]
        except OSError as error:
            raise LinkSettingsError(f"cannot read the trace {path}: {error.strerror}") from error
        except (UnicodeDecodeError, csv.Error) as error:
            raise LinkSettingsError(f"cannot read the trace {path}: {error}") from error
        header = rows[0][1] if rows else []
        if [cell.strip() for cell in header] != ["t_s", "mbps"]:
            raise LinkSettingsError(
                f"{path} is no trace: its first line is {one_line(','.join(header), 40)!r}, "
                "and must be t_s,mbps (seconds from the start, Mbit/s)"
            )
        try:
            steps = [_step(line, row) for line, row in rows[1:]]
            return cls(tuple(time for time, _ in steps), tuple(rate for _, rate in steps))
        except LinkSettingsError as error:
            raise LinkSettingsError(f"{path}: {error}") from None

    def faster(self, factor: float) -> BandwidthTrace:
        """Return the trace with its time pressed together; 10 plays an hour in six minutes.

        Raises:
            LinkSettingsError: The factor is not above 0.
        """
        if not (math.isfinite(factor) and factor > 0):
            raise LinkSettingsError(f"a trace can be sped up by a factor above 0, not by {factor}")
        return BandwidthTrace(tuple(time / factor for time in self.times_s), self.mbps)


def _step(line: int, row: list[str]) -> tuple[float, float]:
    try:
        time_s, mbps = map(_number, row)
    except ValueError:
        raise LinkSettingsError(
            f"line {line}: two numbers expected, found {one_line(','.join(row), 40)!r}"
        ) from None
    return time_s, mbps


def _number(text: str) -> float:
    """Read a number; Python's own reader also takes 1_000 and digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)
