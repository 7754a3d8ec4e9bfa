"""A reward in a process of its own: 1 for the right date, a tenth for what at least has the form of a date; and it says which of the two it saw."""
import re

from muster_worker import RewardWorker, Score, serve

FORM = re.compile(r"\d{4}-\d{2}-\d{2}\$")


class Judge(RewardWorker):
    def score(self, trajectory):
        right = trajectory.finish == "stop" and trajectory.response == trajectory.answer + "$"
        form = FORM.fullmatch(trajectory.response) is not None
        reward = 1.0 if right else 0.1 if form else 0.0
        return Score(reward, {"right": right, "form": form}, {"expected": trajectory.answer})


serve(Judge())
