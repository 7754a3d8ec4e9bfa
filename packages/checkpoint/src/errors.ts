import { defineErrors } from "@muster/base";

/** Errors of checkpoints. */
export const errors = defineErrors("MUSTER_ERR", {
  CheckpointNameInvalid: {
    message: 'checkpoint name "{name}" is not valid; use a name that list() gave, such as "step-00000120-v120-t3"',
  },
  CheckpointOptionInvalid: { message: "checkpoint store option {field} is {value}; use {fix}" },
  CheckpointContentInvalid: { message: "checkpoint of step {step} cannot be written: {field} {reason}" },
  CheckpointManifestInvalid: { message: "checkpoint manifest refused: {reason}" },
  CheckpointCorrupt: {
    message: 'checkpoint "{name}" is damaged: {reason}; restore an older one, this one is never listed',
  },
  CheckpointMissing: {
    message: 'checkpoint "{name}" is not there or was just removed by retention; ask for the latest one again',
    retryable: true,
  },
  CheckpointReadFailed: { message: 'checkpoint "{name}" could not be read: {reason}', retryable: true },
  CheckpointWriteFailed: {
    message: 'checkpoint "{name}" could not be written: {reason}; earlier checkpoints are untouched, {leftover}',
    retryable: true,
  },
  CheckpointDiskFull: {
    message:
      'checkpoint "{name}" does not fit on the disk of {folder}: {freeBytes} bytes are free and it needs {neededBytes}; earlier checkpoints are untouched, {leftover}; free space there, or move the folder to a larger disk',
    retryable: true,
  },
  CheckpointShardsMissing: {
    message:
      'checkpoint "{name}" is not whole: of its {of} shards, {missing} are not in {folder}, though they were reported durable; with checkpoint.shards = {of}, checkpoint.directory must be one folder that all checkpoint actors see: put it on storage that their hosts share, or set checkpoint.shards = 1',
    retryable: true,
  },
  CheckpointAborted: { message: 'writing of checkpoint "{name}" was aborted; {leftover}', retryable: true },
  CheckpointFenced: {
    message: "term {term} may not write a checkpoint after term {newestTerm} did; another controller acts for the job",
  },
  CheckpointStale: {
    message:
      'lineage {lineage} step {step} is older than the newest checkpoint "{newest}"; a new run needs its own folder or a new lineage',
  },
  CheckpointForeign: {
    message: 'the folder holds checkpoints of job "{found}", not "{job}"; give each job its own folder',
  },
  CheckpointBusy: {
    message: "{waiting} checkpoint operations already wait; the disk does not keep up",
    retryable: true,
  },
  CheckpointHashThread: { message: "no thread hashes the pieces of checkpoints: {reason}", retryable: true },
  CheckpointNamesTaken: {
    message: 'all {limit} names that start with "{base}" are taken by leftovers; sweep() removes them',
  },
});
