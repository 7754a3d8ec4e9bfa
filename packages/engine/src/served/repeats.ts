/**
 * What of the way in which a server is started stands against equal responses to equal requests. Sources: SGLang's page on deterministic inference,
 * https://docs.sglang.io/advanced_features/deterministic_inference.html, and vLLM's on batch invariance,
 * https://docs.vllm.ai/en/latest/features/batch_invariance.html.
 */
import type { WorkerCommand } from "../programs/command.ts";
import type { EngineProblem } from "../registry/adapter.ts";
import type { Dialect } from "./dialect.ts";

type ServedKind = Dialect["kind"];

interface Rule {
  readonly holds: (command: WorkerCommand) => boolean;
  readonly says: string;
}

const has =
  (...flags: readonly string[]) =>
  ({ words }: WorkerCommand): boolean =>
    words.some((word) => flags.some((flag) => word === flag || word.startsWith(`${flag}=`)));
const hasNone =
  (prefix: string) =>
  ({ words }: WorkerCommand) =>
    !words.some((word) => word.startsWith(prefix));
const isOn = (value: string | undefined): boolean => value !== undefined && /^(1|true|yes|on)$/i.test(value);
const isOff = (value: string | undefined): boolean => value === undefined || /^(0|false|no|n|off)$/i.test(value);

/** Products of matrices that depend on the batch, where SGLang has no kernel that does not. */
const fallback = "SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT";
const asksForEqual = has("--enable-deterministic-inference", "--rl-on-policy-target");

const rules: Readonly<Record<Exclude<ServedKind, "openai">, readonly Rule[]>> = {
  sglang: [
    {
      holds: asksForEqual,
      says: "it has no --enable-deterministic-inference: a response depends on the batch in which it is drawn; add it",
    },
    {
      holds: has("--disable-radix-cache"),
      says: "it has no --disable-radix-cache: a response depends on what was asked before; add it",
    },
    {
      holds: ({ env }) => isOff(env[fallback]),
      says: `${fallback} is on, which takes products that depend on the batch; set it to 0`,
    },
    { holds: hasNone("--speculative"), says: "it has --speculative…: what is drafted depends on timing; leave it out" },
    {
      holds: hasNone("--quantization"),
      says: "it has --quantization, which no deterministic kernel covers; leave it out",
    },
    {
      holds: hasNone("--enable-dp-attention"),
      says: "it has --enable-dp-attention: batches depend on timing; leave it out",
    },
  ],
  vllm: [
    {
      holds: ({ env }) => isOn(env.VLLM_BATCH_INVARIANT),
      says: "VLLM_BATCH_INVARIANT=1 is not in its environment: a response depends on the batch in which it is drawn; set it",
    },
    {
      holds: has("--no-enable-prefix-caching"),
      says: "it has no --no-enable-prefix-caching: a response depends on what was asked before; add it",
    },
    { holds: hasNone("--speculative"), says: "it has --speculative…: what is drafted depends on timing; leave it out" },
    {
      holds: hasNone("--quantization"),
      says: "it has --quantization, which no batch-invariant kernel covers; leave it out",
    },
  ],
};

/**
 * The command with the environment that its own flags ask for: an SGLang server that is to compute deterministically gets the batch-variant fallback
 * switched off, whatever its default is. A value that somebody set stays: {@link flagProblems} tells of it. Pure.
 */
export function withLaunchEnvironment(kind: ServedKind, command: WorkerCommand): WorkerCommand {
  if (kind !== "sglang" || !asksForEqual(command)) return command;
  return { ...command, env: { [fallback]: "0", ...command.env } };
}

/** One sentence for each thing that stands against equal responses; none where the flags promise them. Pure. */
export function flagProblems({
  kind,
  command,
}: {
  readonly kind: ServedKind;
  readonly command: WorkerCommand | null;
}): readonly EngineProblem[] {
  const key = `engine.${kind}.${command ? "command" : "url"}`;
  const problem = (text: string): EngineProblem => ({ keys: [key], text: `${key}: ${text}` });
  if (kind === "openai")
    return [
      problem(
        "servers of this kind compute in batches and promise no equal responses; use sglang or vllm, or the embedded engine",
      ),
    ];
  if (!command)
    return [problem("the server runs already, so its flags can not be seen; let Muster start it with command")];
  return rules[kind].filter(({ holds }) => !holds(command)).map(({ says }) => problem(says));
}
