/** What the process of a module may say, checked before it is used: a module may write to the socket, too. */
import { z } from "@muster/protocol";
import { type Arrays, type Packed, unpacked } from "./wire.ts";
import type { WiredError } from "./wired-error.ts";

const wiredErrorSchema: z.ZodType<WiredError> = z.union([
  z.object({ thrown: z.string() }),
  z.object({
    name: z.string(),
    message: z.string(),
    stack: z.string().optional(),
    code: z.string().optional(),
    turn: z.int().min(0).optional(),
    cause: z.lazy(() => wiredErrorSchema).optional(),
  }),
]);

const packedSchema = <N extends keyof Arrays>(name: N) =>
  z.object({ [name]: z.string() } as Record<N, z.ZodString>).transform((wired) => unpacked(name, wired as Packed<N>));

const id = z.int().min(1);
const turn = z.int().min(0);

/** A reward as a module gave it, checked by its process. */
const judgementSchema = z.object({
  reward: z.number(),
  components: z.record(z.string(), z.number()).optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
});

/** A response of a generate function. */
const responseSchema = z.object({
  responseIds: packedSchema("i32"),
  logprobs: packedSchema("f32"),
  lossMask: packedSchema("u8"),
  finish: z.enum(["stop", "length"]),
  promptIds: packedSchema("i32").optional(),
  versions: packedSchema("f64").optional(),
  reward: judgementSchema.optional(),
  messages: z.array(z.unknown()).optional(),
});

/** What a call comes to. */
export const judgementAnswer = judgementSchema;

/** As {@link judgementAnswer}, of a generate function: one response, or a list of them. */
export const responsesAnswer = z.union([responseSchema, z.array(responseSchema)]);

const requestSchema = z.object({
  promptIds: packedSchema("i32"),
  sampling: z.record(z.string(), z.unknown()).optional(),
  seed: z.number().optional(),
  mayEnd: z.boolean(),
});

/** What a module asks the engine for. */
export type WiredTurn = z.infer<typeof requestSchema>;

/** Everything that a process says. `at` says whose code it goes on with now. */
export const fromModule = z.discriminatedUnion("type", [
  z.object({ type: z.literal("ready") }),
  z.object({ type: z.literal("refused"), error: wiredErrorSchema }),
  z.object({ type: z.literal("pong") }),
  z.object({ type: z.literal("at"), id }),
  z.object({ type: z.literal("answer"), id, value: z.unknown() }),
  z.object({ type: z.literal("failed"), id, error: wiredErrorSchema }),
  z.object({ type: z.literal("draw"), id, turn, request: requestSchema }),
  z.object({ type: z.literal("over"), id, turn }),
]);

/** As {@link fromModule}. */
export type FromModule = z.infer<typeof fromModule>;
