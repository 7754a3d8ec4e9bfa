"""Reads cases on standard input as JSON, and says what muster_worker.losses makes of each, in double precision: values, derivatives, what is clipped."""

import json
import sys

import torch
from muster_worker.engines import Loss
from muster_worker.losses import Rows, values_of


def outcome(case):
    column = lambda name: torch.tensor(case[name], dtype=torch.float64)  # noqa: E731
    logprobs, entropy = column("logprobs").requires_grad_(), column("entropy").requires_grad_()
    rows = Rows(logprobs=logprobs, entropy=entropy, **{name: column(name) for name in ("sampled", "before", "reference", "advantages", "mask")})
    values, clipped = values_of(rows, Loss(**case["loss"]), case["clipLow"], case["clipHigh"])
    (values * column("weights")).sum().backward()
    slopes = [torch.zeros_like(values) if each.grad is None else each.grad for each in (logprobs, entropy)]
    return {"values": values.tolist(), "clipped": clipped.tolist(), "byLogprob": slopes[0].tolist(), "byEntropy": slopes[1].tolist()}


print(json.dumps([outcome(case) for case in json.load(sys.stdin)]))
