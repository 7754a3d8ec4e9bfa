"""Calls of the coordinator's HTTP interface, with retries."""
import http.client
import json
import math
import random
import time
import urllib.error
import urllib.parse
import urllib.request


class CoordinatorError(Exception):
    """An answer that is no success. `status` is 0 when there was none; `may_pass` when asking again later can help."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
        self.may_pass = status in (0, 429, 503)


class Coordinator:
    """A coordinator at `url`. What may pass by itself (no answer, 429, 503) is tried again, later each time."""

    def __init__(self, url, token=None, max_retries=3, retry_delay_seconds=1.0, timeout_seconds=30.0):
        self.url = url.rstrip("/")
        self._headers = {"content-type": "application/json"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._max_retries, self._delay, self._timeout = max_retries, retry_delay_seconds, timeout_seconds

    def get(self, path, wait_seconds=0.0, deadline=None, **query):
        """GET; a query value of None is left out. After `deadline`, as `time.monotonic` counts, it is not tried again."""
        known = {key: value for key, value in query.items() if value is not None}
        if wait_seconds:
            known["wait_timeout_s"] = f"{wait_seconds:.3f}"
        suffix = f"?{urllib.parse.urlencode(known)}" if known else ""
        return self._retried("GET", path + suffix, None, (wait_seconds, deadline))

    def post(self, path, body, wait_seconds=0.0):
        return self._retried("POST", path, body, (wait_seconds, None))

    def delete(self, path, **query):
        return self._retried("DELETE", f"{path}?{urllib.parse.urlencode(query)}", None, (0.0, None))

    def once(self, method, path, body=None, wait_seconds=0.0, deadline=None):
        """One try. Raises CoordinatorError."""
        left = math.inf if deadline is None else max(0.1, deadline - time.monotonic())
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=min(self._timeout + wait_seconds, left)) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise CoordinatorError(error.code, _message_of(error)) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise CoordinatorError(0, f"coordinator {self.url}: {error}") from error

    def _retried(self, method, path, body, patience):
        wait_seconds, deadline = patience
        for attempt in range(self._max_retries + 1):
            # Half of the delay is drawn, so that many clients do not come back at once.
            delay = self._delay * 2**attempt * random.uniform(0.5, 1.0)
            try:
                return self.once(method, path, body, wait_seconds, deadline)
            except CoordinatorError as error:
                is_over = deadline is not None and time.monotonic() + delay > deadline
                if not error.may_pass or attempt == self._max_retries or is_over:
                    raise
                time.sleep(delay)
        raise AssertionError("not reached")


def _message_of(error):
    try:
        return json.load(error)["message"]
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return f"the coordinator answered {error.code}"
