/** A chat answer as the events of OpenAI's chat completions. Pure. */
import { isTable } from "./answer-facts.ts";
import type { EventWriter, Table } from "./dialect.ts";
import { bodyOfReply } from "./reply.ts";
import { doneData, eventOf } from "./sse.ts";

/** Writes the events of an answer to this request. */
export function chatEvents({ stream_options: options }: Table): EventWriter {
  const withUsage = isTable(options) && options.include_usage === true;
  let head: Table = {};
  const chunk = (choices: readonly Table[], more: Table = {}): string =>
    eventOf(JSON.stringify({ ...head, object: "chat.completion.chunk", choices, ...more }));
  const piece = (delta: Table, finish: unknown = null, more: Table = {}): string =>
    chunk([{ index: 0, delta, logprobs: null, finish_reason: finish, ...more }]);
  return {
    begin({ id, model, created }) {
      head = { id, model, created };
      return piece({ role: "assistant", content: "" });
    },
    text: (content) => piece({ content }),
    ping: ": ping\n\n",
    end({ choices, usage, id: _, model: __, created: ___, ...rest }) {
      const [choice = {}] = choices as readonly Table[];
      const { message, index: ____, logprobs: _____, finish_reason: finish, ...more } = choice;
      const said = isTable(message) ? message : {};
      const { role: ______, content: _______, ...others } = withPlaces(said);
      head = { ...head, ...rest };
      const members = Object.keys(others).length > 0 ? piece(others) : "";
      const end = piece({}, finish ?? "stop", more);
      return `${members}${end}${withUsage ? chunk([], { usage: usage ?? null }) : ""}${eventOf(doneData)}`;
    },
    fail: (reply) => eventOf(bodyOfReply(reply)),
  };
}

/** Clients put calls of tools together by their place. */
function withPlaces(message: Table): Table {
  if (!Array.isArray(message.tool_calls)) return message;
  const calls = message.tool_calls.map((call: unknown, index) => (isTable(call) ? { index, ...call } : call));
  return { ...message, tool_calls: calls };
}
