"""Workers that score what others drew, as methods to write."""

import hashlib
import platform
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
        """The reward of one response: a number from -1e9 to 1e9. What is raised costs this trajectory and no other."""
        raise NotImplementedError

    def score_batch(self, trajectories: list, call) -> list:
        """One number, or an exception, for each trajectory. Write it where several are judged faster together; asks `call.check()` now and then."""
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


def score_message(score) -> dict:
    """A score as the protocol has it."""
    if isinstance(score, BaseException):
        return {"error": f"{type(score).__name__}: {score}"[:2000]}
    try:
        number = float(score)
    except (TypeError, ValueError):
        return {"error": f"the reward is {score!r}, and must be a number"[:2000]}
    return {"reward": number} if abs(number) <= 1e9 else {"error": f"the reward {number} is not between -1e9 and 1e9"}
