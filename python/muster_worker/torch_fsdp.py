"""
The trainer of torch_grpo as several processes: fully_shard of PyTorch (FSDP2) cuts the model over them, and each has its piece of the weights, the gradient and
the moments of AdamW. Rank 0 speaks to Muster, and has the whole in the regions alone. A micro-shard is computed by all of them, each its passes, and Muster
adds up the gradients of the trainers as it does with trainers of one process. Bits depend on how many processes there are, and on nothing else of them.
"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from .calls import Cancelled
from .ranks import Ranks
from .rows import parts_of
from .torch_trainer import TorchGrpo, norm_of
from .trained import AllWeights


class FsdpGrpo(TorchGrpo):
    """Live state and candidate are this process's pieces of what is trained, one behind the other, and of its moments."""

    def __init__(self, options):
        super().__init__(options)
        self.ranks = Ranks()
        self.loss_scale = self.ranks.size  # FSDP divides the sum of the processes by their number
        self.pieces = Pieces([parameter.shape for _, parameter in self.parameters], self.ranks.size)

    def meet(self):
        """Waits for the other processes, and shares the model with them."""
        self.ranks.meet(self.options.device)
        mesh = init_device_mesh(self.options.device.split(":")[0], (self.ranks.size,))
        precision = MixedPrecisionPolicy(reduce_dtype=torch.float32)
        for module in [*_blocks_of(self.model), self.model]:
            fully_shard(module, mesh=mesh, mp_policy=precision)
        self.parameters = list(self.model.named_parameters())
        self.trained = AllWeights(self.parameters)
        own = [local_of(parameter).numel() for _, parameter in self.parameters]
        if own != self.pieces.counts_of(self.ranks.rank):
            raise RuntimeError(f"fully_shard of torch {torch.__version__} cuts a parameter otherwise than in rows of equal number")

    def restore(self, weights, optimizer):
        whole, updates = None, 0
        if weights is not None:
            _, first, second, count = self._parts(optimizer)
            whole, updates = (self.pages.floats(weights), first, second), int.from_bytes(count, "little")
        flat, first, second = (self._scattered(whole and whole[part]) for part in range(3))
        self.live = (flat, first, second, int(self.ranks.number(updates)))
        self.candidate, self.loaded = None, None

    def write(self, which, weights, optimizer):
        *state, updates = getattr(self, which)
        places = [None] * 3
        if weights is not None:
            _, first, second, count = self._parts(optimizer)
            places = [self.pages.floats(weights), first, second]
            count[:] = updates.to_bytes(8, "little")
        for values, place in zip(state, places):
            self._gathered(values, place)

    def _own(self, flat):
        return self.pieces.of(flat, self.ranks.rank)

    def _passes(self, samples):
        """Dealt in turn; who has one less than others computes one that does not count, because FSDP exchanges weights in every pass."""
        rows = min(self.options.rows, -(-len(samples) // self.ranks.size))
        parts = parts_of(samples, rows)
        own = parts[self.ranks.rank::self.ranks.size]
        most = -(-len(parts) // self.ranks.size)
        return own + parts[:1] * (most - len(own)), len(own)

    def _check(self, call):
        """All leave at one place, or none: rank 0 alone knows whether somebody waits."""
        reason = None
        try:
            call.check()
        except Cancelled as error:
            reason = error
        if self.ranks.number(0 if reason is None else 1) == 1:
            raise reason or Cancelled("cancelled")

    def _give(self, gradient):
        own = torch.zeros(sum(self.pieces.counts_of(self.ranks.rank)))
        for values, (_, parameter) in zip(self._views(own), self.parameters):
            if parameter.grad is not None:
                values.copy_(local_of(parameter.grad).reshape(-1))
        self._gathered(own, None if gradient is None else self.pages.floats(gradient))

    def _totals(self, figures):
        found = self.ranks.gather(torch.tensor(list(figures.values()), dtype=torch.float64))
        if found is None:
            return figures
        columns = torch.stack(found)
        totals = {name: float(columns[:, at].max() if name.endswith("Max") else columns[:, at].sum()) for at, name in enumerate(figures)}
        return {name: int(total) if isinstance(figures[name], int) else total for name, total in totals.items()}

    def _sums(self, gradient):
        whole = None if gradient is None else self.pages.floats(gradient)
        norm = self.ranks.number(0.0 if whole is None else norm_of(whole))
        return self._scattered(whole), norm

    def _load(self, flat):
        if self.loaded is flat:
            return
        with torch.no_grad():
            for module in [*_blocks_of(self.model), self.model]:
                module.reshard()  # after a pass without a gradient the last weights may still lie there, gathered
            for values, (_, parameter) in zip(self._views(flat), self.parameters):
                local_of(parameter).view(-1).copy_(values)
        self.loaded = flat

    def _views(self, own):
        """The piece of each parameter."""
        return own.split(self.pieces.counts_of(self.ranks.rank))

    def _scattered(self, whole):
        pieces = None if whole is None else [self.pieces.of(whole, rank) for rank in range(self.ranks.size)]
        return self.ranks.scatter(pieces, sum(self.pieces.counts_of(self.ranks.rank))).to(self.place, copy=True)

    def _gathered(self, own, whole):
        found = self.ranks.gather(own.cpu())
        if found is not None:
            for rank, piece in enumerate(found):
                self.pieces.into(whole, rank, piece)


class Pieces:
    """Where the piece of each rank lies in all weights, parameter by parameter: FSDP gives each rows of dimension 0, as torch.chunk cuts them."""

    def __init__(self, shapes, size):
        self._ranges = [[] for _ in range(size)]
        at = 0
        for shape in shapes:
            rows, width = shape[0], shape[1:].numel()
            chunk = -(-rows // size)
            for rank, ranges in enumerate(self._ranges):
                start = min(rank * chunk, rows)
                ranges.append((at + start * width, at + min(start + chunk, rows) * width))
            at += rows * width

    def counts_of(self, rank):
        return [end - start for start, end in self._ranges[rank]]

    def of(self, whole, rank):
        return torch.cat([whole[start:end] for start, end in self._ranges[rank]])

    def into(self, whole, rank, piece):
        at = 0
        for start, end in self._ranges[rank]:
            whole[start:end].copy_(piece[at:at + end - start])
            at += end - start


def local_of(tensor):
    """This process's piece of a tensor that is cut."""
    return tensor.to_local()


def _blocks_of(module):
    """The layers of a model: members of its outermost lists."""
    for child in module.children():
        if isinstance(child, torch.nn.ModuleList):
            yield from child
        else:
            yield from _blocks_of(child)
