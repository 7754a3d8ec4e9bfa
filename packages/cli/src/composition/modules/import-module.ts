/** A process that tries one module of a job and says how that went: what the module throws, prints or never ends is its own affair there. */
import { messageOf } from "@muster/base";
import { openModuleTask } from "@muster/data";
import { loadGenerate, loadReward } from "@muster/engine";
import type { FoundTaskModule, NamedPlan } from "@muster/runtime/config";
import type { ModuleAnswer } from "./ask-module.ts";

const [path = "", use, given = "null"] = process.argv.slice(2);

async function tryTask(plan: NamedPlan): Promise<FoundTaskModule> {
  const task = await openModuleTask(path, plan);
  await task.check(plan.evalPrompts);
  const { digest, vocab, tokenizerDigest, hasEvalPrompt, hasReward } = task;
  const maxTokens = task.maxTokens - plan.maxNewTokens;
  return { digest, vocab, tokenizerDigest, maxTokens, hasEvalPrompt, hasReward };
}

async function tryModule(): Promise<unknown> {
  if (use === "task") return await tryTask(JSON.parse(given) as NamedPlan);
  return void (await (use === "reward" ? loadReward : loadGenerate)(path));
}

const answer: ModuleAnswer = await tryModule().then(
  (found) => ({ found: found ?? null }),
  (error: unknown) => ({ fault: messageOf(error) }),
);
process.send?.(answer, () => process.exit());
