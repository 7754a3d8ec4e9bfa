"""The loop of a worker: what it says of itself, and the calls that it answers, one after the other."""

import json
import math
import os
import sys
import time
import traceback
from dataclasses import fields

from .calls import Call, Cancelled, Invalid
from .engines import Batch, Loss, Request, Sample
from .frames import Frames
from .hearing import Hearing
from .regions import FORMATS, Regions, array_in
from .scorers import Sequence, Trajectory, score_message

PROTOCOL = 1

# What all processes of a trainer of several do together.
_TOGETHER = ("initialize", "restore", "begin", "accumulate", "openReference", "stage", "promote", "discard")
PAGE_ROWS = 2_000


def greeting(described: dict):
    """The hello of a worker; a large tensor table follows it in pages, because no frame grows with it."""
    rows = described.get("tensors", [])
    if len(rows) <= PAGE_ROWS:
        yield {"type": "hello", "protocol": PROTOCOL, **described}
        return
    rest = {key: value for key, value in described.items() if key != "tensors"}
    yield {"type": "hello", "protocol": PROTOCOL, **rest, "tensorRows": len(rows)}
    for at in range(0, len(rows), PAGE_ROWS):
        yield {"type": "tensors", "rows": rows[at:at + PAGE_ROWS]}


class _Service:
    def __init__(self, worker, frames: Frames):
        self.worker = worker
        self.frames = frames
        self.calls = {}
        self.aborted = set()
        self.regions = None
        self.version = None
        # Of a trainer of several processes: how they speak to each other.
        self.ranks = getattr(worker, "ranks", None)
        self.is_broken = False

    def run(self) -> None:
        hello = self.frames.read()
        if hello is None:
            return
        try:
            if PROTOCOL not in hello.get("protocols", []):
                raise Invalid(f"protocols {hello.get('protocols')} are offered, and this worker speaks {PROTOCOL}")
            described = self.worker.describe({key: hello.get(key) for key in ("role", "vocab", "maxContext", "tokenizer")})
        except Invalid as error:
            self.frames.write({"type": "refusal", "message": str(error)[:2000]})
            return
        for message in greeting(described):
            self.frames.write(message)
        hearing = Hearing(self.frames, self._take)
        if self.ranks and self.ranks.rank > 0:
            hearing.leave()
            self._follow()
        while True:
            message = hearing.next()
            if message is None:
                if self.ranks and self.ranks.rank == 0:
                    self.ranks.say("bye", {}, b"")
                return
            hearing.leave()
            self._send(self._answer(message))
            if self.is_broken:
                os._exit(1)

    def _follow(self) -> None:
        """Does what rank 0 does, with this process's share. What fails in one process leaves the others in the middle of it: it ends, and with it all."""
        try:
            self.worker.meet()
            while True:
                method, params, inputs = self.ranks.hear()
                if method == "bye":
                    return
                self.regions = _Inputs(inputs)
                try:
                    getattr(self, f"_do_{method}")(params, Call(math.inf, set()))
                except Cancelled:
                    pass  # all of them left it at the same place
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    def _share(self, method: str, params: dict) -> None:
        places = params.get("arrays", {}).values()
        end = max((place["offsetBytes"] + place["length"] * FORMATS[place["dtype"]][1] for place in places), default=0)
        self.ranks.say(method, params, self.regions["inputs"][:end])

    def _send(self, answer: dict) -> None:
        try:
            self.frames.write(answer)
        except ValueError as error:  # a figure that is not finite, or more than a frame holds
            text = f"its answer can not be sent: {error}"
            self.frames.write({"type": "failure", "id": answer["id"], "kind": "failed", "message": text})

    def _take(self, message: dict) -> bool:
        """Deals with what is no work at once. True for a request, which is."""
        kind = message["type"]
        if kind == "ping":
            self.frames.write({"type": "pong", "id": message["id"]})
        elif kind == "request":
            deadline = time.monotonic() + message["deadlineMs"] / 1000
            self.calls[message["id"]] = Call(deadline, self.aborted)
        elif kind == "cancel":
            call = self.calls.get(message["id"])
            if call:
                call._cancelled.set()
        elif kind == "abort":
            self.aborted.update(message["requestIds"])
        return kind == "request"

    def _answer(self, message: dict) -> dict:
        number, method = message["id"], message["method"]
        call = self.calls[number]
        try:
            run = getattr(self, f"_do_{method}", None)
            if run is None:
                raise Invalid(f"the method {method} is not known")
            call.check()
            if self.ranks and method in _TOGETHER:
                self._share(method, message["params"])
            return {"type": "reply", "id": number, "result": run(message["params"], call) or {}}
        except Cancelled as error:
            kind, text = "cancelled", str(error)
        except Invalid as error:
            self.is_broken = self.ranks is not None
            kind, text = "invalid", str(error)
        except Exception as error:
            self.is_broken = self.ranks is not None
            traceback.print_exc()
            kind, text = "failed", f"{type(error).__name__}: {error}"
        finally:
            del self.calls[number]
        return {"type": "failure", "id": number, "kind": kind, "message": text[:10_000]}

    def _columns(self, params) -> dict:
        return {name: self.regions.array("inputs", place) for name, place in params["arrays"].items()}

    def _do_attach(self, params, _call):
        self.regions = Regions(params["regions"])
        if self.ranks:
            self.worker.meet()

    def _do_updateWeights(self, params, _call):
        self.worker.update_weights(params["version"], self.regions["weights"])
        self.version = params["version"]

    def _do_generate(self, params, call):
        prompts, at, requests = self.regions.array("inputs", params["arrays"]["prompts"]), 0, []
        for asked in params["requests"]:
            end = at + asked["promptLength"]
            requests.append(Request(
                asked["id"], prompts[at:end], asked["n"], asked["from"], asked["seed"], asked["temperature"],
                asked["maxNewTokens"], asked["stopTokenIds"], asked.get("topP"), asked.get("topK"),
            ))
            at = end
        try:
            rows = self.worker.generate(requests, call)
        finally:
            self.aborted.difference_update([request.id for request in requests])
        if [len(row) for row in rows] != [request.n for request in requests]:
            raise ValueError(f"generate gave {[len(row) for row in rows]} responses for {[r.n for r in requests]}")
        responses = [response for row in rows for response in row]
        arrays = self.regions.write_arrays("outputs", {
            "lengths": ("i32", [len(response.tokens) for response in responses]),
            "finishes": ("u8", [("stop", "length", "abort").index(response.finish) for response in responses]),
            "tokens": ("i32", [token for response in responses for token in response.tokens]),
            "logprobs": ("f32", [logprob for response in responses for logprob in response.logprobs]),
        })
        return {"version": self.version, "arrays": arrays}

    def _do_score(self, params, call):
        columns = self._columns(params)
        trajectories, at, asked = [], 0, 0
        for length, prompt_length, size in zip(columns["lengths"], columns["promptLengths"], columns["questionBytes"]):
            question = json.loads(bytes(columns["questions"][asked:asked + size]))
            prompt = question["prompt"]
            trajectories.append(Trajectory(
                prompt["text"], prompt["answer"], prompt.get("row") or {}, question["responseText"], question["finish"],
                columns["tokens"][at:at + length], prompt_length,
            ))
            at, asked = at + length, asked + size
        scores = self.worker.score_batch(trajectories, call)
        if len(scores) != len(trajectories):
            raise ValueError(f"score_batch gave {len(scores)} scores for {len(trajectories)} trajectories")
        return {"scores": [score_message(score) for score in scores]}

    def _do_logprobs(self, params, call):
        columns = self._columns(params)
        sequences, at = [], 0
        for length, prompt_length in zip(columns["lengths"], columns["promptLengths"]):
            sequences.append(Sequence(columns["tokens"][at:at + length], prompt_length))
            at += length
        rows = self.worker.logprobs_batch(sequences, params["temperature"], call)
        wanted = [len(sequence.tokens) - sequence.prompt_length for sequence in sequences]
        if [len(row) for row in rows] != wanted:
            raise ValueError(f"logprobs_batch gave {[len(row) for row in rows]} log-probabilities for {wanted} tokens")
        return {"arrays": self.regions.write_arrays("outputs", {"logprobs": ("f32", [one for row in rows for one in row])})}

    def _do_initialize(self, params, _call):
        self.worker.initialize(params["source"])
        self.worker.write("live", self.regions["weights"], self.regions["optimizer"])

    def _do_restore(self, _params, _call):
        self.worker.restore(self.regions["weights"], self.regions["optimizer"])

    def _do_begin(self, _params, _call):
        self.worker.begin()

    def _do_accumulate(self, params, call):
        columns = self._columns(params)
        samples, at, answered = [], 0, 0
        weights, of_tokens = columns.get("weights"), columns.get("tokenAdvantages")
        for row, (length, prompt_length) in enumerate(zip(columns["lengths"], columns["promptLengths"])):
            end = answered + length - prompt_length
            samples.append(Sample(
                columns["tokens"][at:at + length], prompt_length, columns["logprobs"][answered:end],
                columns["mask"][answered:end], columns["advantages"][row],
                None if of_tokens is None else of_tokens[answered:end], 1.0 if weights is None else weights[row],
            ))
            at, answered = at + length, end
        batch = Batch(
            samples, params["normalizer"], params["clipLow"], params["clipHigh"], params["temperature"], _loss_in(params),
        )
        return self.worker.accumulate(batch, self._gradient(), call)

    def _gradient(self):
        view = self.regions["gradient"]
        return view and view.cast("f")

    def _do_openReference(self, params, _call):
        self.worker.open_reference(params["source"])

    def _do_stage(self, params, _call):
        norm = self.worker.stage(self._gradient(), params)
        if norm is None or not math.isfinite(norm):
            return {"gradNorm": None, "finite": False}
        self.worker.write("candidate", self.regions["weights"], self.regions["optimizer"])
        return {"gradNorm": norm, "finite": True}

    def _do_promote(self, _params, _call):
        self.worker.promote()

    def _do_discard(self, _params, _call):
        self.worker.discard()


class _Inputs:
    """Stands for the regions in a process that is not rank 0: what rank 0 handed on of its inputs, and no others."""

    def __init__(self, inputs):
        self._inputs = memoryview(inputs)

    def __getitem__(self, name):
        return None

    def array(self, _region, place):
        return array_in(self._inputs, place)


def _loss_in(params) -> Loss:
    """The loss of a request. What is not known of it is of another version, whose jobs do not ask for it."""
    said = params.get("loss", {})
    names = {field.name: _camel(field.name) for field in fields(Loss)}
    return Loss(**{name: said[key] for name, key in names.items() if key in said})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def serve(worker) -> None:
    """Serves until Muster ends. Muster says in MUSTER_WORKER_IN and MUSTER_WORKER_OUT which file descriptors are its socket."""
    try:
        read_fd, write_fd = int(os.environ["MUSTER_WORKER_IN"]), int(os.environ["MUSTER_WORKER_OUT"])
    except KeyError:
        sys.exit("this is a worker of Muster, which starts it: set engine.kind = \"worker\" and engine.worker.command in a "
                 "job file, or try it with: muster worker check -- python3 " + sys.argv[0])
    # What it starts should not hold the socket.
    os.set_inheritable(read_fd, False)
    os.set_inheritable(write_fd, False)
    _Service(worker, Frames(read_fd, write_fd)).run()
    # What a library does when an interpreter ends may take seconds, and nobody waits for it.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
