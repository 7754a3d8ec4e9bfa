/** How many durable messages the steps of a running job take: each is a synced write of its broker. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Credentials, connectNats, type StreamName, streamNames, type Transport } from "@muster/transport";
import { waitFor } from "./wait-for.ts";

const joinMs = 20_000;

/** Messages of a step by stream, on average. */
export type StepMessages = Readonly<Record<StreamName | "total", number>>;

/** Of which steps of which run. */
export interface CountedSteps {
  /** Folder of a run that has begun. */
  readonly directory: string;
  readonly job: string;
  /** Counting begins when this one is committed, and ends with the other. */
  readonly fromStep: number;
  readonly toStep: number;
  /** Default a minute. */
  readonly timeoutMs?: number;
}

/**
 * Counts as the controller's user, who may look at all streams.
 *
 * @throws Error when the steps are not committed in time.
 */
export async function countStepMessages(steps: CountedSteps): Promise<StepMessages> {
  const { fromStep, toStep, timeoutMs = 60_000 } = steps;
  const transport = await connectTo(steps);
  const marks = new Map<number, Promise<readonly number[]>>();
  const count = (): Promise<readonly number[]> =>
    Promise.all(streamNames.map(async (name) => (await transport.usage(name)).lastSeq));
  let committed = 0;
  try {
    await transport.tail({
      ...{ stream: "events", fromSeq: 1 },
      handle: ({ subject }) => {
        if (!subject.endsWith(".step.committed")) return;
        committed += 1;
        if (committed === fromStep || committed === toStep) marks.set(committed, count());
      },
    });
    const end = await waitFor(() => marks.get(toStep), { what: `step ${toStep} of ${steps.job}`, timeoutMs });
    const start = (await marks.get(fromStep)) ?? [];
    const perStep = end.map((seq, i) => (seq - (start[i] ?? Number.NaN)) / (toStep - fromStep));
    const total = perStep.reduce((sum, each) => sum + each, 0);
    return { ...Object.fromEntries(streamNames.map((name, i) => [name, perStep[i]])), total } as StepMessages;
  } finally {
    await transport.close();
  }
}

async function connectTo({ directory, job }: CountedSteps): Promise<Transport> {
  const path = join(directory, "credentials", "controller.json");
  await waitFor(() => existsSync(path) && existsSync(join(directory, "connection.json")), {
    ...{ what: `the broker of ${job}`, timeoutMs: joinMs },
  });
  const { url, credentials } = JSON.parse(readFileSync(path, "utf8")) as {
    readonly url: string;
    readonly credentials: { readonly controller: Credentials };
  };
  const name = "controller.controller.counting";
  return connectNats({ url, job, name, credentials: credentials.controller, connectTimeoutMs: joinMs });
}
