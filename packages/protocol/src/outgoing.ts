/** What is said within the bounds of its own schema: texts are cut to them, and whatever else does not fit is named before it leaves. */
import type { z } from "zod";
import { type Body, type Kind, messageKinds, messageTable } from "./messages/index.ts";
import { clipOf } from "./texts.ts";

const clips = new Map(messageKinds.map((kind) => [kind, clipOf(messageTable[kind].body)]));

/** The body with its texts cut to what the schema takes; the same body when they fit. Pure. */
export function clipBody<K extends Kind>(kind: K, body: Body<K>): Body<K> {
  return (clips.get(kind)?.(body) ?? body) as Body<K>;
}

/** Bodies are said to many: each is looked at once. */
const sound = new WeakSet<object>();

/** What is wrong with a body by the schema of its kind: `<kind>.<path>: <what>`, or `null`. */
export function flawOf(kind: Kind, body: object): string | null {
  if (sound.has(body)) return null;
  const schema: z.ZodType = messageTable[kind].body;
  const { error } = schema.safeParse(body);
  if (!error) sound.add(body);
  const issue = error?.issues[0];
  return issue ? `${[kind, ...issue.path].join(".")}: ${issue.message}` : null;
}
