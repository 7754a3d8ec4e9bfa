/** An operator's command whose very bytes come again, from a program that numbers nothing: answered like the first time, and done once. */
import { type Controller, startController } from "@muster/actors";
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

/** Says bytes without an id by which the broker would know them again. @returns What is answered to it. */
async function say(kind: Message["kind"], data: Uint8Array, answers: number) {
  const before = heard.length;
  await operator.request(subjects.report("operator", "shell", kind), data, { timeout: 5_000 });
  await waitFor(() => heard.length >= before + answers, { what: `${answers} answers`, detail: () => heard });
  return heard.slice(before);
}

const enveloper = createEnveloper({
  ...{ job: "test", id: "shell", role: "operator", incarnation: "s1", wallMs: Date.now },
});

test.each([{ rollout: 3 }, { rollout: 2, commandId: "mine" }])(
  "%j that comes again is answered again, and by another controller too",
  async (body) => {
    const data = encodeMessage(enveloper.stamp("fleet.scale", body) as Message);
    const [first] = await say("fleet.scale", data, 1);
    expect(first?.kind).toBe("command.accepted");
    const made = controller.snapshot().context.state.fleet.commandsMade;
    const again = await say("fleet.scale", data, 1);
    expect(again[0]).toMatchObject({
      kind: first?.kind,
      body: { commandId: first?.body.commandId, asked: first?.body.asked },
    });
    expect(controller.snapshot().context.state.fleet.commandsMade).toBe(made);
    if (lives.length > 0) {
      controller.abort("another one");
      await controller.ended;
      controller = await start();
    }
    const later = await say("fleet.scale", data, 1);
    expect(later.find(({ body }) => body.commandId === first?.body.commandId)).toBeDefined();
    expect(controller.snapshot().context.state.fleet.commandsMade).toBe(made);
  },
);

test("a command that was refused is refused again, for the same reason", async () => {
  const data = encodeMessage(enveloper.stamp("fleet.cordon", { id: "nobody" }) as Message);
  const [first] = await say("fleet.cordon", data, 1);
  expect(first?.kind).toBe("command.refused");
  expect((await say("fleet.cordon", data, 1))[0]?.body).toEqual(first?.body);
});

test("what is no command is refused again, for the same reason", async () => {
  const data = new TextEncoder().encode('{"rollouts":2}');
  const [first] = await say("fleet.scale", data, 1);
  const [again] = await say("fleet.scale", data, 1);
  expect(first?.kind).toBe("message.refused");
  expect({ ...again?.body, id: "" }).toEqual({ ...first?.body, id: "" });
});
