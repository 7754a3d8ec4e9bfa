/** `muster barrier`: a script on several hosts waits between its phases, in the place of flag files and pauses. */
import { type Body, barrierDecisionMax, barrierPolicies, barrierRangesMax, barrierRanksMax } from "@muster/protocol";
import { type ExitCode, exitCodes } from "@muster/runtime";
import { type Command, Option } from "commander";
import { pasted } from "../composition/pasted.ts";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { type Operator, withJob } from "../job/open-job.ts";
import { rankOf, weightsOf } from "../job/rank-options.ts";
import { cleanLine } from "../report/text.ts";
import { countOf, durationOf, type LocationOptions, withLocation } from "./common.ts";
import { listed } from "./list.ts";

interface Options extends LocationOptions {
  readonly iteration: string;
  readonly epoch: string;
  readonly rank?: string;
  readonly ranks: string;
  readonly rankWeights?: string;
  readonly quorum?: string;
  readonly timeout: string;
  readonly onMissing: (typeof barrierPolicies)[number];
  readonly items?: string;
  readonly done?: string;
  readonly decision?: string;
  readonly json?: boolean;
}

type Arrival = Body<"barrier.arrived">;
type End = Body<"barrier.ended"> | Body<"barrier.refused">;

const iterationMax = 1_000_000_000;

/** Adds the command. */
export function addBarrierCommand(program: Command): void {
  withLocation(listed(program, "barrier"))
    .argument("<phase>", "the phase that this rank has finished, 0 to 13")
    .requiredOption("--iteration <n>", "iteration of the script")
    .requiredOption("--ranks <n>", "how many ranks there are")
    .option("--rank <n>", "this rank (default: RANK, else NODE_RANK)")
    .option("--epoch <n>", "attempt at the phases; count it up to begin an iteration again", "0")
    .option("--rank-weights <list>", "load of each rank, e.g. 2,1,1 (default: all alike)")
    .option("--items <n>", "items of work, which the answer shares out by weight")
    .option(
      "--done <ranges>",
      "items that this rank has finished, e.g. 0-128,200-256: from the first to before the last",
    )
    .option("--decision <text>", "what rank 0 decides for all; the answer has it")
    .option("--timeout <duration>", "time from the first arrival to the deadline", "10m")
    .addOption(
      new Option("--on-missing <what>", "at the deadline: wait on, go on without them, or give up")
        .choices([...barrierPolicies])
        .default("wait"),
    )
    .option("--quorum <n>", "with eject: fewest ranks that go on without the others (default: all)")
    .option("--json", "end with one line of JSON")
    .action(async (phase: string, options: Options) => {
      const body = arrivalOf(phase, options);
      process.exitCode = await untilInterrupted((signal) =>
        withJob({ ...options, role: "script" }, async (operator) =>
          show(await arriveAt(operator, body, signal), options),
        ),
      );
    });
}

function arrivalOf(phase: string, options: Options): Arrival {
  const ranks = countOf("ranks", options.ranks, { min: 1, max: barrierRanksMax });
  const { rankWeights, quorum, items, done, decision, onMissing } = options;
  return {
    epoch: countOf("epoch", options.epoch, { min: 0, max: iterationMax }),
    iteration: countOf("iteration", options.iteration, { min: 0, max: iterationMax }),
    phase: countOf("phase", phase, { min: 0, max: 13 }),
    ...{ rank: rankOf({ option: "rank", said: options.rank, ranks, env: process.env }), ranks, onMissing },
    timeoutMs: timeoutOf(options.timeout),
    ...(rankWeights === undefined ? {} : { weights: [...weightsOf(rankWeights, ranks)] }),
    ...(quorum === undefined ? {} : { quorum: countOf("quorum", quorum, { min: 1, max: ranks }) }),
    ...(items === undefined ? {} : { items: countOf("items", items, { min: 0, max: 1_000_000_000 }) }),
    ...(done === undefined ? {} : { done: rangesOf(done) }),
    ...(decision === undefined ? {} : { decision: decisionOf(decision) }),
  };
}

function timeoutOf(text: string): number {
  const timeoutMs = durationOf("timeout", text);
  if (timeoutMs >= 1_000 && timeoutMs <= 86_400_000) return timeoutMs;
  throw errors.OptionInvalid({ option: "timeout", value: text, reason: "is not from 1s to 24h" });
}

function decisionOf(text: string): string {
  if (text.length <= barrierDecisionMax) return text;
  const reason = `has ${text.length} characters, at most ${barrierDecisionMax} reach the other ranks; name a file in it`;
  throw errors.OptionInvalid({ option: "decision", value: `${text.slice(0, 40)}…`, reason });
}

function rangesOf(text: string): { from: number; to: number }[] {
  const parts = text === "" ? [] : text.split(",");
  const reason = `is no list of at most ${barrierRangesMax} ranges such as 0-128,200-256`;
  if (parts.length > barrierRangesMax) throw errors.OptionInvalid({ option: "done", value: text.slice(0, 80), reason });
  return parts.map((part) => {
    const [, from, to] = /^(\d{1,10})-(\d{1,10})$/.exec(part) ?? [];
    if (from === undefined || to === undefined) throw errors.OptionInvalid({ option: "done", value: text, reason });
    return { from: Number(from), to: Number(to) };
  });
}

/** How often an arrival is said again while nobody answers: a controller that came anew may not have heard of it. */
const againMs = 30_000;

async function arriveAt(operator: Operator, body: Arrival, signal: AbortSignal): Promise<End> {
  for (;;) {
    const end = await operator.client.arrive(body, { timeoutMs: againMs, signal });
    if (end) return end;
    const { iteration, phase, rank } = body;
    const missing = `who is missing, an operator sees with: ${pasted("watch", ...operator.way)}`;
    process.stderr.write(`muster: rank ${rank} waits at iteration ${iteration} phase ${phase}; ${missing}\n`);
  }
}

function show(end: End, { json, timeout }: Options): ExitCode {
  const { iteration, phase, reason } = end;
  const outcome = "outcome" in end ? end.outcome : "refused";
  const isPassed = outcome === "whole" || outcome === "partial";
  if (json) process.stdout.write(`${JSON.stringify({ outcome, ...end })}\n`);
  else if (isPassed) process.stdout.write(`${outcome}: iteration ${iteration} phase ${phase}: ${cleanLine(reason)}\n`);
  else process.stderr.write(`muster: barrier ${outcome} (--timeout ${timeout}): ${cleanLine(reason)}\n`);
  if (isPassed) return exitCodes.ok;
  return outcome === "refused" ? exitCodes.badInput : exitCodes.failed;
}
