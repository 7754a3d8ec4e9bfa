/**
 * What of the way in which a server is started stands against equal responses to equal requests. Sources: SGLang's page on deterministic inference,
 * https://docs.sglang.io/advanced_features/deterministic_inference.html, and vLLM's on batch invariance,
 * https://docs.vllm.ai/en/latest/features/batch_invariance.html.
 */
import type { WorkerCommand } from "../programs/command.ts";
import type { EngineProblem } from "../registry/adapter.ts";
import type { ServedKind, ServedOptions } from "./options.ts";

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

const rules: Readonly<Record<Exclude<ServedKind, "openai">, readonly Rule[]>> = {
  sglang: [
    {
      holds: has("--enable-deterministic-inference", "--rl-on-policy-target"),
      says: "it has no --enable-deterministic-inference: a response depends on the batch in which it is drawn; add it",
    },
    {
      holds: has("--disable-radix-cache"),
      says: "it has no --disable-radix-cache: a response depends on what was asked before; add it",
    },
    {
      holds: ({ env }) => !isOn(env.SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT),
      says: "SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT is on, which takes products that depend on the batch; set it to 0",
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

/** One sentence for each thing that stands against equal responses; none where the flags promise them. Pure. */
export function flagProblems({ kind, command }: Pick<ServedOptions, "kind" | "command">): readonly EngineProblem[] {
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
