/** The routes of agents: a base URL for each episode, whose turns are on disk before their answers leave. */
import { randomBytes } from "node:crypto";
import { judgedOf, type RewardAnswer } from "@muster/base";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { isTable } from "../core/answer-facts.ts";
import { chatEvents } from "../core/chat-events.ts";
import type { Dialect } from "../core/dialect.ts";
import { invalid, Refused } from "../core/reply.ts";
import { type Session, samplesOf, type Turn, turnRequestOf } from "../core/session.ts";
import { tableIn } from "./bodies.ts";
import { dialects, sendStream, sendWhole } from "./dialect-routes.ts";
import { hasTokens } from "./guard.ts";
import { scopedTo } from "./http-app.ts";
import { checkOwner, digestOfKey, freshKey, keyIn, opens } from "./session-guard.ts";
import { current, type SessionTools, TurnsUnderWay, type TurnTools } from "./session-turns.ts";

type Table = Readonly<Record<string, unknown>>;

const metadataBytesMax = 4_096;
const idPattern = /^[A-Za-z0-9_-]{1,64}$/;

/** Adds the routes. */
export function addSessionRoutes(app: FastifyInstance, given: SessionTools): void {
  const { files, scheme } = given;
  const begins = scopedTo("inference");
  const route = {
    ...scopedTo("session"),
    onRequest: ({ params, headers }: FastifyRequest) => checkOwner(idIn(params), headers, files, given.tokens),
  };
  const tools: TurnTools = { ...given, drawing: new Map() };
  const turns = new TurnsUnderWay(tools);
  app.post("/sessions", begins, async ({ body, headers }) => {
    const { session_id: wanted = randomBytes(16).toString("hex"), metadata = {}, api_key: named } = tableIn(body);
    if (typeof wanted !== "string" || !idPattern.test(wanted))
      throw invalid("session_id must have 1 to 64 of a-z, A-Z, 0-9, _ and -");
    if (!isTable(metadata) || JSON.stringify(metadata).length > metadataBytesMax)
      throw invalid(`metadata must be an object of at most ${metadataBytesMax} bytes`);
    const key = keyIn(named) ?? freshKey();
    // Who asks again, because it heard no answer, gets the same session: when it named the key, which nobody else knows.
    await files.begin(wanted, { kind: "begin", atMs: Date.now(), metadata, keyDigest: digestOfKey(key) });
    if (!opens(key, await files.read(wanted)) && hasTokens(tools.tokens)) throw sessionExists(wanted);
    return { session_id: wanted, base_url: `${scheme}://${headers.host}/sessions/${wanted}/v1`, api_key: key };
  });
  for (const dialect of [chatApi, ...dialects]) addTurnRoute(app, dialect, route, { tools, turns });
  // Clients ask below the base URL that they have.
  app.get("/sessions/:id/v1/models", route, async ({ params }) => {
    await files.read(idIn(params));
    return await given.models(idIn(params));
  });
  app.post("/sessions/:id/reward", route, async ({ params, body }) => {
    const reward = rewardIn(tableIn(body));
    const id = idIn(params);
    const before = await current(tools, id);
    if (JSON.stringify(before.reward) === JSON.stringify(reward)) return shownOf(id, before);
    return shownOf(id, await files.append(id, { kind: "reward", atMs: Date.now(), reward }));
  });
  app.post("/sessions/:id/end", route, async ({ params }) => {
    const id = idIn(params);
    const before = await current(tools, id);
    if (before.ended !== null) return shownOf(id, before);
    return shownOf(id, await files.append(id, { kind: "end", atMs: Date.now(), reason: "asked" }));
  });
  app.get("/sessions/:id", route, async ({ params }) => shownOf(idIn(params), await current(tools, idIn(params))));
  app.get("/sessions/:id/trace", route, async ({ params }) => {
    const session = await current(tools, idIn(params));
    return {
      ...shownOf(idIn(params), session),
      trace: session.turns.map(tracedTurn),
      samples: samplesOf(session).map(({ promptLength, lossMask, ...sample }) => ({
        ...{ ...sample, prompt_length: promptLength, loss_mask: lossMask, ...shownReward(session.reward) },
      })),
    };
  });
  app.delete("/sessions/:id", route, async ({ params }) => {
    await files.remove(idIn(params));
    turns.forget(idIn(params));
    return { session_id: idIn(params), removed: true };
  });
}

/** The API that engines have. */
const chatApi: Dialect = {
  path: "/v1/chat/completions",
  chatOf: (request) => request,
  answerOf: (answer) => answer,
  eventsOf: chatEvents,
};

/** One turn in one of the APIs. The turn is that of the chat request: asked for again in any of them, whole or as a stream, it has the same answer. */
function addTurnRoute(
  app: FastifyInstance,
  dialect: Dialect,
  route: object,
  { tools, turns }: { readonly tools: TurnTools; readonly turns: TurnsUnderWay },
): void {
  app.post(
    `/sessions/:id${dialect.path}`,
    { ...route, ...scopedTo("session", dialect.errorOf) },
    async (asked, reply) => {
      const { params, body, headers } = asked;
      const id = idIn(params);
      const said = tableIn(body);
      const request = turnRequestOf(tools.seedNameOf?.(id) ?? id, dialect.chatOf(said), headers);
      const { answer, growing } = turns.turnOf(id, request, headers);
      if (!request.isStream) return sendWhole(reply, dialect.answerOf(await answer, said));
      return await sendStream(reply, growing, dialect.eventsOf(said), { ...tools.stream, running: tools.running });
    },
  );
}

function sessionExists(id: string): Refused {
  return new Refused({
    ...{ status: 409, code: "session_exists" },
    message: `session_id: there is a session ${id} with another key; send its api_key to get it again, or name another id`,
  });
}

function shownOf(id: string, { metadata, turns, reward, ended }: Session): object {
  return { session_id: id, metadata, turns: turns.length, ...shownReward(reward), ended };
}

/** The posted reward; a number alone where nothing is beside it. @throws Refused with 400 */
function rewardIn(body: Table): RewardAnswer {
  const judged = judgedOf({ reward: null, ...body }, ({ field, value, rule }) =>
    invalid(`${field} is ${value}; it must be ${rule}`),
  );
  const { reward, components, metadata } = judged;
  if (!components && metadata === undefined) return reward;
  return {
    reward,
    ...(components ? { components: Object.fromEntries(components.map(({ name, value }) => [name, value])) } : {}),
    ...(metadata === undefined ? {} : { metadata: JSON.parse(metadata) as Table }),
  };
}

/** The reward as a session tells of it: what comes with it stands beside the session's own metadata. */
function shownReward(reward: RewardAnswer | null): object {
  if (reward === null || typeof reward === "number") return { reward };
  const { components, metadata } = reward;
  return {
    reward: reward.reward,
    ...(components ? { components } : {}),
    ...(metadata ? { reward_metadata: metadata } : {}),
  };
}

function tracedTurn({ parent, added, answer, message, tokens }: Turn, turn: number): object {
  const { promptIds, responseIds, logprobs, versions } = tokens;
  const [choice] = answer.choices as readonly Table[];
  return {
    ...{ turn, parent, added, message, finish_reason: choice?.finish_reason ?? null },
    ...{ prompt_token_ids: promptIds, completion_token_ids: responseIds, logprobs, weight_versions: versions },
  };
}

function idIn(params: unknown): string {
  const { id } = params as { readonly id: string };
  if (idPattern.test(id)) return id;
  throw new Refused({ status: 404, code: "not_found", message: "a session id has 1 to 64 of a-z, A-Z, 0-9, _ and -" });
}
