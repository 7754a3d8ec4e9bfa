"""Samples as padded rows of tensors, and what a model says of their tokens. Position i of a row is about token i + 1."""

import torch


def parts_of(samples, rows):
    """Samples, at most `rows` to a pass. Equal lengths side by side waste little padding; the sort is stable, so the samples alone fix the order."""
    ordered = sorted(samples, key=lambda sample: len(sample.tokens))
    return [ordered[start:start + rows] for start in range(0, len(ordered), rows)]


def span_of(sample) -> slice:
    """Where the response of a row is."""
    return slice(sample.prompt_length - 1, len(sample.tokens) - 1)


def tokens_of(samples, device):
    """[rows, length], padded with 0 to the longest."""
    tokens = torch.zeros(len(samples), max(len(sample.tokens) for sample in samples), dtype=torch.long)
    for row, sample in enumerate(samples):
        tokens[row, :len(sample.tokens)] = torch.tensor(sample.tokens.tolist())
    return tokens.to(device)


def columns_of(samples, device):
    """What is known of the responses, each [rows, length - 1] and 0 outside of them; `weights` is [rows, 1]."""
    length = max(len(sample.tokens) for sample in samples)
    columns = {name: torch.zeros(len(samples), length - 1) for name in ("sampled", "advantages", "mask")}
    for row, sample in enumerate(samples):
        span = span_of(sample)
        columns["sampled"][row, span] = torch.tensor(sample.logprobs.tolist())
        columns["mask"][row, span] = torch.tensor(sample.mask.tolist(), dtype=torch.float32)
        of_tokens = sample.advantages
        columns["advantages"][row, span] = sample.advantage if of_tokens is None else torch.tensor(of_tokens.tolist())
    columns["weights"] = torch.tensor([[sample.weight] for sample in samples], dtype=torch.float32)
    return {name: column.to(device) for name, column in columns.items()}


def predicted(model, tokens, temperature):
    """Log-probability of each token given those before it, [rows, length - 1], and of all tokens there, [rows, length - 1, vocab]; of logits / temperature."""
    logits = model(tokens)
    logits = getattr(logits, "logits", logits)[:, :-1].float() / temperature
    logs = torch.log_softmax(logits, dim=-1)
    return logs.gather(-1, tokens[:, 1:, None]).squeeze(-1), logs


def entropy_of(logs):
    """Of each distribution, [rows, length - 1]."""
    return -(logs.exp() * logs).sum(-1)
