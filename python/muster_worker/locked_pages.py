"""Regions whose pages the driver of a GPU has locked, so that it copies from and to them by itself, several times as fast."""

import sys

import torch


class LockedPages:
    """Locks each region once, for as long as the process lives. Where that is refused, copies go through a buffer of the driver."""

    def __init__(self, device: str):
        self._device, self._locks = device, device.startswith("cuda")
        self._locked = set()

    def floats(self, view: memoryview) -> torch.Tensor:
        """A whole region as float32, without a copy."""
        values = torch.frombuffer(view, dtype=torch.float32)
        if self._locks:
            self._lock(values.data_ptr(), values.numel() * 4)
        return values

    def _lock(self, address: int, count: int) -> None:
        if address in self._locked:
            return
        self._locked.add(address)
        code = torch.cuda.cudart().cudaHostRegister(address, count, 0)
        if int(code) != 0:
            print(f"muster_worker: {count} bytes can not be locked ({code}): copies to the GPU are slower", file=sys.stderr)
            self._take_error()

    def _take_error(self) -> None:
        """The runtime keeps the error of a call for whoever asks next, and PyTorch asks after each kernel: the next one would fail for it."""
        try:
            torch.zeros(1, device=self._device)
        except RuntimeError:
            pass
