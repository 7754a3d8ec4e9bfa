"""A reward in a process of its own: 1 for the right date, a tenth for what at least has the form of a date."""
import re

from muster_worker import RewardWorker, serve

FORM = re.compile(r"\d{4}-\d{2}-\d{2}\$")


class Judge(RewardWorker):
    def score(self, trajectory):
        if trajectory.finish == "stop" and trajectory.response == trajectory.answer + "$":
            return 1.0
        return 0.1 if FORM.fullmatch(trajectory.response) else 0.0


serve(Judge())
