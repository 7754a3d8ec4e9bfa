/** What other programs say and hear, as an AsyncAPI document: every event, every command of an operator, and the status, with their JSON Schemas. */
import type { ReferenceData } from "./load.ts";

type Json = Readonly<Record<string, unknown>>;

/** Version of AsyncAPI (https://www.asyncapi.com/docs/reference/specification/v3.0.0). */
const asyncapi = "3.0.0";

const job = { description: "Name of the job." };

/** The document. Its schemas describe JSON as it stands on the wire; references lead to `components.schemas`. Pure. */
export function asyncApiOf({ messages, statusSchema, envelopeSchema, version }: ReferenceData): Json {
  const events = Object.entries(messages).filter(([, { direction }]) => direction === "event");
  const commands = Object.entries(messages).filter(([, { from }]) => (from as readonly string[]).includes("operator"));
  const said = commands.map(([kind, { says }]) => saidByOperator(kind, says));
  const heard = [...events.map(([kind, { says }]) => heardByWatchers(kind, says)), statusChannel];
  const schemas = [
    ["envelope", schemaOf(envelopeSchema.omit({ body: true, kind: true }), true)],
    ["status", schemaOf(statusSchema, true)],
    ...events.map(([kind, { body }]) => [kind, schemaOf(body, true)] as const),
    ...commands.map(([kind, { body }]) => [kind, schemaOf(body, false)] as const),
  ] as const;
  return {
    asyncapi,
    info: {
      title: "Muster",
      version,
      description:
        "Events, commands and the status of a job, as JSON over NATS. How a program connects, and what answers a command: docs/operating/other-programs.md.",
    },
    defaultContentType: "application/json",
    channels: Object.fromEntries([...said, ...heard].map(({ name, channel }) => [name, channel])),
    operations: Object.fromEntries([
      ...said.map(({ name }) => [name, operationOn(name, "receive")]),
      ...heard.map(({ name }) => [name, operationOn(name, "send")]),
    ]),
    components: { schemas: Object.fromEntries(schemas) },
  };
}

/** What is used of a schema. */
interface JsonWriter {
  toJSONSchema(options: object): Json;
}

interface Channel {
  readonly name: string;
  readonly channel: Json;
}

/** A command: its body alone, on the operator's own subject. */
function saidByOperator(kind: string, summary: string): Channel {
  const id = { description: "Id of the operator, as its credentials name it." };
  const message = { name: kind, summary, payload: refTo(kind) };
  const address = `muster.{job}.reports.operator.{id}.${kind}`;
  return { name: `command/${kind}`, channel: { address, parameters: { job, id }, messages: { [kind]: message } } };
}

/** An event: a whole message, whose body is the kind's. */
function heardByWatchers(kind: string, summary: string): Channel {
  const own = { type: "object", properties: { kind: { const: kind }, body: refTo(kind) }, required: ["kind", "body"] };
  const message = { name: kind, summary, payload: { allOf: [refTo("envelope"), own] } };
  const address = `muster.{job}.events.${kind}`;
  return { name: `event/${kind}`, channel: { address, parameters: { job }, messages: { [kind]: message } } };
}

const statusChannel: Channel = {
  name: "status",
  channel: {
    address: "$KV.muster-{job}.status",
    description: "A key of the key-value bucket muster-{job}, written once a second.",
    parameters: { job },
    messages: {
      status: { name: "status", summary: "what the acting controller shows of its job", payload: refTo("status") },
    },
  },
};

/** `receive` is what the job takes, `send` what it says: AsyncAPI speaks of the program that is described. */
function operationOn(name: string, action: "receive" | "send"): Json {
  return { action, channel: { $ref: `#/channels/${name.replace("/", "~1")}` } };
}

function refTo(schema: string): Json {
  return { $ref: `#/components/schemas/${schema}` };
}

/** What others read may have more fields in a newer minor version; what Muster reads may not. */
function schemaOf(schema: JsonWriter, isOpen: boolean): Json {
  const { $schema: _, ...rest } = schema.toJSONSchema({
    io: "input",
    override: ({ jsonSchema }: { readonly jsonSchema: { additionalProperties?: unknown } }) => {
      if (isOpen && jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
    },
  });
  return rest;
}
