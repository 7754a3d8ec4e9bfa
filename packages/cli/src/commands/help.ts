/** What help says beyond the options: examples of every command, and the exit codes. */
import { exitCodes } from "@muster/runtime/process";
import type { Command } from "commander";

type Example = readonly [line: string, says: string];

/** Examples by command. */
export const examples: Readonly<Record<string, readonly Example[]>> = {
  run: [
    ["muster run", "the built-in job, on this machine"],
    ["muster run jobs/addition.toml --steps 20 --rollout 4", "another job, shorter, with more samplers"],
    ["muster run --job dates-20250101-120000", "go on with a run that was interrupted"],
    ["muster run --resume dates-1 --set optimizer.lr=0.0005", "the same, with another learning rate from here on"],
    ["muster run --quiet --json > summary.json", "only the result, for a script"],
    [
      "MASTER_ADDR=10.0.0.1 muster run --num-nodes 3 --rank-weights 2,1,1 --master --log-path /data/exp1",
      "a job of three hosts: half of the samplers run on this one; it prints the join token",
    ],
    [
      "MUSTER_JOIN_TOKEN=… MASTER_ADDR=10.0.0.1 muster run --num-nodes 3 --worker 1",
      "on the second host, in any order (docs/operating/multi-node.md)",
    ],
  ],
  trajectories: [
    ["muster trajectories export --job exp1", "what a run has sampled, also of one that was killed, into its folder"],
    ["muster trajectories import /data/files --job exp2", "into a job that runs"],
  ],
  "trajectories export": [
    ["muster trajectories export --job exp1", "what a run has sampled, also of one that was killed, into its folder"],
  ],
  "trajectories import": [["muster trajectories import /data/files --job exp2", "into a job that runs"]],
  policy: [["muster policy --job dates-1", "one more trainer for a job of this host"]],
  rollout: [
    ["muster rollout", "one more sampler for the newest job of this host"],
    ["muster rollout --serve", "that also answers requests over HTTP, for muster router"],
    ["muster rollout --connection far.json", "from another host, with a file of muster credentials"],
  ],
  checkpoint: [["muster checkpoint --job dates-1", "one more checkpoint actor"]],
  node: [
    ["muster node --job dates-1", "one more node of this host: it runs what the controller assigns to it"],
    ["muster node --id node-b --capacity rollout=4", "room for four rollout replicas and nothing else"],
    [
      "muster node --devices 0-3",
      "give these four GPUs to replicas, each to one at a time (docs/operating/devices.md)",
    ],
  ],
  gateway: [
    [
      "muster gateway --state gateway",
      "the coordinator of the checkpoint service on port 8000, which outlives its own death",
    ],
    ["muster gateway --host 10.0.0.1 --tokens tokens.txt --tls-cert a.pem --tls-key a.key", "for other machines"],
  ],
  controller: [["muster controller --job dates-1", "take over a job whose controller is lost"]],
  status: [
    ["muster status", "the newest job"],
    ["muster status --job dates-1 --watch", "again every second, until it ends"],
    ["muster status --json", "for a script"],
  ],
  certify: [
    [
      "muster certify job.toml",
      "which level this job has on this machine: two short runs, verdict.json and verdict.txt",
    ],
    [
      "muster certify job.toml --level L3 --kills 8 --steps 40",
      "fail unless the weights are the same after eight kills",
    ],
  ],
  change: [
    ["muster change optimizer.lr=0.0005", "from the next step of the newest job on"],
    ["muster change job.staleness_max=2 --from-step 100 --job dates-1", "later"],
  ],
  watch: [
    ["muster watch", "what happens from now on"],
    ["muster watch --from-start --json > events.jsonl", "all events, for a script"],
  ],
  worker: [
    ["muster worker check -- python3 my_worker.py", "everything that a job relies on, one line each"],
    ["muster worker describe -- python3 my_worker.py", "what it says of itself, for engine.worker.description"],
  ],
  dashboard: [
    ["muster dashboard", "the newest job, at an address of this host that is printed"],
    ["muster dashboard --job dates-1 --read-only", "to look at alone"],
    ["muster dashboard --listen 0.0.0.0:7070 --tls-cert a.pem --tls-key a.key", "for other hosts"],
    ["muster dashboard --allow-host desk.example", "behind a proxy with TLS, which browsers call by that name"],
  ],
  samples: [
    ["muster samples", "the newest ten responses, with prompts and rewards"],
    ["muster samples --step 12 --json", "those of one step, for a script"],
    ["muster samples --follow", "and those that come, until the job ends"],
  ],
  report: [
    ["muster report", "of the newest run; prints where it is"],
    ["muster report dates-1 --out dates.html", "of another one, to another place"],
  ],
  credentials: [
    ["muster credentials node rollout > far.json", "for a host that runs samplers, and nothing else"],
    ["muster credentials rollout --replica far-0 > far-0.json", "for one sampler, which can speak as no other"],
    ["muster credentials script --replica host-1 > host-1.json", "for the barriers of a script, and nothing else"],
    [
      "muster credentials rollout --nats tls://10.0.0.1:4222 > far.json",
      "with the address under which that host finds the broker",
    ],
  ],
  barrier: [
    ["muster barrier 3 --iteration 7 --ranks 3 --rank 1", "this rank has finished phase 3; returns when all have"],
    [
      "muster barrier 4 --iteration 7 --ranks 3 --on-missing eject --quorum 2 --timeout 5m --items 512 --done 0-256 --json",
      "goes on without a rank that does not come, and says what it left undone",
    ],
  ],
  jobs: [["muster jobs", "what ran, and how it ended"]],
  check: [
    ["muster check", "the newest run, by its files"],
    ["muster check dates-20250101-120000 --json > audit.json", "another one, for a script"],
    ["muster check /mnt/old/runs/dates-1 --no-journal", "a folder that was moved, without nats-server"],
  ],
  export: [
    [
      "muster export .muster/checkpoints/dates --out dates-hf",
      "the newest checkpoint of a job, for any Llama implementation",
    ],
    [
      "muster export .muster/checkpoints/dates --format gguf --task dates --out dates.gguf",
      "for llama.cpp: llama-server --model dates.gguf",
    ],
  ],
  stop: [["muster stop --job dates-1 --reason 'good enough'", "end it after the step that runs"]],
  drain: [["muster drain rollout-1", "have one replica leave; its work goes to the others"]],
  scale: [
    ["muster scale rollout=4", "four rollout replicas; the nodes start or release them"],
    ["muster scale policy=3 rollout=6 --no-wait", "both roles, without waiting until they are healthy"],
  ],
  cordon: [["muster cordon node-b", "no new replicas on this node"]],
  uncordon: [["muster uncordon node-b", "new replicas may come again"]],
  replace: [["muster replace rollout-1", "another one first, then this one leaves"]],
  kill: [
    ["muster kill policy-0", "SIGKILL, to see how the job gets on"],
    ["muster kill rollout-1 --signal SIGSTOP", "have it hang"],
  ],
  cancel: [["muster cancel c-0123456789ab", "take a command back, as far as it has not happened"]],
  send: [[`muster send fleet.scale --json '{"rollout":4}'`, "what muster scale sends, as any program could"]],
  "config print": [
    ["muster config print --explain", "every key of the built-in job, and who set it"],
    ["muster config print my.toml --set batch.group_size=16", "what a run with this flag would use"],
  ],
  "config check": [["muster config check my.toml", "all faults at once; exit code 2 when there are any"]],
  broker: [
    ["muster broker --job dates-1 --job sums-1", "one broker, two jobs; it says how each of them is run"],
    ["muster broker --job dates-1 --job sums-1 --job sums-2", "one job more: those of before keep store and keys"],
  ],
  router: [
    ["muster router --worker http://10.0.0.1:30000 --worker http://10.0.0.2:30000", "two engines under one address"],
    ["muster router --job dates-1", "the samplers of a job that serve on this host (muster rollout --serve)"],
    [
      "muster router --rollout-health-check-first-wait 600 --slime-router-health-check-failure-threshold 5",
      "with slime's names; engines are added with POST /add_worker?url=http://HOST:PORT",
    ],
  ],
  config: [["muster config check my.toml", "all faults of a job file at once"]],
  doctor: [
    ["muster doctor", "what is missing on this machine, and how to get it"],
    ["muster doctor --engine worker", "and what engines that are programs of one's own need"],
    ["muster doctor --engine sglang --url http://HOST:PORT", "and what that inference server is and can"],
  ],
  "worker check": [["muster worker check -- python3 my_worker.py", "whether it does what a job relies on"]],
  "worker describe": [
    ["muster worker describe --out worker.json -- python3 my_worker.py", "for hosts that can not start it themselves"],
  ],
  sim: [
    ["muster sim --seeds 500", "five hundred jobs with faults of all kinds"],
    ["muster sim --seeds 500 --workers 2", "two seeds at a time"],
    ["muster sim --replay runs/sim/swarm-22.json", "a failing seed again, with the faults that it needs"],
    ["muster sim --canaries", "whether the checkers see deliberate bugs"],
  ],
  chaos: [
    ["muster chaos --minutes 2 --seed 7", "two minutes of all kinds of faults, and a quiet run to compare with"],
    ["muster chaos --faults kill,broker --json", "only some kinds; the result as one line of JSON"],
  ],
  bench: [
    ["muster bench weights", "beside the limit of this host, Open MPI and gloo"],
    ["muster bench allreduce", "the same for sums over all processes"],
  ],
  "bench allreduce": [
    ["muster bench allreduce --world 4 --size 64", "64 MiB, summed by four processes"],
    ["muster bench allreduce --no-peers --json > sums.json", "only ours and the limit, for a script"],
  ],
  "bench weights": [
    ["muster bench weights --world 4 --size 256", "256 MiB from one process to three others"],
    ["muster bench weights --hosts 8", "256 MiB down a chain of eight hosts, as root"],
    ["muster bench weights --no-peers --json > weights.json", "only ours and the limit, for a script"],
  ],
  types: [
    ["muster types > muster.d.ts", 'beside a module, which says: import type { TaskModule } from "./muster.d.ts"'],
  ],
  completion: [
    ["source <(muster completion bash)", "bash; put it into ~/.bashrc to keep it"],
    ["source <(muster completion zsh)", "zsh; after compinit"],
    ["muster completion fish | source", "fish"],
  ],
};

/** Exit codes and what they mean, for the foot of `muster --help` and the reference. */
export const exitCodeTexts: readonly (readonly [code: number, says: string])[] = [
  [exitCodes.ok, "done: the job ended well, the actor was released, the question is answered"],
  [exitCodes.failed, "the job failed, doctor found something missing, or a check a violation"],
  [exitCodes.badInput, "the command was given something it cannot use"],
  [exitCodes.brokenInvariant, "a fault of Muster itself"],
  [exitCodes.temporary, "not now: the broker is away, an answer is late, another controller took over"],
  [exitCodes.configuration, "this host is not set up for it"],
  [exitCodes.interrupted, "ended by Ctrl-C"],
  [exitCodes.terminated, "ended by SIGTERM"],
];

/** Completes the help of all commands, and makes their complaints one line that names the help to read. */
export function addHelp(command: Command, path: readonly string[] = []): void {
  const name = ["muster", ...path].join(" ");
  command.configureOutput({
    outputError: (text, write) => write(`${complaintOf(text)} (see ${name} --help)\n`),
  });
  const lines = examples[path.join(" ")] ?? [];
  if (lines.length > 0)
    command.addHelpText("after", `\nExamples:\n${columnsOf(lines.map(([line, says]) => [line, says]))}`);
  if (path.length === 0)
    command.addHelpText("after", `\nExit codes:\n${columnsOf(exitCodeTexts.map(([code, says]) => [`${code}`, says]))}`);
  for (const child of command.commands) addHelp(child, [...path, child.name()]);
}

function complaintOf(text: string): string {
  return `muster: ${text
    .replace(/^error: /, "")
    .trim()
    .replace(/\s*\n\s*/g, " ")}`;
}

function columnsOf(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join("\n");
}
