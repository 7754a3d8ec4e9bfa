"""What a worker is asked to do, as methods to write. A sampler needs the second half, a trainer the third."""

import math
from dataclasses import dataclass


@dataclass
class Request:
    """One prompt. Response i belongs to the random stream (seed, first + i), whatever is drawn beside it."""

    id: str
    prompt: memoryview
    n: int
    first: int
    seed: int
    temperature: float
    max_new_tokens: int
    stop_token_ids: list
    top_p: float | None = None
    top_k: int | None = None


@dataclass
class Response:
    """Tokens, the log-probability of each, and how it ended: stop, length or abort."""

    tokens: list
    logprobs: list
    finish: str


@dataclass
class Sample:
    """One response to learn from. `tokens` is prompt and response; `logprobs` and `mask` belong to the response alone."""

    tokens: memoryview
    prompt_length: int
    logprobs: memoryview
    mask: memoryview
    advantage: float
    advantages: memoryview | None = None
    """Of each response token, for a worker with the loss `token-advantages`; None where all have `advantage`."""
    weight: float = 1.0
    """Of each of its tokens in the loss, for a worker with the loss `sample-weights`."""


@dataclass(frozen=True)
class Loss:
    """What a job's loss is beside the clip: of a worker that names none in `losses`, always the clipped surrogate."""

    algorithm: str = "grpo"
    kl_coefficient: float = 0.0
    kl_estimator: str = "k3"
    entropy_coefficient: float = 0.0
    stale_correction: str = "off"
    stale_cap: float = 1.0


@dataclass
class Batch:
    """A micro-shard, and how its loss is computed: divided by `normalizer`, ratios bounded by 1 - clip_low and 1 + clip_high."""

    samples: list
    normalizer: float
    clip_low: float
    clip_high: float
    temperature: float
    loss: Loss = Loss()


class Figures:
    """Adds up the clipped surrogate of a batch, token by token."""

    def __init__(self, batch: Batch):
        self._batch = batch
        self._sums = {"tokens": 0, "clipped": 0, "klSum": 0.0, "entropySum": 0.0, "lossSum": 0.0, "logprobGapSum": 0.0, "logprobGapMax": 0.0}

    def add(self, logprob: float, old_logprob: float, advantage: float, entropy: float = 0.0) -> float:
        """Takes one response token. Returns the derivative of the loss by its log-prob, 0 where the ratio is clipped."""
        change = logprob - old_logprob
        ratio = math.exp(min(change, 80.0))
        bounded = min(max(ratio, 1 - self._batch.clip_low), 1 + self._batch.clip_high)
        is_clipped = ratio * advantage > bounded * advantage
        for name, value in (
            ("tokens", 1), ("clipped", int(is_clipped)), ("klSum", ratio - 1 - change), ("entropySum", entropy),
            ("lossSum", -advantage * (bounded if is_clipped else ratio)), ("logprobGapSum", abs(change)),
        ):
            self._sums[name] += value
        self._sums["logprobGapMax"] = max(self._sums["logprobGapMax"], abs(change))
        return 0.0 if is_clipped else -advantage * ratio / self._batch.normalizer

    def result(self) -> dict:
        """What accumulate() returns."""
        return self._sums


class Worker:
    """Derive from it, and hand an instance to serve(). Methods run on one thread, one after the other."""

    def describe(self, facts: dict) -> dict:
        """What it is. `facts` has role, vocab, maxContext and tokenizer of the job. Returns the fields of a hello without type and
        protocol: roles, build, modelId, vocab, maxContext, tensors, optimizerBytes, deterministic, logprobs, modelConfig,
        gradientElements where less is trained than the tensors have, losses where it knows more than the clipped surrogate, and fingerprint.
        Raises Invalid when it can not be what is asked."""
        raise NotImplementedError

    # A sampler.

    def update_weights(self, version: int, weights: memoryview) -> None:
        """Takes weights; they are in the order of the tensor table. Copy them: the memory is written to again."""
        raise NotImplementedError

    def generate(self, requests: list, call) -> list:
        """Draws. Returns one list of n responses per request. Asks `call.check()` and `call.is_aborted(id)` now and then."""
        raise NotImplementedError

    # A trainer: a live state, and beside it a candidate that may be forgotten.

    def initialize(self, source: dict) -> None:
        """Sets the live state from {"kind": "seed", "seed": n} or {"kind": "folder", "path": p}, the optimizer at zero; drops the candidate."""
        raise NotImplementedError

    def restore(self, weights: memoryview, optimizer: memoryview) -> None:
        """Sets the live state from bytes that write() gave once, here or elsewhere; drops the candidate. Copy them."""
        raise NotImplementedError

    def write(self, which: str, weights: memoryview, optimizer: memoryview) -> None:
        """Writes the whole state named: live or candidate."""
        raise NotImplementedError

    def begin(self) -> None:
        """Candidate := copy of the live state."""
        raise NotImplementedError

    def accumulate(self, batch: Batch, gradient: memoryview, call) -> dict:
        """Writes the gradient at the candidate into `gradient`, float32, over whatever is there. Returns tokens, clipped, klSum, entropySum, lossSum,
        and where it counts them logprobGapSum, logprobGapMax, referenceKlSum."""
        raise NotImplementedError

    def open_reference(self, source: dict) -> None:
        """Loads the reference policy, which no step changes, from what initialize() takes. For workers with the loss `reference`."""
        raise NotImplementedError

    def logprobs_batch(self, sequences: list, temperature: float, call) -> list:
        """For each sequence, the log-probability of each response token under the reference policy. For workers with the loss `reference`."""
        raise NotImplementedError

    def stage(self, gradient: memoryview, options: dict) -> float | None:
        """Applies one update of AdamW to the candidate: lr, beta1, beta2, epsilon, weightDecay, clipNorm. Returns the norm of the gradient, and
        None for one that is not finite, which leaves the candidate as it was."""
        raise NotImplementedError

    def promote(self) -> None:
        """The candidate becomes the live state. Must not fail."""
        raise NotImplementedError

    def discard(self) -> None:
        """Forgets the candidate. Must not fail."""
        raise NotImplementedError


def floats(view: memoryview) -> memoryview:
    """Bytes as float32, without a copy."""
    return view.cast("B").cast("f")


_SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "bool": 1}


def table_of(tensors) -> list:
    """The tensor table of [(name, dtype, shape)], placed one behind the other."""
    table, end = [], 0
    for name, dtype, shape in tensors:
        table.append({"name": name, "dtype": dtype, "shape": list(shape), "offsetBytes": end})
        size = _SIZES[dtype]
        for count in shape:
            size *= count
        end += size
    return table
