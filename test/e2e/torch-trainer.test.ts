/**
 * Trainers in PyTorch and embedded samplers train the date task: a replica that is killed midway changes no bit. Two jobs of four steps; each process of
 * PyTorch takes seconds to start: about 80 s on two busy cores, where PyTorch is installed. In continuous integration the number of the commit says whether
 * all weights are trained, by one process or by two that share the model by FSDP, or adapters, or in bfloat16 a model of `transformers`, where that is
 * installed. MUSTER_TEST_TORCH_DEVICE=cuda has them on a GPU.
 */
import { processesNaming } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";
import { python, pythonWithFsdp, pythonWithTransformers, torchTrainer } from "./support/torch.ts";
import { turn } from "./support/turn.ts";

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 });

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());
beforeEach((context) => context.skip(python === undefined, "no python3 here has torch"));

interface Kind {
  readonly kind: string;
  readonly program?: string | undefined;
  /** Further arguments of the worker. */
  readonly more?: readonly string[];
  readonly training?: readonly string[];
}

const needing = (program: string | undefined, kind: Kind): readonly Kind[] => (program ? [{ ...kind, program }] : []);

/** Adapters are trained with another objective, a divergence from a reference policy in the loss, and stale correction. */
const kinds: readonly Kind[] = [
  { kind: "all weights" },
  ...needing(pythonWithFsdp, { kind: "two processes each", training: ["processes.policy=2"] }),
  {
    kind: "adapters",
    more: ["--lora-rank", "8"],
    training: ["algorithm=gspo", "kl_coefficient=0.02", "stale_correction=truncate"].map((key) => `training.${key}`),
  },
  { kind: "given answers", training: ["training.algorithm=sft", "batch.group_size=1"] },
  ...needing(pythonWithTransformers, {
    kind: "bfloat16",
    more: ["--implementation", "transformers", "--dtype", "bfloat16"],
    training: ["training.kl_coefficient=0.02"],
  }),
];
const chosen = kinds.filter((_, index) => turn === null || index === turn % kinds.length);

test.for(chosen)(
  "two trainers of $kind in PyTorch with embedded samplers end with the weights of a quiet run when one of them is killed",
  async ({ kind, program = python, more = [], training = [] }) => {
    const name = kind.replaceAll(" ", "-");
    const settings = [
      ...torchTrainer(runs.path, name, more, program),
      "engine.rollout=embedded",
      "batch.micro_shards=4",
      "evaluation.every_steps=0",
      ...training,
    ].flatMap((setting) => ["--set", setting]);
    const start = (job: string) => runs.start(job, "--steps", "4", "--policy", "2", "--rollout", "1", ...settings);

    const size = training.includes("batch.group_size=1") ? 1 : 8;
    const quiet = await (await start(`quiet-${name}`)).ended();
    expect(quiet).toMatchObject({ steps: 4, ledger: { trained: 4 * 16 * size, aborted: 0, quarantined: 0 } });
    const run = await start(`killed-${name}`);
    await run.waitForEvent("step.committed", () => true, 90_000); // two processes import PyTorch first
    // Of several processes the one that is not rank 0: all of them end with it.
    const [second] = processesNaming(runs.path).filter(
      ({ args }) => args.includes("policy-1") && args.includes("--rank") && args.includes("policy"),
    );
    process.kill(second?.pid ?? run.pidOf("policy-1"), "SIGKILL");
    await run.waitForEvent("member.died", ({ id }) => id === "policy-1");
    const summary = await run.ended();
    expect(summary.weights_hash).toBe(quiet.weights_hash);
    expectBalanced(summary);
  },
);
