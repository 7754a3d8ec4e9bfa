/** JSON for everybody: what it holds, what is refused before it is read, and commands that come as their body alone. */
import { MusterError } from "@muster/base";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type Arrival,
  decodeMessage,
  decodeSealed,
  encodeMessage,
  isMalformed,
  type Kind,
  messageTable,
  narrowBounds,
  pack,
  peekMessage,
  readPiecedBody,
  readPlain,
  smallBytesMax,
  unseal,
  wideBounds,
} from "../src/index.ts";
import { messageKinds, operatorKinds, protocolMinor } from "../src/internal.ts";
import { flawOfJson, isJson, readJson, writeJson } from "../src/json.ts";
import { sampleMessage } from "./samples.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const said = (value: unknown): Uint8Array => bytes(JSON.stringify(value));

/** The error of a call. */
function errorOf(call: () => unknown): MusterError {
  try {
    call();
  } catch (error) {
    if (error instanceof MusterError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("a message in JSON", () => {
  it.each(messageKinds)("%s is read as it is when it is packed", (kind) => {
    const message = sampleMessage(kind);
    expect(decodeMessage(writeJson(message))).toEqual(message);
    expect(decodeMessage(Uint8Array.from(pack(message)))).toEqual(message);
  });

  it.each(messageKinds)("%s passes the bounds of its place", (kind) => {
    const isSaidToController = ["report", "heartbeat"].includes(messageTable[kind].direction);
    expect(flawOfJson(writeJson(sampleMessage(kind)), isSaidToController ? narrowBounds : wideBounds)).toBeNull();
  });

  it("is what public events and commands are written as, and nothing else", () => {
    const written = messageKinds.filter((kind) => isJson(encodeMessage(sampleMessage(kind))));
    const wanted = messageKinds.filter(
      (kind) => messageTable[kind].direction === "event" || operatorKinds.some((each) => each === kind),
    );
    expect(written).toEqual(wanted);
  });

  it("may have white space around it", () => {
    const text = ` \n\t${JSON.stringify(sampleMessage("job.stop"), null, 2)}\r\n`;
    expect(decodeMessage(bytes(text))).toEqual(sampleMessage("job.stop"));
  });

  it("holds bytes of any length, and reads them from nothing but their one form", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (key) => {
        const data = writeJson({ deep: [{ key }], buffer: Buffer.from(key) });
        expect(readJson(data)).toEqual({ deep: [{ key }], buffer: key });
      }),
      { seed: 20_262 },
    );
    for (const odd of ["AA", "A===", "AAAA=", "*AAA", 7, null])
      expect(readJson(said({ key: { $bytes: odd } }))).toEqual({ key: { $bytes: odd } });
    expect(readJson(said({ key: { $bytes: "AAAA", more: 1 } }))).toEqual({ key: { $bytes: "AAAA", more: 1 } });
  });

  it.each([
    ["half a message", JSON.stringify(sampleMessage("job.stop")).slice(0, 90)],
    ["something behind it", `${JSON.stringify(sampleMessage("job.stop"))}{}`],
    ["no text", '{"v":1,"id":"\u0000"'],
    ["an empty object", "{}"],
    [
      "a number that is no number",
      JSON.stringify(sampleMessage("job.started")).replace('"seed":', '"seed":1e999,"x":'),
    ],
    ["a key of a prototype", JSON.stringify(sampleMessage("job.stop")).replace('"reason"', '"__proto__":{},"reason"')],
  ])("that is %s is refused", (_, text) => {
    expect(errorOf(() => decodeMessage(bytes(text))).code).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
    expect(({} as Record<string, unknown>).reason).toBeUndefined();
  });

  it("that is no UTF-8 is refused", () => {
    const data = Uint8Array.from([...bytes('{"a":"'), 0xff, 0xfe, ...bytes('"}')]);
    expect(errorOf(() => readPlain(data)).message).toContain("UTF-8");
  });

  it("that is changed anywhere is read or refused, and nothing else happens", () => {
    const texts = messageKinds.map((kind) => Buffer.from(writeJson(sampleMessage(kind))));
    const change = fc.record({ at: fc.nat(), byte: fc.integer({ min: 0, max: 255 }), cut: fc.boolean() });
    fc.assert(
      fc.property(fc.constantFrom(...texts), fc.array(change, { minLength: 1, maxLength: 4 }), (text, changes) => {
        let data = Uint8Array.from(text);
        for (const { at, byte, cut } of changes) {
          data[at % data.length] = byte;
          if (cut && at % data.length > 0) data = data.slice(0, at % data.length);
        }
        try {
          decodeMessage(data);
        } catch (error) {
          expect(error).toSatisfy(isMalformed);
        }
      }),
      { numRuns: 3_000, seed: 20_263 },
    );
  });
});

describe("the look at a JSON text", () => {
  const many = (count: number, item: string): string => Array.from({ length: count }, () => item).join(",");
  it.each<[string, string, RegExp]>([
    ["arrays in arrays", "[".repeat(1_000), /nested deeper than 16/],
    ["objects in objects", '{"a":'.repeat(1_000), /nested deeper than 16/],
    ["a long array", `[${many(2_049, "0")}]`, /an array of 2049 elements/],
    ["many keys", `{${many(65, '"k":0')}}`, /an object of 65 keys/],
    ["many arrays that are small enough", `[${many(80, `[${many(2_000, "0")}]`)}]`, /more than 80000 elements/],
    ["many empty things", `[${many(1_500, `[${many(64, "[]")}]`)}]`, /more than 80000 elements/],
  ])("refuses %s", (_, text, reason) => {
    expect(flawOfJson(bytes(text), narrowBounds)).toMatch(reason);
  });

  it("passes over whatever stands in texts", () => {
    const text = JSON.stringify({ a: '[[[{{{"\\', b: ",".repeat(5_000), c: "\\".repeat(7), d: ['"'] });
    expect(flawOfJson(bytes(text), narrowBounds)).toBeNull();
    expect(readPlain(bytes(text), narrowBounds)).toEqual(JSON.parse(text));
  });

  it("counts as reading counts", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 20 }), (value) => {
        const bounds = { elementsMax: 40, arrayMax: 6 };
        const flaw = flawOfJson(said(value), bounds);
        const { depth, longest, keys } = sizeOf(value);
        const isTooMuch = depth > 16 || longest > bounds.arrayMax || keys > 64;
        if (isTooMuch) expect(flaw).not.toBeNull();
        else if (flaw !== null) expect(flaw).toMatch(/more than 40 elements|nested/);
      }),
      { numRuns: 2_000, seed: 20_264 },
    );
  });
});

function sizeOf(value: unknown): { readonly depth: number; readonly longest: number; readonly keys: number } {
  if (typeof value !== "object" || value === null) return { depth: 0, longest: 0, keys: 0 };
  const inside = Object.values(value).map(sizeOf);
  const length = Object.keys(value).length;
  const most = (pick: (size: ReturnType<typeof sizeOf>) => number, own: number): number =>
    Math.max(own, ...inside.map(pick));
  return {
    depth: 1 + Math.max(0, ...inside.map(({ depth }) => depth)),
    longest: most(({ longest }) => longest, Array.isArray(value) ? length : 0),
    keys: most(({ keys }) => keys, Array.isArray(value) ? 0 : length),
  };
}

describe("a command that is its body alone", () => {
  const at = (subject: string, seq = 7): Arrival => ({ subject, seq });
  const scale = at("muster.demo.reports.operator.shell.fleet.scale");
  const read = (text: string, arrival = scale) => unseal(decodeSealed(bytes(text), narrowBounds, arrival));

  it("becomes a message of whom its subject says, whom the broker let speak there", () => {
    expect(read('{"rollout":2,"commandId":"c-9"}')).toEqual({
      ...{ v: 1, id: "json.shell.7", kind: "fleet.scale", job: "demo", from: "shell", role: "operator" },
      ...{ incarnation: "json", seq: 7, term: 0, epoch: 0, deadlineMs: null, sentAtMs: 0 },
      body: { rollout: 2, commandId: "c-9" },
    });
  });

  it.each(operatorKinds)("%s is taken", (kind) => {
    const { body } = sampleMessage(kind);
    const arrival = at(`muster.demo.reports.operator.o-1.${kind}`);
    expect(unseal(decodeSealed(said(body), narrowBounds, arrival))).toMatchObject({ kind, from: "o-1", body });
  });

  it.each<[string, string, Arrival, RegExp]>([
    ["of another shape", '{"rollouts":2}', scale, /fleet\.scale.*rollouts/],
    ["with a role that it does not have", '{"role":"controller"}', scale, /role/],
    ["that is no object", " [1]", scale, /envelope/],
    ["of a kind that nobody knows", "{}", at("muster.demo.reports.operator.shell.fleet.burn"), /"fleet.burn"/],
    ["of a sender whose name is no id", "{}", at("muster.demo.reports.operator.SHELL.job.stop"), /envelope.from/],
    ["of somebody who is no operator", '{"reason":"x"}', at("muster.demo.reports.policy.p.job.stop"), /envelope/],
    ["half of a whole message", '{"kind":"fleet.scale","rollout":2}', scale, /envelope/],
  ])("is refused when it is one %s", (_, text, arrival, reason) => {
    const error = errorOf(() => read(text, arrival));
    expect(error).toSatisfy(isMalformed);
    expect(error.message).toMatch(reason);
  });

  it("is named in a refusal by its place in the stream, whatever it is", () => {
    const named = { id: "json.shell.7", said: "fleet.scale" };
    expect(peekMessage(bytes('{"rollouts":2,"commandId":"c-9"}'), scale)).toEqual({ ...named, commandId: "c-9" });
    expect(peekMessage(bytes('{"rollouts":'), scale)).toEqual(named);
    expect(peekMessage(bytes("{"), at("muster.demo.reports.policy.p.job.stop"))).toEqual({});
  });

  it("has the bounds of every other message", () => {
    expect(errorOf(() => read(`{"a":${"[".repeat(smallBytesMax / 2)}`)).message).toContain("nested deeper");
  });
});

describe("what a newer minor version says", () => {
  const newer = { minor: protocolMinor + 1 };
  /** The value with a field more in every object. */
  const grown = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(grown);
    if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
    return { ...Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, grown(inner)])), later: [{}] };
  };
  const encoders: readonly (readonly [string, (value: unknown) => Uint8Array])[] = [
    ["packed", (value) => Uint8Array.from(pack(value))],
    ["JSON", writeJson],
  ];

  it.each(["groups.batch", "groups.begun"] as const)(
    "is read without them in a body of %s that came in pieces",
    (kind) => {
      const { body } = sampleMessage(kind);
      const packed = Uint8Array.from(pack(grown(body)));
      expect(readPiecedBody(kind, packed, newer.minor)).toEqual({ kind, body });
      expect(errorOf(() => readPiecedBody(kind, packed)).message).toContain("later");
    },
  );

  describe.each(encoders)("as %s", (_, encode) => {
    it.each(messageKinds)("is read without the fields of %s that are not known here", (kind) => {
      const message = sampleMessage(kind) as { readonly kind: Kind };
      const sent = grown({ ...message, ...newer });
      expect(decodeMessage(encode(sent))).toEqual({ ...message, ...newer });
    });

    it.each([undefined, protocolMinor])("of minor %s has no such fields", (minor) => {
      const message = { ...sampleMessage("job.stop"), ...(minor === undefined ? {} : { minor }) };
      expect(decodeMessage(encode(message))).toEqual(message);
      expect(errorOf(() => decodeMessage(encode({ ...message, later: 1 }))).message).toContain("later");
      const body = { ...message.body, later: 1 };
      expect(errorOf(() => decodeMessage(encode({ ...message, body }))).message).toContain("later");
    });

    it("is refused for whatever else is wrong with it", () => {
      const sent = { ...sampleMessage("job.stop"), ...newer, body: { reason: 7, later: 1 } };
      expect(errorOf(() => decodeMessage(encode(sent))).message).toContain("job.stop.reason");
      expect(errorOf(() => decodeMessage(encode({ ...sent, minor: -1 }))).message).toContain("envelope.minor");
    });

    it("is refused by name when its major version is another one", () => {
      const sent = { ...sampleMessage("job.stop"), ...newer, v: 2, later: 1 };
      expect(errorOf(() => decodeMessage(encode(sent)))).toMatchObject({ params: { found: 2, known: 1 } });
    });
  });
});
