/** What is said of a stream at its limit: which one it is, how much it holds, and what makes room. */
import { formatSize, type MusterError } from "@muster/base";
import { errors } from "./errors.ts";
import { brokerStream, type StreamName, stateBytesMax, streamNames, streamRules } from "./streams.ts";

const moreStorage = "give the store of the broker more room";

const fixes: Readonly<Record<StreamName | "state", string>> = {
  reports: "the controller takes reports away: see that one runs",
  commands: moreStorage,
  journal: moreStorage,
  groups:
    "a checkpoint makes room: run a checkpoint actor (replicas.checkpoint) or lower checkpoint.every_steps, or raise limits.groups_bytes",
  events: moreStorage,
  state: moreStorage,
};

/**
 * The error of a stream that refused the message on `subject` for want of room. Pure.
 *
 * @returns MUSTER_ERR_STREAM_FULL, which passes when there is room again; of the journal, which nobody
 *   can make room in without writing to it, MUSTER_ERR_JOURNAL_FULL.
 */
export function streamFull(subject: string, reason: string, cause?: unknown): MusterError {
  const [, job = "", place] = subject.split(".");
  const name = streamNames.find((each) => each === place) ?? "state";
  if (name === "state") {
    // The subject of a key is `$KV.<bucket>.<key>`.
    return errors.StreamFull(
      { stream: `KV_${job}`, reason, limit: formatSize(stateBytesMax), fix: fixes.state },
      cause,
    );
  }
  const stream = brokerStream(job, name);
  const limit = formatSize(streamRules[name].bytesMax);
  if (name === "journal") return errors.JournalFull({ stream, reason, limit }, cause);
  return errors.StreamFull({ stream, reason, limit, fix: fixes[name] }, cause);
}
