"""One request at work, and how it ends without a result."""

import threading
import time


class Cancelled(Exception):
    """Nobody waits for this call any more."""


class Invalid(Exception):
    """What is asked can not be done, and asking again would not help."""


class Call:
    """One request at work."""

    def __init__(self, deadline: float, aborted: set):
        self._deadline = deadline
        self._cancelled = threading.Event()
        self._aborted = aborted

    def check(self) -> None:
        """Raises Cancelled when it is cancelled or late. Costs next to nothing: ask it in loops."""
        if self._cancelled.is_set():
            raise Cancelled("cancelled")
        if time.monotonic() > self._deadline:
            raise Cancelled("its deadline has passed")

    def is_aborted(self, request_id: str) -> bool:
        """True when this request of the call should end now with what it has, finish abort."""
        return request_id in self._aborted
