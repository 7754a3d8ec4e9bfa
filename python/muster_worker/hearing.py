"""
Who reads the socket of a worker. The thread that works reads it itself while it waits, so that a short call wakes no other thread; when its work takes
longer, a second one reads, so that pings are answered and cancels are noted, and long work does not look dead.
"""

import os
import select
import sys
import threading
import time
import traceback

# A call that takes longer than this has somebody else hear meanwhile.
_PATIENCE_SECONDS = 0.02
# What is still computed when whoever started it is gone is for nobody.
_GRACE_SECONDS = 1


class Hearing:
    """Reads frames. `take(message)` deals with one at once and returns True when it is work."""

    def __init__(self, frames, take):
        self._frames, self._take = frames, take
        self._work = []
        # Who holds it reads.
        self._reading = threading.Lock()
        self._reading.acquire()
        # When the work at hand began; None while there is none.
        self._since = None
        self._is_over = False
        self._woken, self._wake = os.pipe()
        threading.Thread(target=self._stand_in, daemon=True).start()

    def leave(self) -> None:
        """The caller works, and takes no more of what is heard until it asks for the next."""
        self._since = time.monotonic()
        self._reading.release()

    def next(self):
        """Waits for work. Returns None when there will be none: whoever started this process is gone, or speaks garbage."""
        if self._since is not None:
            self._since = None
            if not self._reading.acquire(blocking=False):
                os.write(self._wake, b"!")
                self._reading.acquire()
        while not self._work and not self._is_over and self._heard():
            pass
        return self._work.pop(0) if self._work else None

    def _heard(self) -> bool:
        """Reads a message. False when there are no more."""
        try:
            message = self._frames.read()
            if message is None:
                return False
            if self._take(message):
                self._work.append(message)
            return True
        except OSError as error:
            print(f"muster_worker: the socket is gone: {error}", file=sys.stderr)
        except Exception:
            traceback.print_exc()
        return False

    def _stand_in(self) -> None:
        ready = select.poll()
        for descriptor in (self._frames.read_fd, self._woken):
            ready.register(descriptor, select.POLLIN)
        while True:
            time.sleep(_PATIENCE_SECONDS)
            since = self._since
            if since is None or time.monotonic() - since < _PATIENCE_SECONDS or not self._reading.acquire(blocking=False):
                continue
            while self._since == since:
                found = [descriptor for descriptor, _ in ready.poll()]
                if self._woken in found:
                    os.read(self._woken, 1)
                elif not self._heard():
                    self._is_over = True
                    break
            self._reading.release()
            if self._is_over:
                time.sleep(_GRACE_SECONDS)
                os._exit(0)
