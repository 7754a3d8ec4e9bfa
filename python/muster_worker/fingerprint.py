"""A short computation whose last bits say how a machine computes: its processor or device, its libraries, its number format."""

import hashlib

import torch

_ROWS, _INNER, _COLUMNS = 96, 160, 224  # no powers of two, so that kernels meet their edges


def numeric_fingerprint(device: str, dtype) -> str:
    """The digest of a forward pass, a backward pass and an update, from numbers that integers alone make: 16 hexadecimal digits.

    Digests that differ prove that two machines do not compute equal bits. Equal ones prove nothing of a whole model.
    """
    data, weights, scale = (
        _numbers(seed, shape).to(device=device, dtype=dtype).requires_grad_()
        for seed, shape in ((3, (_ROWS, _INNER)), (5, (_INNER, _COLUMNS)), (7, (_INNER,)))
    )
    normed = data * torch.rsqrt(data.float().square().mean(-1, keepdim=True) + 1e-5).to(dtype) * scale
    scores = torch.softmax((normed @ normed.T).float() / _INNER**0.5, dim=-1).to(dtype)
    logits = torch.nn.functional.silu(scores @ normed) @ weights
    logs = torch.log_softmax(logits.float(), dim=-1)
    ((logs.exp() * logs).sum() - logs[:, ::3].exp().sum()).backward()
    digest = hashlib.sha256(_bytes_of(logs.detach()))
    for each in (data, weights, scale):
        gradient = each.grad.float()
        digest.update(_bytes_of(gradient))
        digest.update(_bytes_of(gradient / (gradient.square().sqrt() + 1e-8)))
    return digest.hexdigest()[:16]


def _numbers(seed, shape):
    """Between -0.5 and 0.5."""
    count = 1
    for size in shape:
        count *= size
    return (((torch.arange(count) * 48271 + seed * 65537) % 65521).double() / 65521 - 0.5).float().reshape(shape)


def _bytes_of(values):
    found = bytearray(4 * values.numel())
    torch.frombuffer(found, dtype=torch.float32).copy_(values.reshape(-1))
    return found
