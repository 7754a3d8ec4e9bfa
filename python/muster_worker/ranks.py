"""The processes of one trainer: how they meet, and how rank 0 tells the others what it is asked. The bytes of their shards go the same way, by gloo."""

import datetime
import json
import os

import torch
import torch.distributed as dist

# For the others to come; Muster ends who waits for rank 0 longer than engine.worker.start_seconds.
_MEET = datetime.timedelta(seconds=300)
# Samplers may take hours. Who waits for a process that is dead is ended: by its connection, or by Muster with the whole replica.
_PATIENCE = datetime.timedelta(days=30)


class Ranks:
    """This process among those of its trainer. Muster says who it is, and where rank 0 is met."""

    def __init__(self):
        self.rank, self.size = int(os.environ["MUSTER_WORKER_RANK"]), int(os.environ["MUSTER_WORKER_RANKS"])
        self._address, self._port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])

    def meet(self, device: str) -> None:
        """Waits for all. Raises RuntimeError when one does not come."""
        # Not every build has libuv (Debian's has not), and a few processes need no more than the plain server.
        store = dist.TCPStore(self._address, self._port, self.size, self.rank == 0, _MEET, use_libuv=False)
        backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.size, timeout=_PATIENCE)

    def say(self, method: str, params: dict, inputs) -> None:
        """Rank 0: what all of them do next."""
        text = json.dumps({"method": method, "params": params}).encode()
        dist.broadcast(torch.tensor([len(text), len(inputs)]), 0)
        for part in (text, inputs):
            if len(part) > 0:
                dist.broadcast(torch.frombuffer(bytearray(part), dtype=torch.uint8), 0)

    def hear(self):
        """Another rank: what rank 0 says, as (method, params, inputs)."""
        lengths = torch.zeros(2, dtype=torch.int64)
        dist.broadcast(lengths, 0)
        parts = []
        for length in lengths.tolist():
            part = bytearray(length)
            if length > 0:
                dist.broadcast(torch.frombuffer(part, dtype=torch.uint8), 0)
            parts.append(part)
        said = json.loads(parts[0])
        return said["method"], said["params"], parts[1]

    def number(self, value: float) -> float:
        """The number that rank 0 has, exactly."""
        shared = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(shared, 0)
        return float(shared)

    def scatter(self, pieces, count: int) -> torch.Tensor:
        """Float32 of `count` elements, this rank's of the `pieces` that rank 0 has."""
        room = int(self._most(count))
        into = torch.empty(room)
        dist.scatter(into, None if pieces is None else [_padded(piece, room) for piece in pieces], src=0)
        return into[:count]

    def gather(self, piece: torch.Tensor):
        """The pieces of all ranks in their order, each perhaps with something behind it; None in another process than rank 0."""
        room = int(self._most(piece.numel()))
        pieces = [torch.empty(room, dtype=piece.dtype) for _ in range(self.size)] if self.rank == 0 else None
        dist.gather(_padded(piece, room), pieces, dst=0)
        return pieces

    def _most(self, count: int) -> int:
        most = torch.tensor([count])
        dist.all_reduce(most, dist.ReduceOp.MAX)
        return int(most)


def _padded(piece: torch.Tensor, count: int) -> torch.Tensor:
    padded = torch.zeros(count, dtype=piece.dtype)
    padded[:piece.numel()].copy_(piece)
    return padded
