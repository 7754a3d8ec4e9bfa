/** What a run watches besides its events, and where it writes what happens there: its disks, its broker, its log. */
import { join } from "node:path";
import type { Clock, Logger } from "@muster/base";
import { createLogger } from "@muster/runtime";
import { BrokerWatch } from "./broker-watch.ts";
import { DiskWatch } from "./disk-watch.ts";
import type { Recorder } from "./recorder.ts";
import type { RunOptions } from "./run-options.ts";

/** The tools of one run. */
export interface RunTools {
  readonly logger: Logger;
  readonly disk: DiskWatch;
  readonly broker: BrokerWatch;
}

/** Makes them; what they find is told and recorded. */
export function toolsOf(
  { config, logLevel, progress }: RunOptions,
  { path, clock, recorder }: { readonly path: string; readonly clock: Clock; readonly recorder: Recorder },
): RunTools {
  const broker = new BrokerWatch({
    clock,
    onSilent: (detail) => recorder.brokerSilent(detail, Date.now()),
    note: (line) => progress.note(line),
  });
  const disk = new DiskWatch({
    folders: [path, config.checkpoint.directory],
    clock,
    onFull: (detail) => {
      recorder.diskFull(detail, Date.now());
      progress.note(`! ${detail}; make room and the job goes on; nothing is lost`);
    },
  });
  const log = join(path, "logs", "run.log");
  const destination = { path: log, onFailed: (error: Error) => disk.failed(log, error) };
  const logger = createLogger({ level: logLevel, destination, base: { job: config.job, role: "run" } });
  return { disk, broker, logger };
}
