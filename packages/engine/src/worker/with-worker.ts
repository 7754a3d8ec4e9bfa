/** Workers of their own for those who try them: each is ended when its use is over, whatever came of it. */
import type { ReadyCheck } from "../compliance/index.ts";
import type { WorkerSelf } from "./description.ts";
import type { OpenWorker } from "./open-link.ts";

/** Opens a worker, runs something with it, and ends it. */
export async function withWorker<W extends OpenWorker<WorkerSelf>, T>(
  open: () => Promise<W>,
  run: (worker: W) => Promise<T>,
): Promise<T> {
  const worker = await open();
  try {
    return await run(worker);
  } finally {
    await worker.link.close();
    await worker.regions.close();
  }
}

/** Makes the checks of one subject, each of which has a worker of its own. */
export function checksWith<W extends OpenWorker<WorkerSelf>>(
  subject: string,
  open: () => Promise<W>,
): (says: string, run: (worker: W) => Promise<void>) => ReadyCheck {
  return (says, run) => ({ says: `${subject}: ${says}`, run: () => withWorker(open, run) });
}
