#!/usr/bin/env python3
"""Logs the figures of a run to Weights & Biases while it goes on, under the names that TensorBoard gets.

  hook.py --run runs/latest --project muster               follows the run; Ctrl-C ends it, and the same command goes on where it ended
  hook.py --run runs/latest --project muster --until-end  ends with the job
  WANDB_MODE=offline hook.py --run runs/latest            needs no network; `wandb sync` sends it later

It needs `pip install wandb`, and of Muster nothing but the files of the run: metrics.jsonl with its earlier parts, and events.jsonl for the end.
What was logged is in wandb-hook.json of the run's folder. A step is logged once: one that is computed again after the job went back stays as it was
logged, since W&B takes nothing back. `--id NAME` begins another W&B run with the steps that stand.
"""
import argparse
import fcntl
import io
import json
import os
import re
import signal
import sys
import threading
import uuid

# Families of the figures of a step, as in TensorBoard. A test compares them with Muster's own table.
FAMILIES = {
    "reward": ("reward", "reward_spread", "reward_least", "reward_most", "even_groups"),
    "policy": ("loss", "held_out_loss", "approx_kl", "logprob_gap", "logprob_gap_max", "kl_reference", "clip_fraction", "entropy", "grad_norm", "lr", "staleness"),
    "response": ("length_mean", "length_max", "truncated", "tokens"),
    "speed": ("train_tokens_per_s", "sample_tokens_per_s", "step_ms", "compute_ms", "reduce_ms"),
}
COMPONENTS_MAX = 32  # curves for the first names of reward components, and for no others
LINE_MAX = 4 * 1024 * 1024  # bytes of a line of metrics, far above what a step has
TAIL_BYTES = 256 * 1024  # of events.jsonl: enough for the last events of any job


class Fault(Exception):
    """What the user can mend: ends the hook with one sentence."""


def say(text):
    print(f"hook: {text}", file=sys.stderr, flush=True)


class Metrics:
    """The lines of metrics.jsonl, as the file grows, is set aside as a numbered part, or is cut and written anew; a few MiB of it are in memory."""

    def __init__(self, folder):
        self.folder, self.path = folder, os.path.join(folder, "metrics.jsonl")
        self.file, self.at = None, 0
        self.read = b""  # the line before `at`: while it is there, nothing before it has changed

    def lines(self, last_step):
        """Yields (step, record) of each whole line that came since the last call. Earlier parts that end before `last_step` are skipped."""
        if self.file is None or not self._is_newest():
            if self.file is not None:
                self.file.close()
            self.file, self.at, self.read = opened(self.path), 0, b""  # before the parts are listed, so that none is missed
            for path in self._parts(last_step):
                yield from part_records(path)
        if self.file is not None:
            yield from self._rest(self.file)

    def _is_newest(self):
        try:
            return os.path.samestat(os.fstat(self.file.fileno()), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _rest(self, file):
        while True:
            file.seek(self.at - len(self.read))
            found = file.read(len(self.read) + LINE_MAX)  # in one call, so that what follows `read` is what was written behind it
            if not found.startswith(self.read):  # cut, when the job went back
                self.at, self.read = 0, b""
                continue
            rest = found[len(self.read):]
            *whole, half = rest.split(b"\n")
            if not whole:
                refuse_endless(half, self.path, self.at)
                return  # half of it is written
            for line in whole:
                if record := record_of(line, self.path, self.at):
                    yield record
                self.at, self.read = self.at + len(line) + 1, line + b"\n"

    def _parts(self, step):
        """Paths of the earlier parts, the oldest first, from the one on that has `step`."""
        numbers = sorted(int(found[1]) for name in os.listdir(self.folder) if (found := re.fullmatch(r"metrics\.(\d{1,9})\.jsonl", name)))
        paths = [os.path.join(self.folder, f"metrics.{number}.jsonl") for number in numbers]
        begun = [i for i, path in enumerate(paths) if first_step(path) <= step]
        return paths[max(begun, default=0):]


def opened(path):
    try:
        return open(path, "rb", buffering=0)
    except FileNotFoundError:
        return None  # not written yet, or dropped: the run keeps its newest metrics


def part_records(path):
    """Yields (step, record) of each line of a part that is complete."""
    with io.BufferedReader(opened(path) or io.BytesIO()) as part:
        at = 0
        while (line := part.readline(LINE_MAX)).endswith(b"\n"):
            if record := record_of(line, path, at):
                yield record
            at += len(line)
        refuse_endless(line, path, at)


def refuse_endless(line, path, at):
    if len(line) >= LINE_MAX:
        raise Fault(f"{path} has a line of more than {LINE_MAX} bytes at byte {at}: these are no metrics of a run")


def record_of(line, path, at):
    try:
        record = json.loads(line)
        return int(record["step"]), record
    except (ValueError, KeyError, TypeError):
        say(f"{path} has no figures of a step at byte {at}; the line is left out")
        return None


def first_step(path):
    return next(part_records(path), (0, None))[0]


class State:
    """What was logged, so that a hook that is started again goes on behind it."""

    def __init__(self, folder, wanted):
        self.path = os.path.join(folder, "wandb-hook.json")
        self.lock = open(os.path.join(folder, "wandb-hook.lock"), "a")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Fault(f"--run {folder}: another hook logs this run; end that one first") from None
        self.id, self.step, self.lineage, self.components = None, 0, 0, []
        if os.path.exists(self.path):
            self._load()
        if self.id is None or (wanted and wanted != self.id):
            name = re.sub(r"[^\w.-]", "-", os.path.basename(folder))[:64]
            self.id, self.step, self.lineage, self.components = wanted or f"{name}-{uuid.uuid4().hex[:8]}", 0, 0, []
            self.save()

    def _load(self):
        try:
            with open(self.path) as file:
                state = json.load(file)
            self.id, self.step, self.lineage = str(state["id"]), int(state["step"]), int(state["lineage"])
            self.components = [str(name) for name in state["components"]]
        except (ValueError, KeyError, TypeError) as error:
            raise Fault(f"{self.path} is no state of this hook ({error}); remove it to log the run anew") from error

    def save(self):
        with open(f"{self.path}.new", "w") as file:
            json.dump({"id": self.id, "step": self.step, "lineage": self.lineage, "components": self.components}, file)
        os.replace(f"{self.path}.new", self.path)


def scalars_of(record, components):
    """The figures of a step by the names that TensorBoard gets. `components`: names that have curves; the first that come are added."""
    named = {f"{family}/{name}": record.get(name) for family, names in FAMILIES.items() for name in names}
    for name, part in (record.get("components") or {}).items():
        if name not in components and len(components) < COMPONENTS_MAX:
            components.append(name)
        if name in components:
            named[f"reward_components/{name}"], named[f"reward_components_spread/{name}"] = part["mean"], part["spread"]
    return {name: value for name, value in named.items() if value is not None}


def log_new(metrics, state, run, stop):
    """Logs the steps that are there and were not logged."""
    for step, record in metrics.lines(state.step):
        if stop.is_set():
            return
        lineage = record.get("lineage", 0)
        if step <= state.step and lineage > state.lineage:
            say(f"the job went back: steps {step} to {state.step} are computed again, and W&B keeps what was logged of them")
        if step > state.step:
            if step > state.step + 1:
                say(f"steps {state.step + 1} to {step - 1} are not in metrics.jsonl and its parts")
            run.log(scalars_of(record, state.components), step=step, commit=True)
        if step > state.step or lineage > state.lineage:
            state.step, state.lineage = max(step, state.step), lineage
            state.save()


def is_over(folder):
    """True when the last that events.jsonl says of the job is its end."""
    try:
        with open(os.path.join(folder, "events.jsonl"), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            kinds = re.findall(rb'^\{[^\n]*?"kind":"(job\.ended|step\.committed)"', file.read(), re.MULTILINE)
    except FileNotFoundError:
        return False
    return kinds[-1:] == [b"job.ended"]


class Stop(threading.Event):
    """Ctrl-C and SIGTERM end the hook between two steps, so that what was logged is noted; the second time at once."""

    def __init__(self):
        super().__init__()
        self.signal = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number, _frame):
        if self.signal:
            raise SystemExit(128 + number)
        self.signal = number
        self.set()


def follow(options, run, state, stop):
    metrics = Metrics(options.run)
    if not os.path.exists(metrics.path):
        say(f"waiting for {metrics.path}")
    ends = False
    while not ends and not stop.is_set():
        ends = options.until_end and is_over(options.run)
        log_new(metrics, state, run, stop)
        if not ends:
            stop.wait(options.poll)


def open_run(options, state):
    try:
        import wandb
        init = wandb.init  # a folder of the name is importable, too
    except (ImportError, AttributeError):
        raise Fault(f"wandb is not installed for {sys.executable}; install it: {sys.executable} -m pip install wandb") from None
    name = os.path.basename(options.run)
    try:
        return init(project=options.project, name=name, id=state.id, resume="allow")
    except Exception as error:
        raise Fault(f"W&B does not open the run {state.id}: {error}; look at WANDB_API_KEY and --project, or set WANDB_MODE=offline") from error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", required=True, help="folder of the run, such as runs/dates")
    parser.add_argument("--project", default="muster", help="project of W&B (default: muster)")
    parser.add_argument("--id", help="id of the W&B run (default: the one of before, or a new one)")
    parser.add_argument("--until-end", action="store_true", help="end with the job")
    parser.add_argument("--poll", type=float, default=1.0, metavar="SECONDS", help="time between two looks at the files (default: 1)")
    options = parser.parse_args()
    if not 0 < options.poll <= 3600:
        raise Fault(f"--poll {options.poll}: use more than 0 and at most 3600 seconds")
    if not os.path.isdir(options.run):
        raise Fault(f"--run {options.run}: there is no such folder; name the folder of a run, such as runs/dates")
    options.run = os.path.realpath(options.run)  # runs/latest may come to point to another run
    state = State(options.run, options.id)
    run = open_run(options, state)
    if run.resumed:
        state.step = max(state.step, run.step - 1)  # what W&B has already, where the state of before is lost
    stop = Stop()
    try:
        follow(options, run, state, stop)
    finally:
        run.finish()
        say(f"logged up to step {state.step}")
    return 128 + stop.signal if stop.signal else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Fault as fault:
        say(fault)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
