#!/usr/bin/env python3
"""The reward of reward.mjs as a program: one line of JSON in for each response, one line out with the same id."""
import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    first, *rest = asked["responseText"].split() or [""]
    right = first == asked["prompt"]["row"]["answer"]
    whole = asked["finish"] == "stop" and not rest
    print(json.dumps({"id": asked["id"], "reward": right * (1.0 if whole else 0.5)}), flush=True)
