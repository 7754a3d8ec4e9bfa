"""A reference policy without a library: how likely each token is given the one before it. It leans to saying the same token again."""
from math import exp, log

from muster_worker import ReferenceWorker, serve

LEANING = 2.0  # logit of the token before; all others have 0


class Again(ReferenceWorker):
    def describe(self, facts):
        self.vocab = facts["vocab"]
        return super().describe(facts)

    def logprobs(self, sequence, temperature):
        again = LEANING / temperature
        whole = log(exp(again) + self.vocab - 1)
        tokens = sequence.tokens
        return [(again if tokens[i] == tokens[i - 1] else 0.0) - whole for i in range(sequence.prompt_length, len(tokens))]


serve(Again())
