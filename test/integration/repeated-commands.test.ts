/** An operator's command whose very bytes come again, from a program that numbers nothing: answered like the first time, and done once. */
import { type Controller, startController } from "@muster/actors/controller";
import { createEnveloper, encodeMessage, type Message, readPlain, subjectsOf } from "@muster/protocol";
import { connectRaw, startTestServer, type TestServer, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { config, environmentOf } from "./support/controller.ts";

const subjects = subjectsOf("test");
let server: TestServer;
let controller: Controller;
let operator: Awaited<ReturnType<typeof connectRaw>>;
let heard: { readonly kind: string; readonly body: Readonly<Record<string, unknown>> }[];
const lives = ["c1", "c2"];

const start = () =>
  startController({
    config,
    dataKey: new Uint8Array(32),
    environment: environmentOf(server, () => lives.shift() ?? ""),
  });

beforeAll(async () => {
  server = await startTestServer();
  controller = await start();
  operator = await connectRaw(server, "operator", "shell");
  heard = [];
  const answers = /\.events\.(command.accepted|command.refused|message.refused)$/;
  operator.subscribe("muster.test.events.>", {
    callback: (_, { subject, data }) =>
      void (answers.test(subject) && heard.push(readPlain(data) as (typeof heard)[0])),
  });
  await operator.flush();
});
afterAll(async () => {
  controller.abort("the test is over");
  await controller.ended;
  await operator.close();
  await server.close();
});

type Answer = (typeof heard)[0];

/**
 * Says bytes without an id by which the broker would know them again. A controller that takes over says its last facts once more, so an answer to
 * what was said before may come late. @returns The first new answer that is one to it.
 */
async function say(kind: Message["kind"], data: Uint8Array, isAnswer: (answer: Answer) => boolean): Promise<Answer> {
  const before = heard.length;
  await operator.request(subjects.report("operator", "shell", kind), data, { timeout: 5_000 });
  const found = () => heard.slice(before).find(isAnswer);
  await waitFor(() => found() !== undefined, { what: `an answer to ${kind}`, detail: () => heard });
  return found() as Answer;
}

const enveloper = createEnveloper({
  ...{ job: "test", id: "shell", role: "operator", incarnation: "s1", wallMs: Date.now },
});

test.each([{ rollout: 3 }, { rollout: 2, commandId: "mine" }])(
  "%j that comes again is answered again, and by another controller too",
  async (body) => {
    const data = encodeMessage(enveloper.stamp("fleet.scale", body) as Message);
    const isAnswer = (answer: Answer): boolean => answer.body.asked === JSON.stringify({ rollout: body.rollout });
    const first = await say("fleet.scale", data, isAnswer);
    expect(first.kind).toBe("command.accepted");
    const made = controller.snapshot().context.state.fleet.commandsMade;
    const again = await say("fleet.scale", data, isAnswer);
    expect(again).toMatchObject({ kind: first.kind, body: { commandId: first.body.commandId } });
    expect(controller.snapshot().context.state.fleet.commandsMade).toBe(made);
    if (lives.length > 0) {
      controller.abort("another one");
      await controller.ended;
      controller = await start();
    }
    const later = await say("fleet.scale", data, isAnswer);
    expect(later.body.commandId).toBe(first.body.commandId);
    expect(controller.snapshot().context.state.fleet.commandsMade).toBe(made);
  },
);

test("a command that was refused is refused again, for the same reason", async () => {
  const data = encodeMessage(enveloper.stamp("fleet.cordon", { id: "nobody" }) as Message);
  const isAnswer = ({ kind }: Answer): boolean => kind === "command.refused";
  const first = await say("fleet.cordon", data, isAnswer);
  expect((await say("fleet.cordon", data, isAnswer)).body).toEqual(first.body);
});

test("what is no command is refused again, for the same reason", async () => {
  const data = new TextEncoder().encode('{"rollouts":2}');
  const isAnswer = ({ kind }: Answer): boolean => kind === "message.refused";
  const first = await say("fleet.scale", data, isAnswer);
  const again = await say("fleet.scale", data, isAnswer);
  expect({ ...again.body, id: "" }).toEqual({ ...first.body, id: "" });
});
