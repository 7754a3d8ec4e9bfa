"""What a trainer changes: all weights of its model, or low-rank adapters beside some of its matrices (LoRA, Hu et al. 2021, arXiv:2106.09685)."""

import math

import torch

from .service import Invalid


class AllWeights:
    """Every weight is trained."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.count = sum(parameter.numel() for _, parameter in parameters)
        self.kept_bytes = 0

    def begin(self, weights, random):
        """What is trained, flat float32, where a job begins with these weights; with random ones for None."""
        if weights is not None:
            return weights
        drawn = []
        for name, parameter in self.parameters:
            is_norm = parameter.dim() == 1 and name.endswith("norm.weight")
            values = torch.full(parameter.shape, 1.0 if is_norm else 0.0)
            drawn.append((values.normal_(0, 0.02, generator=random) if values.dim() > 1 else values).reshape(-1))
        return torch.cat(drawn)

    def take(self, weights, kept):
        """What is trained, from what `weights` and `keep` gave once. It may keep both."""
        return weights

    def keep(self, flat, kept):
        """Writes what the weights alone do not say."""

    def weights(self, flat):
        """The weights of the whole model, flat float32 in the order of the tensor table."""
        return flat

    def gradient(self, flat, out):
        """Writes the gradient of what is trained, from the gradients of the parameters."""
        at = 0
        for _, parameter in self.parameters:
            end = at + parameter.numel()
            if parameter.grad is None:
                out[at:end].zero_()
            else:
                out[at:end].copy_(parameter.grad.reshape(-1))
            at = end


class Adapters:
    """
    Of a matrix W [out, in] only B [out, rank] and A [rank, in] are trained: the model computes with W + alpha / rank * B A, which is what samplers get.
    So the gradient of the sum is known, and those of B and A follow from it. B is zero at first.
    """

    def __init__(self, parameters, base, rank, alpha, targets):
        self.base, self.scale, self.matrices = base, alpha / rank, []
        at, self.count = 0, 0
        for name, parameter in parameters:
            module = name.removesuffix(".weight").rsplit(".", 1)[-1]
            is_adapted = module in targets and parameter.dim() == 2
            parameter.requires_grad_(is_adapted)
            if is_adapted:
                rows, columns = parameter.shape
                if rank > min(rows, columns):
                    raise Invalid(f"--lora-rank {rank} is more than {name} [{rows}, {columns}] has; use at most {min(rows, columns)}")
                self.matrices.append((parameter, at, self.count, rows, columns))
                self.count += rank * (rows + columns)
            at += parameter.numel()
        missing = targets - {name.removesuffix(".weight").rsplit(".", 1)[-1] for name, each in parameters if each.dim() == 2}
        if missing:
            raise Invalid(f"--lora-targets names {sorted(missing)[0]!r}, and the model has no such matrix")
        self.rank, self.kept_bytes = rank, 4 * self.count

    def begin(self, weights, random):
        if weights is not None and not torch.equal(weights, self.base):
            raise Invalid("adapters begin with the weights of --model: set weights.source to that folder")
        flat = torch.zeros(self.count)
        for _, _, at, _, columns in self.matrices:
            bound = math.sqrt(1 / columns)
            flat[at:at + self.rank * columns].uniform_(-bound, bound, generator=random)
        return flat

    def take(self, weights, kept):
        if not torch.allclose(self.weights(kept), weights, rtol=1e-4, atol=1e-6):  # another processor rounds otherwise
            raise Invalid("the weights are not those of --model with these adapters: it is another model")
        return kept

    def keep(self, flat, kept):
        kept.copy_(flat)

    def weights(self, flat):
        whole = self.base.clone()
        for (_, at, _, rows, columns), (a, b) in zip(self.matrices, self._pairs(flat)):
            whole[at:at + rows * columns].view(rows, columns).add_(b @ a, alpha=self.scale)
        return whole

    def gradient(self, flat, out):
        for (parameter, *_), (a, b), (out_a, out_b) in zip(self.matrices, self._pairs(flat), self._pairs(out)):
            if parameter.grad is None:
                out_a.zero_()
                out_b.zero_()
                continue
            grown = parameter.grad.float().to(flat.device) * self.scale
            out_a.copy_(b.T @ grown)
            out_b.copy_(grown @ a.T)

    def _pairs(self, flat):
        """Views of A and B of every matrix."""
        for _, _, at, rows, columns in self.matrices:
            middle = at + self.rank * columns
            yield flat[at:middle].view(self.rank, columns), flat[middle:middle + rows * self.rank].view(rows, self.rank)
