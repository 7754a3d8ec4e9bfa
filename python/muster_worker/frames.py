"""Frames: four bytes of length, little endian, and as many bytes of JSON in UTF-8."""

import json
import os
import struct
import threading

FRAME_MAX = 4 * 2**20


class Frames:
    """Reads from one file descriptor and writes to another, which may be the same socket. Any thread may write."""

    def __init__(self, read_fd: int, write_fd: int):
        self.read_fd = read_fd
        self._write_fd = write_fd
        self._writing = threading.Lock()

    def read(self):
        """The next message, or None at the end. Raises ValueError for what is no frame."""
        header = self._exactly(4)
        if header is None:
            return None
        (length,) = struct.unpack("<I", header)
        if not 2 <= length <= FRAME_MAX:
            raise ValueError(f"a frame of {length} bytes; it must have 2 to {FRAME_MAX}")
        body = self._exactly(length)
        return None if body is None else json.loads(body)

    def write(self, message: dict) -> None:
        """Sends a message whole. Raises ValueError for a number that JSON has not, and for a frame that is too long."""
        body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
        if len(body) > FRAME_MAX:
            raise ValueError(f"a message of {len(body)} bytes; at most {FRAME_MAX}: large things belong into a region")
        left = memoryview(struct.pack("<I", len(body)) + body)
        with self._writing:
            while left:
                left = left[os.write(self._write_fd, left):]

    def _exactly(self, count: int):
        parts = []
        while count:
            part = os.read(self.read_fd, min(count, 2**20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
