import { defineErrors } from "@muster/base";

/** Errors of the actors. */
export const errors = defineErrors("MUSTER_ERR", {
  ActorNotOpen: { message: "{what} came before the engine was opened" },
  NoAgents: { message: "this process can start no agents, and the job samples with one: {command}" },
  BatchIncomplete: { message: "step {step}: the stored batch lacks {missing} of {wanted} groups" },
  CheckpointReplaced: { message: "checkpoint {name} has another manifest than the one that was reported durable" },
  CheckpointOfOtherInput: {
    message:
      "checkpoint {path} can not be gone on from by job {job}: {flaw}; use the job file that it was made with, or begin a new job from its weights under another name (--job NAME --set weights.source=checkpoint:{path})",
  },
  BatchMalformed: { message: "step {step}: message {seq} of the groups stream is not a batch: {reason}" },
  PromotedDiffers: { message: "version {version}: section {section} has digest {found}, committed is {wanted}" },
  JournalMalformed: { message: "journal record {seq} can not be read: {reason}" },
  JournalVersion: {
    message:
      "{what} of the journal has version {found}, and this program reads {known}; go on with the version of Muster that wrote it, or under another job name from the newest checkpoint",
  },
  JournalOtherRules: {
    message:
      "{found} wrote {records} of the journal, and this program, {own}, may come from them to another state than the one that was acted on; start the job once more with the program that wrote them and end it with Ctrl-C or SIGTERM: its last record is a snapshot then, and from that this program goes on; or go on under another job name from the newest checkpoint (--job NAME --set weights.source=checkpoint:FOLDER)",
  },
  JournalHeadless: {
    message:
      "the journal begins at record {first}, and no whole snapshot there stands in for what came before: records were removed by somebody else than a controller; go on under another job name from the newest checkpoint",
  },
  JournalLost: {
    message:
      "the journal of job {job} is empty, but {directory} has the checkpoint {name}: the broker's store was lost, or this is another broker; put the store back, or, when it is lost for good, go on from the newest checkpoint with --store-lost, or under another name (--job NAME --set weights.source=checkpoint:{directory}/{name}), or remove the folder to begin anew",
  },
  NothingToRestore: {
    message:
      "the store of job {job} is lost, and no checkpoint in {directory} can be restored, not even {name}: none of them is whole; put one back from a copy, or remove the folder to begin anew",
  },
  VersionNotHeld: { message: "the work needs version {wanted} of lineage {lineage}; this replica serves {held}" },
  MemoryTooSmall: {
    message:
      "{versions} versions of the training state take {wanted}, more than {share} of the {available} of memory that is available here; give the host or its container more memory, or set checkpoint.memory_every = 0",
  },
  WorkStuck: { message: "{what} was told to end and did not within {timeoutMs} ms; only a new process frees it" },
  GroupTooLarge: {
    message:
      "group {group} takes {bytes} bytes and a group of this job at most {limit}, so it can not be stored: lower batch.group_size, rollout.fan_out or sampling.max_new_tokens",
  },
  GroupsMalformed: { message: "message {seq} of the groups stream can not be read: {reason}" },
  HandedBack: { message: "unfinished groups are handed back: {reason}" },
  EngineStatsInvalid: {
    message: "the engine's accumulate() returned {field} = {value}; it must be {rule}",
  },
  ConfigRefused: { message: "the controller sent a configuration that this version does not accept: {reason}" },
  RankConfig: {
    message:
      "{path}, from which the ranks of a replica know their job, can not be read ({reason}); their node writes it when it is admitted: start the node again",
  },
  RankEnvironment: {
    message:
      'the environment says {variable} = "{value}" where a node writes a number; ranks of replicas are started by muster node',
  },
  ShardTicket: {
    message:
      "what this rank was given is no ticket of a version ({reason}); rank 0 hands on the ticket of its update as it is",
  },
  RankTicket: {
    message: "what this rank was given is no ticket of rank 0 ({reason}); performAll() hands it on as it is",
  },
  RankAnswer: {
    message:
      "what rank {rank} answered is refused ({reason}); performAll() gives back what perform() of each rank returned",
  },
  RankState: {
    message:
      "rank {rank} of the trainer has {bytes} bytes of {name}, and its shard has {wanted}; the engine's state() and candidate() give the shard that it attached",
  },
  ShardRoom: {
    message:
      "rank {rank} was given {bytes} bytes of memory for its part of the weights, which has {wanted}; give pull() memory of the size that shards.bytes says",
  },
  RankEngine: {
    message:
      "engine {kind} trains in shards (trainsInShards), and its trainer has no performAll(); rank 0 needs it to reach the others",
  },
  TrainerAlone: {
    message:
      "a trainer of this job has {size} processes (processes.policy), and this is one without the others; have a node start it: muster scale policy, or muster node on this host",
  },
  ShardsDiffer: { message: "the shards of section {section} are not those of this job: {reason}" },
  CheckpointOfOtherShards: {
    message:
      "checkpoint {name} was not written by trainers of {size} processes with this layout: {reason}; set processes.policy as it was, or begin a new job from its weights",
  },
  CheckpointOfOtherModel: {
    message:
      "checkpoint {name}: its section {section} has {bytes} bytes, and that of this trainer {expectedBytes}; it belongs to another model",
  },
  CheckpointDiffers: {
    message:
      "checkpoint {name}: what was read of its section {section} has digest {found}, and its manifest says {wanted}; its files are sound, so the manifest is not theirs: continue from another checkpoint",
  },
  ShardReceipt: { message: "a receipt for version {version} is refused: {reason}" },
  ShardMissing: {
    message:
      "version {version} is not held: of {size} ranks there is no receipt for its part from {ranks}; the engine passes each rank's to arrived()",
  },
  TensorsDiffer: {
    message:
      "version {version} is not for the engine of this replica: {what} is {published} in what was published, and {own} here; give all replicas one model and one build of their engine",
  },
  TensorTableInvalid: {
    message:
      "the tensor table {digest} of version {version} can not be had, so none of its weights are taken: {faults}",
  },
  EngineBuildDiffers: {
    message:
      "the job computes with engine {adapter} of build {build}, and this replica registered with build {registered}; copy the job's connection.json again, and start it anew",
  },
});
