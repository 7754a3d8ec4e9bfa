"""The losses that a job names, over padded rows of responses. Pure functions of tensors, which autograd differentiates; any float type.

Formulas and their papers: docs/concepts/algorithms.md. Where a tensor is [rows, tokens], position i is about token i + 1 of its row, and `mask` is 1 where
a token takes part. Values outside of the mask mean nothing, and must be finite.
"""

from dataclasses import dataclass

import torch

from .calls import Invalid

# What a trainer with these functions and a reference policy says in `losses` of its hello.
NAMES = ["gspo", "cispo", "rloo", "sft", "sample-weights", "token-advantages", "reference", "entropy", "stale"]


@dataclass(frozen=True)
class Rows:
    """What is known of responses, each [rows, tokens]; `before` and `reference` are None where the loss does not look at them."""

    logprobs: torch.Tensor
    """Under the weights that are trained."""
    sampled: torch.Tensor
    """When the tokens were drawn."""
    before: torch.Tensor | None
    """Under the weights that the step began with."""
    reference: torch.Tensor | None
    """Under the reference policy."""
    entropy: torch.Tensor
    """Of the distribution that each token was drawn from."""
    advantages: torch.Tensor
    mask: torch.Tensor


def values_of(rows: Rows, loss, clip_low: float, clip_high: float):
    """The loss of each token, without weights and normalizer, and whether its ratio was held at a bound. 0 and False outside of the mask.

    `loss` is a Loss of engines. Raises Invalid for an algorithm or an estimator that is not known.
    """
    if loss.algorithm not in OBJECTIVES:
        raise Invalid(f"the loss {loss.algorithm!r} is not known, and {', '.join(sorted(OBJECTIVES))} are")
    old = rows.sampled if rows.before is None else rows.before
    objective, clipped = OBJECTIVES[loss.algorithm](rows, old, (1 - clip_low, 1 + clip_high))
    values = -_stale_weights(rows, loss) * objective
    if loss.kl_coefficient > 0:
        values = values + loss.kl_coefficient * divergence(loss.kl_estimator, (rows.logprobs - rows.reference) * rows.mask)
    if loss.entropy_coefficient > 0:
        values = values - loss.entropy_coefficient * rows.entropy
    return values * rows.mask, clipped & (rows.mask > 0)


def no_figures(loss) -> dict:
    """What add_figures() adds to; `referenceKlSum` only of a loss with a divergence."""
    names = ("tokens", "clipped", "klSum", "entropySum", "lossSum", "logprobGapSum", "logprobGapMax")
    return dict.fromkeys(names + (("referenceKlSum",) if loss.kl_coefficient > 0 else ()), 0)


@torch.no_grad()
def add_figures(figures: dict, rows: Rows, values, clipped):
    """Adds the figures of rows whose `values` and `clipped` are those of values_of(). They are finite whatever comes: that a gradient is not is found by
    `stage`, and then the step is skipped."""
    change = ((rows.logprobs - rows.sampled) * rows.mask).double()
    gaps = _bounded(change.abs())
    figures["tokens"] += int(rows.mask.sum())
    figures["clipped"] += int(clipped.sum())
    figures["klSum"] += float(_bounded(change.exp() - 1 - change).sum())
    figures["entropySum"] += float(_bounded((rows.entropy * rows.mask).double()).sum())
    figures["lossSum"] += float(_bounded(values.double()).sum())
    figures["logprobGapSum"] += float(gaps.sum())
    figures["logprobGapMax"] = max(figures["logprobGapMax"], float(gaps.max()))
    if "referenceKlSum" in figures:
        apart = ((rows.logprobs - rows.reference) * rows.mask).double()
        figures["referenceKlSum"] += float(_bounded(divergence("k3", apart)).sum())


def _bounded(amounts):
    """What is no number, or beyond what a figure may be, is as large as one may be."""
    return torch.nan_to_num(amounts, nan=1e15).clamp(min=-1e15, max=1e15)


def divergence(estimator: str, apart):
    """KL to the reference policy by the drawn token, of apart = log p - log p_ref: k1, k2 or k3."""
    if estimator == "k1":
        return apart
    if estimator == "k2":
        return apart * apart / 2
    if estimator == "k3":
        return (-apart).exp() - 1 + apart
    raise Invalid(f"the estimator {estimator!r} is not known, and k1, k2, k3 are")


def _held(change, advantages, bounds):
    """min(r A, clip(r) A) for r = e^change. A ratio that is held, or of a token that teaches nothing, has no gradient, however large it is."""
    with torch.no_grad():
        ratio = change.exp()
        bounded = ratio.clamp(*bounds)
        clipped = ((advantages > 0) & (ratio > bounds[1])) | ((advantages < 0) & (ratio < bounds[0]))
    free = change.masked_fill(clipped | (advantages == 0), 0.0).exp() * advantages
    return torch.where(clipped, bounded * advantages, free), clipped


def _surrogate(rows, old, bounds):
    return _held((rows.logprobs - old) * rows.mask, rows.advantages, bounds)


def _sequence_change(rows, apart):
    """The mean of a change over the tokens of each response that take part: the logarithm of the geometric mean of their ratios, [rows, 1]."""
    return (apart * rows.mask).sum(-1, keepdim=True) / rows.mask.sum(-1, keepdim=True).clamp(min=1)


def _gspo(rows, old, bounds):
    change = _sequence_change(rows, rows.logprobs - old)
    return _held(change.expand_as(rows.logprobs), rows.advantages, bounds)


def _cispo(rows, old, bounds):
    with torch.no_grad():
        ratio = ((rows.logprobs - old) * rows.mask).exp()
        held = ratio.clamp(*bounds)
    return held * rows.advantages * rows.logprobs, ratio != held


def _weighed(rows, _old, _bounds):
    """A log p: REINFORCE of RLOO, and cross-entropy of supervised fine-tuning, where A is 1."""
    return rows.advantages * rows.logprobs, torch.zeros_like(rows.mask, dtype=torch.bool)


OBJECTIVES = {
    **{name: _surrogate for name in ("grpo", "dr_grpo", "dapo", "reinforce++")},
    "gspo": _gspo, "cispo": _cispo, "rloo": _weighed, "sft": _weighed,
}


def _stale_weights(rows, loss):
    """What the weights at the beginning of the step are to those that drew a token, up to a cap: of each token, or of gspo of each response."""
    if loss.stale_correction == "off" or rows.before is None:
        return 1.0
    with torch.no_grad():
        apart = rows.before - rows.sampled
        change = _sequence_change(rows, apart) if loss.algorithm == "gspo" else apart * rows.mask
        ratio = change.exp()
        if loss.stale_correction == "truncate":
            return ratio.clamp(max=loss.stale_cap)
        if loss.stale_correction == "mask":
            return ratio.masked_fill((ratio > loss.stale_cap) | (ratio < 1 / loss.stale_cap), 0.0)
    raise Invalid(f"the stale correction {loss.stale_correction!r} is not known, and off, truncate, mask are")
