"""A trainer and sampler without a library. Its model has a weight per token: how much it likes to repeat that token."""
from array import array
from math import exp, log, sqrt
from random import Random

from muster_worker import Figures, Invalid, Response, Worker, floats, serve, table_of

class Echo(Worker):
    def describe(self, facts):
        self.vocab, self.context = facts["vocab"], facts["maxContext"]
        return {"roles": ["policy", "rollout"], "build": "python-echo-1", "modelId": f"echo-v{self.vocab}",
                "vocab": self.vocab, "maxContext": self.context, "tensors": table_of([("echo.weight", "f32", [self.vocab])]),
                "optimizerBytes": 4 * self.vocab, "deterministic": True, "modelConfig": {"model_type": "echo"}}
    def update_weights(self, version, weights): self.weights = array("f", floats(weights))
    def chance(self, weights, said, temperature):  # that a token is said again; None: nothing was said
        return 0.0 if said is None else 1 / (1 + exp(-weights[said] / max(temperature, 1e-3)))
    def generate(self, requests, call):
        return [[self.respond(r, Random(f"{r.seed}/{r.first + i}")) for i in range(r.n)] for r in requests]
    def respond(self, r, draw):
        tokens, logprobs, stop = [], [], (r.stop_token_ids or [0])[0]
        for i in range(min(r.max_new_tokens, self.context - len(r.prompt))):
            said = r.prompt[i] if i < len(r.prompt) else None
            p = self.chance(self.weights, said, r.temperature)
            echoes = draw.random() < p if r.temperature else p >= 0.5
            tokens.append(said if echoes else stop)
            logprobs.append(log(p if echoes else 1 - p))
            if tokens[-1] in r.stop_token_ids:
                return Response(tokens, logprobs, "stop")
        return Response(tokens, logprobs, "length")
    def initialize(self, source):
        if source["kind"] != "seed":
            raise Invalid('echo begins from a seed; set weights.source = "seed"')
        self.live = array("f", [2.0] * self.vocab), array("f", [0.0] * self.vocab)
    def restore(self, weights, optimizer): self.live = array("f", floats(weights)), array("f", floats(optimizer))
    def write(self, which, weights, optimizer): floats(weights)[:], floats(optimizer)[:] = getattr(self, which)
    def begin(self): self.candidate = tuple(part[:] for part in self.live)
    def accumulate(self, batch, gradient, call):
        figures, sums = Figures(batch), [0.0] * self.vocab
        for s in batch.samples:
            call.check()
            for i in (i for i, counts in enumerate(s.mask) if counts):
                said = s.tokens[i] if i < s.prompt_length else None
                p, echoes = self.chance(self.candidate[0], said, batch.temperature), s.tokens[s.prompt_length + i] == said
                slope = figures.add(log(p if echoes else 1 - p), s.logprobs[i], s.advantage)
                if said is not None:
                    sums[said] += slope * ((1 - p) if echoes else -p) / batch.temperature
        gradient[:] = array("f", sums)
        return figures.result()
    def stage(self, gradient, options):
        norm, (weights, moments) = sqrt(sum(g * g for g in gradient)), self.candidate
        for i in range(self.vocab if norm < float("inf") else 0):
            moments[i] = options["beta1"] * moments[i] + gradient[i] * min(1.0, (options["clipNorm"] or norm) / (norm or 1.0))
            weights[i] -= options["lr"] * moments[i]
        return norm
    def promote(self): self.live = self.candidate
    def discard(self): self.candidate = None

serve(Echo())
