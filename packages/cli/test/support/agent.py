"""An agent of tests: what it does is its first argument."""
import http.client
import json
import os
import subprocess
import sys
import time
from urllib.parse import urlsplit

does, *more = sys.argv[1:]
question = json.loads(sys.stdin.readline())
session, key = os.environ["MUSTER_SESSION_URL"], os.environ["OPENAI_API_KEY"]
connection = http.client.HTTPConnection(urlsplit(session).netloc, timeout=60)


def post(path, body):
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    connection.request("POST", urlsplit(session).path + path, json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status}")
    return json.loads(text)


def say(messages, **more):
    assert os.environ["OPENAI_BASE_URL"] == f"{session}/v1"
    answer = post("/v1/chat/completions", {"model": "any", "messages": messages, "temperature": 0, **more})
    messages.append(answer["choices"][0]["message"])
    return messages[-1]["content"]


def two_turns():
    messages = [{"role": "user", "content": question["prompt"]}]
    say(messages)
    messages.append({"role": "tool", "content": [{"type": "text", "text": "7"}, {"type": "text", "text": "="}]})
    say(messages)


if does == "exits":
    sys.exit("the tool is not there")
elif does == "asks-nothing":
    post("/reward", {"reward": 1})
elif does == "hangs":
    time.sleep(600)
elif does == "writes":
    while True:
        print("x" * 1000)
elif does == "grows":
    memory = b"x" * 200_000_000
    time.sleep(600)
elif does == "asks-for-tools":
    say([{"role": "user", "content": "1"}], tools=[{"type": "function"}])
elif does == "branches":
    for content in ("1", "2"):
        say([{"role": "user", "content": content}])
    post("/reward", {"reward": 1})
elif does == "posts-no-reward":
    two_turns()
elif does == "ends":
    two_turns()
    post("/reward", {"reward": 0.25})
    post("/end", {})
    time.sleep(600)
elif does == "leaves-a-process":
    left = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    two_turns()
    with open(more[0], "w") as file:
        file.write(str(left.pid))
    post("/reward", {"reward": 0.5})
elif does == "leaves-a-writer":
    # It is in a session of its own, and its environment is empty: no mark leads to it.
    left = subprocess.Popen(["/bin/sh", "-c", "while echo x; do :; done"], start_new_session=True, env={})
    two_turns()
    with open(more[0], "w") as file:
        file.write(str(left.pid))
    post("/reward", {"reward": 0.5})
elif does == "counts":
    with open(more[0], "a") as file:
        file.write("+")
    two_turns()
    time.sleep(0.2)
    with open(more[0], "a") as file:
        file.write("-")
    post("/reward", {"reward": 0.5})
else:
    two_turns()
    post("/reward", {"reward": len(question["answer"])})
