"""Workers that score what others drew, as methods to write."""

import hashlib
import json
import platform
import re
import sys
import traceback
from dataclasses import dataclass

from .calls import Cancelled


@dataclass
class Trajectory:
    """One response and its prompt. `row` is the row that the prompt comes from, with all its columns; empty where there is none."""

    prompt: str
    answer: str
    row: dict
    response: str
    finish: str
    tokens: memoryview
    prompt_length: int


@dataclass
class Sequence:
    """Prompt and response of which the response is looked at."""

    tokens: memoryview
    prompt_length: int


@dataclass
class Score:
    """A reward with what it is made of, at most 16 numbers by name, and what is to be kept with the trajectory: an object of at most 2,048 bytes as JSON."""

    reward: float
    components: dict | None = None
    metadata: dict | None = None


class _Scorer:
    role = ""

    deterministic = True
    """Equal input gets equal answers."""

    def build(self) -> str:
        """Which program answers, exactly: equal builds give equal answers. By default the digest of the program's file and the version of Python;
        a program that reads a model or imports what decides on its answers covers that, too."""
        with open(sys.argv[0], "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()[:16]
        return f"{digest}-python-{platform.python_version()}"

    def describe(self, facts: dict) -> dict:
        """What it is. `facts` has role, vocab, maxContext and tokenizer of the job. Raises Invalid when it can not be what is asked."""
        return {"roles": [self.role], "build": self.build(), "deterministic": self.deterministic}


class ReferenceWorker(_Scorer):
    """Derive from it, write logprobs() or logprobs_batch(), and hand an instance to serve(). Methods run on one thread, one after the other."""

    role = "reference"

    def logprobs(self, sequence: Sequence, temperature: float) -> list:
        """Of each response token, given all before it, under weights that never change: of logits / temperature."""
        raise NotImplementedError

    def logprobs_batch(self, sequences: list, temperature: float, call) -> list:
        """As logprobs(), for several. Write it where they are computed faster together; asks `call.check()` now and then."""
        rows = []
        for sequence in sequences:
            call.check()
            rows.append(self.logprobs(sequence, temperature))
        return rows


class RewardWorker(_Scorer):
    """Derive from it, write score() or score_batch(), and hand an instance to serve(). Methods run on one thread, one after the other."""

    role = "reward"

    def score(self, trajectory: Trajectory):
        """The reward of one response: a number from -1e9 to 1e9, or a Score. What is raised costs this trajectory and no other."""
        raise NotImplementedError

    def score_batch(self, trajectories: list, call) -> list:
        """One number, Score or exception for each trajectory. Write it where several are judged faster together; asks `call.check()` now and then."""
        scores = []
        for trajectory in trajectories:
            call.check()
            try:
                scores.append(self.score(trajectory))
            except Cancelled:
                raise
            except Exception as error:
                traceback.print_exc()
                scores.append(error)
        return scores


LARGEST = 1e9
COMPONENTS = 16
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,47}")
METADATA_BYTES = 2_048


def score_message(score) -> dict:
    """A score as the protocol has it; what it can not say is the error of its trajectory, so that nothing else of the request is lost."""
    if isinstance(score, BaseException):
        return {"error": f"{type(score).__name__}: {score}"[:2000]}
    try:
        if not isinstance(score, Score):
            return {"reward": _number("the reward", score)}
        message = {"reward": _number("the reward", score.reward)}
        if score.components:
            message["components"] = _components(score.components)
        if score.metadata is not None:
            message["metadata"] = _metadata(score.metadata)
        return message
    except ValueError as error:
        return {"error": str(error)[:2000]}


def _number(what: str, value) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{what} is {repr(value)[:200]}, and must be a number") from None
    if not abs(number) <= LARGEST:
        raise ValueError(f"{what} is {number}, and must be finite and between -1e9 and 1e9")
    return number


def _components(components) -> dict:
    if not isinstance(components, dict) or len(components) > COMPONENTS:
        found = f"{len(components)} of them" if isinstance(components, dict) else repr(components)[:200]
        raise ValueError(f"components is {found}, and must be a dict of at most {COMPONENTS} numbers by name")
    for name in components:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"components has the name {repr(name)[:200]}, and must have names of at most 48 letters, digits and _./-, the first no sign")
    return {name: _number(f"components.{name}", value) for name, value in components.items()}


def _metadata(metadata) -> dict:
    rule = f"must be a dict of at most {METADATA_BYTES} bytes as JSON"
    if not isinstance(metadata, dict):
        raise ValueError(f"metadata is {repr(metadata)[:200]}, and {rule}")
    try:
        size = len(json.dumps(metadata, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata is no JSON ({error}), and {rule}"[:2000]) from None
    if size > METADATA_BYTES:
        raise ValueError(f"metadata is {size} bytes, and {rule}")
    return metadata
