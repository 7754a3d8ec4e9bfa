/**
 * An agent in TypeScript that imports nothing but Node: it is any program that speaks the OpenAI API at the address in its environment. Muster starts it
 * for each sample (`rollout.agent` in job.toml). The model guesses a number, and the tool says whether it is larger or smaller.
 */

interface Message {
  readonly role: string;
  readonly content: string;
}

const { OPENAI_BASE_URL = "", OPENAI_API_KEY = "", MUSTER_SESSION_URL = "" } = process.env;
const guessesMax = 3;

async function post(url: string, body: object): Promise<unknown> {
  const headers = { "content-type": "application/json", authorization: `Bearer ${OPENAI_API_KEY}` };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.ok) return await answer.json();
  throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
}

async function say(messages: readonly Message[]): Promise<Message> {
  const answer = await post(`${OPENAI_BASE_URL}/chat/completions`, { model: "any", messages });
  const { choices } = answer as { readonly choices: readonly { readonly message: Message }[] };
  const [choice] = choices;
  if (!choice) throw new Error("the answer has no choices");
  return choice.message;
}

/** The reward: 1 for the first guess, less for later ones, a little for each that is a number at all. */
async function episode(prompt: string, secret: number): Promise<number> {
  const messages: Message[] = [{ role: "user", content: prompt }];
  for (let guess = 0; guess < guessesMax; guess++) {
    const message = await say(messages);
    if (!/^[0-3]$/.test(message.content)) return 0.1 * guess;
    if (Number(message.content) === secret) return 1 - 0.2 * guess;
    messages.push(message, { role: "tool", content: secret < Number(message.content) ? "<" : ">" });
  }
  return 0.1 * guessesMax;
}

let input = "";
for await (const chunk of process.stdin) input += String(chunk);
const { prompt, answer } = JSON.parse(input) as { readonly prompt: string; readonly answer: string };
await post(`${MUSTER_SESSION_URL}/reward`, { reward: await episode(prompt, Number(answer)) });
