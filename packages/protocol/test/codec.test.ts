import { MusterError } from "@muster/base";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type AnyMessage,
  decodeMessage,
  encodeMessage,
  isKind,
  isMalformed,
  type Kind,
  type Message,
  pack,
  payloadBytesMax,
  peekMessage,
  type SealedMessage,
  smallBytesMax,
  unpack,
  unseal,
} from "../src/index.ts";
import { messageKinds } from "../src/internal.ts";
import { sampleMessage } from "./samples.ts";

const plain = sampleMessage("weights.held");

/** A message as the broker hands it over: not a Buffer of Node. */
const bytesOf = (message: AnyMessage): Uint8Array => Uint8Array.from(encodeMessage(message as Message));

function codeOf(data: Uint8Array): string {
  try {
    decodeMessage(data);
    return "decoded";
  } catch (error) {
    expect(error, "only refusals are thrown").toSatisfy(isMalformed);
    return (error as MusterError).code;
  }
}

describe("a message", () => {
  it.each(messageKinds)("%s comes back as it was sent", (kind) => {
    expect(decodeMessage(bytesOf(sampleMessage(kind)))).toEqual(sampleMessage(kind));
  });

  it("needs neither addressee nor cause", () => {
    const { to: _, cause: __, ...bare } = plain;
    expect(decodeMessage(pack(bare))).toEqual(bare);
  });

  it("does not share memory with the bytes it came in", () => {
    const data = encodeMessage(sampleMessage("replica.registered"));
    const message = decodeMessage(data) as Message<"replica.registered">;
    data.fill(0xff);
    expect(message.body.dataKey[1]).toBe(7);
  });

  it("over the limit is not sent", () => {
    const body = { reason: "x".repeat(payloadBytesMax) };
    expect(() => encodeMessage({ ...plain, kind: "job.stop", body } as Message<"job.stop">)).toThrow(
      expect.objectContaining({ code: "MUSTER_ERR_MESSAGE_TOO_LARGE" }),
    );
  });
});

describe("bytes that are no message", () => {
  it("are refused unread when they are over the limit", () => {
    expect(codeOf(new Uint8Array(payloadBytesMax + 1))).toBe("MUSTER_ERR_MESSAGE_TOO_LARGE");
    expect(() => unpack(new Uint8Array(9), 8)).toThrow(
      expect.objectContaining({ params: { bytes: 9, limitBytes: 8 } }),
    );
  });

  it("are told apart from messages of another version, which say both", () => {
    expect(() => decodeMessage(pack({ ...plain, v: 2, shape: "new" }))).toThrow(
      expect.objectContaining({ code: "MUSTER_ERR_MESSAGE_OTHER_VERSION", params: { found: 2, known: 1 } }),
    );
    expect(codeOf(pack({ v: 2 }))).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
    expect(codeOf(pack({ ...plain, v: "2" }))).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
  });

  it.each(["groups.batch", "step.voted", "replica.registered"] as const)(
    "are refused when %s is cut short at any byte",
    (kind) => {
      const data = encodeMessage(sampleMessage(kind));
      for (let length = 0; length < data.length; length++)
        expect(codeOf(data.subarray(0, length)), `${length} bytes`).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
    },
  );

  it("are refused when something follows the message", () => {
    expect(codeOf(Buffer.concat([encodeMessage(plain), Uint8Array.of(0)]))).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
  });

  it("are refused without a large allocation when a header promises millions of elements", () => {
    const promise = Uint8Array.of(0xdd, 0x01, 0xf0, 0, 0);
    const data = Buffer.concat(Array.from({ length: 10_000 }, () => promise));
    const before = process.memoryUsage().rss;
    expect(codeOf(data)).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
    expect(process.memoryUsage().rss - before).toBeLessThan(256 * 1024 * 1024);
  });

  it("are refused when they nest deeper than the stack", () => {
    const data = Buffer.concat([Buffer.alloc(500_000, 0x91), Uint8Array.of(0)]);
    expect(codeOf(data)).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
  });

  it("never make anything happen but a refusal, however they are changed", () => {
    const messages = messageKinds.map((kind) => encodeMessage(sampleMessage(kind)));
    const change = fc.record({ at: fc.nat(), byte: fc.integer({ min: 0, max: 255 }), cut: fc.boolean() });
    fc.assert(
      fc.property(
        fc.constantFrom(...messages),
        fc.array(change, { minLength: 1, maxLength: 6 }),
        (message, changes) => {
          let data = Uint8Array.from(message);
          for (const { at, byte, cut } of changes) {
            data[at % data.length] = byte;
            if (cut && at % data.length > 0) data = data.slice(0, at % data.length);
          }
          codeOf(data);
        },
      ),
      { numRuns: 4_000, seed: 20_260 },
    );
  });

  it("never make anything happen but a refusal when they are noise", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (data) => {
        expect(codeOf(data)).toMatch(/^MUSTER_ERR_MESSAGE_/);
      }),
      { numRuns: 2_000, seed: 20_261 },
    );
  });

  it("do not change how the next message is read", () => {
    const define = Buffer.from("d472409101c0", "hex");
    codeOf(define);
    expect(decodeMessage(encodeMessage(plain))).toEqual(plain);
  });
});

describe("a message of another form", () => {
  const refusal = (message: object): string => {
    try {
      decodeMessage(pack(message));
      return "decoded";
    } catch (error) {
      return (error as MusterError).message;
    }
  };

  it("of a kind that is not in the table is refused by its name", () => {
    expect(codeOf(pack({ ...plain, kind: "weights.lost" }))).toBe("MUSTER_ERR_MESSAGE_UNKNOWN_KIND");
    expect(refusal({ ...plain, kind: "weights.lost" })).toContain('"weights.lost"');
  });

  it.each(["constructor", "__proto__", "toString", "hasOwnProperty"])("of kind %s is unknown", (kind) => {
    expect(isKind(kind)).toBe(false);
    expect(codeOf(pack({ ...plain, kind }))).toBe("MUSTER_ERR_MESSAGE_UNKNOWN_KIND");
  });

  it("with a key too many is refused, in the envelope and in the body", () => {
    expect(refusal({ ...plain, extra: 1 })).toContain("extra");
    expect(refusal({ ...plain, body: { ...plain.body, extra: 1 } })).toContain("extra");
  });

  it("cannot reach a prototype", () => {
    const hostile = Buffer.from(pack({ ...plain, body: { ...plain.body, prototype: { polluted: 1 } } }));
    const renamed = Buffer.from(hostile.toString("latin1").replace("prototype", "__proto__"), "latin1");
    expect(renamed.equals(hostile)).toBe(false);
    expect(codeOf(renamed)).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it.each([
    ["v", "1"],
    ["id", ""],
    ["job", "Demo"],
    ["from", "a.b"],
    ["from", "*"],
    ["role", "admin"],
    ["incarnation", ">"],
    ["to", null],
    ["seq", -1],
    ["seq", 1.5],
    ["term", 2 ** 60],
    ["epoch", Number.NaN],
    ["deadlineMs", -1],
    ["sentAtMs", "now"],
    ["cause", "x".repeat(129)],
    ["body", null],
  ])("with %s = %j is refused and named", (field, value) => {
    expect(codeOf(pack({ ...plain, [field]: value }))).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
    expect(refusal({ ...plain, [field]: value })).toContain(field === "body" ? plain.kind : `envelope.${field}`);
  });

  it.each(["v", "id", "kind", "job", "from", "role", "incarnation", "seq", "term", "epoch", "deadlineMs", "sentAtMs"])(
    "without %s is refused",
    (field) => {
      const { [field]: _, ...rest } = plain as unknown as Record<string, unknown>;
      expect(codeOf(pack(rest))).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
    },
  );

  it.each([null, 0, "text", [], [plain], new Date(0), new Map([["v", 1]])])("that is %s is refused", (value) => {
    expect(codeOf(pack(value))).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
  });

  it.each(messageKinds)("%s with the body of another form is refused", (kind) => {
    for (const body of [undefined, null, [], "x", { unknown: 1 }])
      expect(codeOf(pack({ ...sampleMessage(kind), body }))).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
  });
});

describe("a section with the name of its tensor table", () => {
  const text = { bytes: 21_000, digest: "xxh64b:4455667700112233" };
  const table = { rows: 200_000, digest: "sha256:0123", text };
  const withTable = (of: unknown): unknown => ({
    ...plain,
    body: { ...plain.body, sections: [{ name: "weights", bytes: 4096, digest: "xxh64b:11", table: of }] },
  });

  it("arrives with it", () => {
    expect(decodeMessage(Uint8Array.from(pack(withTable(table))))).toEqual(withTable(table));
  });

  it.each([
    ["more rows than a table may have", { ...table, rows: 200_001 }],
    ["a text for which nobody takes memory", { ...table, text: { ...text, bytes: 2 ** 28 + 1 } }],
    ["no digest", { ...table, digest: "" }],
  ])("is refused with %s", (_, of) => {
    expect(codeOf(Uint8Array.from(pack(withTable(of))))).toBe("MUSTER_ERR_MESSAGE_MALFORMED");
  });
});

describe("a table in which every row is wrong", () => {
  const rows = Array.from({ length: 1_000 }, () => null);
  it.each(messageKinds)("is refused at its first row, in %s", (kind) => {
    let looks = 0;
    const table = new Proxy(rows, {
      get(target, key, receiver) {
        if (typeof key === "string" && /^\d+$/.test(key)) looks += 1;
        return Reflect.get(target, key, receiver) as unknown;
      },
    });
    const message = sampleMessage(kind);
    const tables = Object.entries(message.body).filter(([, value]) => Array.isArray(value));
    const body = { ...message.body, ...Object.fromEntries(tables.map(([field]) => [field, table])) };
    if (tables.length > 0) expect(() => unseal({ ...message, body } as SealedMessage)).toThrow(tables[0]?.[0]);
    // Once by the quick check, once by the schema, which says why.
    expect(looks).toBeLessThanOrEqual(2);
  });
});

describe("a look at what was refused", () => {
  const at = (kind: Kind) => ({ subject: `muster.demo.reports.rollout.r0.${kind}`, seq: 7 });
  it("decodes no large message a second time, and says what it was by its place", () => {
    const large = pack({ ...sampleMessage("groups.saved"), more: "x".repeat(smallBytesMax) });
    expect(peekMessage(large, at("groups.saved"))).toEqual({ said: "groups.saved" });
    const { id } = sampleMessage("groups.saved");
    expect(peekMessage(pack(sampleMessage("groups.saved")), at("groups.saved"))).toEqual({ id, said: "groups.saved" });
    const other = pack({ ...sampleMessage("job.stop"), more: "x".repeat(smallBytesMax) });
    expect(peekMessage(other, at("job.stop"))).toMatchObject({ id: sampleMessage("job.stop").id, said: "job.stop" });
  });
});

describe("isMalformed", () => {
  it("tells the sender's faults from ours", () => {
    expect(isMalformed(new MusterError("MUSTER_ERR_MESSAGE_MALFORMED", "", { retryable: false, params: {} }))).toBe(
      true,
    );
    expect(isMalformed(new MusterError("MUSTER_ERR_FENCED", "", { retryable: false, params: {} }))).toBe(false);
    expect(isMalformed(new Error("MUSTER_ERR_MESSAGE_MALFORMED"))).toBe(false);
  });
});
