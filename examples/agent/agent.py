#!/usr/bin/env python3
"""An agent in Python's standard library: it shares no code with Muster, and speaks the OpenAI API to a base URL of its own.

  muster rollout --serve
  muster router --job dates-1 --sessions sessions
  agent.py http://127.0.0.1:30000

It asks the model for ten dates, checks each with a tool, and says the tool's result in the conversation. The reward of the episode is the share of right
answers. With a session id (second argument) that ran before, every turn has the answer that it had then.

A router with tokens asks for one to begin a session: ROUTER_TOKEN. From then on the session has a key of its own, which SESSION_KEY names; without it the
agent makes one up.

What it does when nobody answers is what clients of the OpenAI API do: it sends the same request again. Each turn is one line of its output.
"""
import datetime
import http.client
import json
import os
import secrets
import sys
import time
import urllib.error
import urllib.request

MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october"]
TRIES = 40
KEY = os.environ.get("SESSION_KEY") or secrets.token_hex(24)


def post(url, body, key=KEY):
    data = json.dumps(body).encode()
    for attempt in range(1, TRIES + 1):
        request = urllib.request.Request(url, data, {"content-type": "application/json", "authorization": f"Bearer {key}"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 429) or attempt == TRIES:
                raise SystemExit(f"{url}: {error.code} {error.read().decode()}")
        except (OSError, http.client.HTTPException) as error:  # nobody there, or gone in the middle of its answer
            if attempt == TRIES:
                raise SystemExit(f"{url}: {error}")
        time.sleep(min(0.05 * attempt, 1))


def check_date(question, answer):
    """The tool: whether the answer is the date, in the form of ISO 8601."""
    day, _, month, year = question.split()
    right = datetime.date(int(year), MONTHS.index(month) + 1, int(day[:-2]))
    return answer.strip() == right.isoformat()


def main(router, *session):
    named = {"session_id": session[0]} if session else {}
    begun = post(f"{router}/sessions", {"api_key": KEY, **named}, os.environ.get("ROUTER_TOKEN", "none"))
    chat = f"{begun['base_url']}/chat/completions"
    messages, right = [], 0
    for turn, month in enumerate(MONTHS):
        if len(session) > 1:  # "step": somebody decides when the next turn comes
            sys.stdin.readline()
        question = f"{4 + turn}th of {month} {1980 + 3 * turn}"
        messages.append({"role": "user", "content": f"{question}="})
        answer = post(chat, {"model": "any", "messages": messages, "max_tokens": 12})["choices"][0]["message"]
        is_right = check_date(question, answer["content"])
        right += is_right
        messages += [answer, {"role": "tool", "content": "right" if is_right else "wrong"}]
        print(json.dumps({"turn": turn, "answer": answer["content"], "right": is_right}), flush=True)
    url = f"{router}/sessions/{begun['session_id']}"
    post(f"{url}/reward", {"reward": right / len(MONTHS)})
    post(f"{url}/end", {})
    print(json.dumps({"reward": right / len(MONTHS)}), flush=True)


main(*sys.argv[1:])
