"""Flow control in bytes: what is unanswered never exceeds what the worker granted."""

from __future__ import annotations


class CreditLedger:
    """The bytes of the requests that wait for an answer; one per session, one owner thread.

    A request that is sent again under its number takes its place again, not a second one.

    Attributes:
        credit_bytes: What the worker granted in WELCOME.
    """

    def __init__(self, credit_bytes: int) -> None:
        """Start with nothing outstanding.

        Raises:
            ValueError: The credit is negative.
        """
        if credit_bytes < 0:
            raise ValueError(f"credit is {credit_bytes} bytes; it cannot be negative")
        self.credit_bytes = credit_bytes
        self._charged: dict[int, int] = {}
        self._outstanding = 0

    @property
    def outstanding(self) -> int:
        """Bytes charged and not yet released."""
        return self._outstanding

    def spend(self, number: int, message_bytes: int) -> bool:
        """Charge a request if it fits; return whether it does.

        Args:
            number: Of the request.
            message_bytes: Of all its frames. More than the whole credit never fits.

        Raises:
            ValueError: The size is negative.
        """
        if message_bytes < 0:
            raise ValueError(f"request {number} has {message_bytes} bytes; it cannot be negative")
        charged = self._charged.get(number, 0)
        more = max(0, message_bytes - charged)
        if self._outstanding + more > self.credit_bytes:
            return False
        self._charged[number] = charged + more
        self._outstanding += more
        return True

    def release(self, number: int) -> int:
        """Give back what a request was charged, once it is answered or given up.

        Returns:
            The bytes given back; 0 for an unknown number, as with an answer that came twice.
        """
        given_back = self._charged.pop(number, 0)
        self._outstanding -= given_back
        return given_back
