/** Messages that are dear to take in: noise in a right envelope, and what follows a schema to its largest tables. */
import { messageTable, pack, payloadBytesMax, smallBytesMax } from "@muster/protocol";

const flavours = [
  "noise",
  "largest",
  "wrong everywhere",
  "too much everywhere",
  "wrong at the end",
  "more keys",
  "newer with more keys",
  "as JSON",
];

/** @typedef {{ def: Record<string, any> }} Inner */
/** @typedef {{ leaf: (right: unknown) => unknown, keys: number, room: number }} Style */

/** @param {number} seed */
export function hostile(seed) {
  let state = seed;
  /** @param {number} max */
  const draw = (max) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * max);
  };

  /** Packed by hand, so that it may be whatever no writer would write. @param {number} depth @param {number} room @returns {Buffer} */
  function noise(depth, room) {
    const leaf = [
      0,
      -1,
      "",
      "x".repeat(draw(200)),
      null,
      2 ** 53,
      0.1,
      new Uint8Array(draw(200)),
      "理".repeat(draw(60)),
    ];
    if (depth === 0) return Buffer.from(pack(leaf[draw(leaf.length)]));
    const wanted = [1, 16, 63, 64, 2_048, 4_096, 65_535][draw(7)] ?? 1;
    const inner = noise(depth - 1, room / 2);
    const isMap = draw(2) === 0;
    const count = Math.max(
      1,
      Math.min(wanted, isMap ? 64 : wanted, Math.floor(room / (inner.length + (isMap ? 12 : 0)))),
    );
    const parts = Array.from({ length: count }, (_, i) =>
      isMap ? [Buffer.from(pack(`k${i}-${draw(9_999)}`)), inner] : inner,
    );
    return Buffer.concat([Buffer.of(isMap ? 0xde : 0xdc, count >> 8, count & 0xff), ...parts.flat()]);
  }

  /** A value of a schema with tables as long as it takes them. @param {any} schema @param {Style} style @returns {any} */
  function largest(schema, style) {
    const { def } = /** @type {{ _zod: Inner }} */ (schema)._zod;
    const each = (/** @type {any} */ inner) => largest(inner, style);
    switch (def.type) {
      case "optional":
      case "nullable":
      case "readonly":
        return each(def.innerType);
      case "object": {
        const fields = Object.entries(def.shape).map(([key, inner]) => [key, each(inner)]);
        const more = Array.from({ length: style.keys }, (_, i) => [`more${i}`, i]);
        return Object.fromEntries([...fields, ...more].slice(0, 64));
      }
      case "array": {
        const most = schema._zod.bag.maximum ?? 64;
        const one = each(def.element);
        const fitting = Math.floor(style.room / (pack(one).length + 1));
        const count = Math.max(1, Math.min(most, fitting));
        return Array.from({ length: count }, () => one);
      }
      case "union":
        return each(def.options[draw(def.options.length)]);
      case "string": {
        const most = schema._zod.bag.maximum ?? 40;
        return style.leaf("a".repeat(Math.min(most, draw(2) === 0 ? 2 : 60)));
      }
      case "number":
        return style.leaf(2 ** (7 * draw(7)));
      case "enum":
        return style.leaf(Object.values(def.entries)[0]);
      case "literal":
        return def.values[0];
      case "boolean":
        return style.leaf(true);
      default:
        return new Uint8Array(draw(4) * 4);
    }
  }

  /** @param {string} flavour @param {number} room @returns {Style} */
  function styleOf(flavour, room) {
    if (flavour === "wrong everywhere")
      return { leaf: (right) => [null, -1, [], true][draw(4)] ?? typeof right, keys: 0, room };
    if (flavour === "too much everywhere")
      return { leaf: (right) => (typeof right === "string" ? "~" : 2 ** 60), keys: 0, room };
    if (flavour.includes("more keys")) return { leaf: (right) => right, keys: [1, 40, 64][draw(3)] ?? 1, room };
    return { leaf: (right) => right, keys: 0, room };
  }

  /** @param {{ kind: import("@muster/protocol").Kind, role: string, flavour: string }} what @returns {Uint8Array} */
  function messageOf({ kind, role, flavour }) {
    const definition = messageTable[kind];
    const isLarge = "isLarge" in definition || definition.direction === "groups";
    const room = (isLarge ? payloadBytesMax : smallBytesMax) - 2_048;
    const minor = flavour.startsWith("newer") ? 1_000 : 0;
    const ids = { v: 1, minor, id: "a.1", kind, job: "dates", from: "a", role, incarnation: "a", seq: 1 };
    const envelope = { ...ids, term: 0, epoch: 0, deadlineMs: null, sentAtMs: 0 };
    if (flavour === "noise") {
      const fields = Object.keys(/** @type {any} */ (definition.body).shape);
      const whole = Buffer.from(pack({ ...envelope, body: { [fields[draw(fields.length)] ?? ""]: 0 } }));
      return Uint8Array.from(Buffer.concat([whole.subarray(0, -1), noise(1 + draw(4), room)]));
    }
    const body = largest(definition.body, styleOf(flavour, room / (1 + draw(3))));
    if (flavour === "wrong at the end") Object.assign(body, { last: 0 });
    if (flavour === "as JSON") return new TextEncoder().encode(JSON.stringify({ ...envelope, body }));
    return Uint8Array.from(pack({ ...envelope, body }));
  }

  return { messageOf, flavours };
}
