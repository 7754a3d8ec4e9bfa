#!/usr/bin/env python3
"""An agent with a tool, in Python's standard library. It shares no code with Muster: it is any program that speaks the OpenAI API.

Muster starts it for each sample (`rollout.agent` in job.toml) with the address in its environment, as clients of that API expect it. The model has to call
the tool (`?`), and then to answer with what the tool said. The agent judges that itself and posts the reward.
"""
import http.client
import json
import os
import sys
from urllib.parse import urlsplit

BASE, SESSION, KEY = (os.environ[name] for name in ("OPENAI_BASE_URL", "MUSTER_SESSION_URL", "OPENAI_API_KEY"))
connection = http.client.HTTPConnection(urlsplit(BASE).netloc, timeout=60)


def post(url, body):
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    connection.request("POST", urlsplit(url).path, json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != 200:
        raise SystemExit(f"{url}: {answer.status} {text}")
    return json.loads(text)


def say(messages):
    answer = post(f"{BASE}/chat/completions", {"model": "any", "messages": messages})["choices"][0]["message"]
    messages.append(answer)
    return answer["content"]


def episode(prompt, value):
    """What the call and the answer are worth."""
    messages = [{"role": "user", "content": prompt}]
    call = say(messages)
    if not call.startswith("?"):
        return 0.0, 0.0
    messages.append({"role": "tool", "content": f"{value}="})
    answer = say(messages)
    # Half of each part for ending the response there.
    return 0.3 if call == "?" else 0.15, 0.7 if answer == value else 0.35 if answer.startswith(value) else 0.0


question = json.loads(sys.stdin.readline())
called, answered = episode(question["prompt"], question["answer"])
post(f"{SESSION}/reward", {"reward": called + answered, "components": {"call": called, "answer": answered}})
