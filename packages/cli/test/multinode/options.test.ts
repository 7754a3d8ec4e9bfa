/** What the options of a launcher for several nodes mean, and what is said of those that mean nothing. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { masterAddress } from "../../src/multinode/address.ts";
import { networkOf } from "../../src/multinode/launch.ts";
import {
  differenceOf,
  jobFlagsOf,
  launchOf,
  masterOf,
  placeOf,
  saidIn,
  saidOf,
  samplersOf,
  sharesOf,
} from "../../src/multinode/options.ts";

const joinTimeout = "30m";

describe("the rank of this process", () => {
  const three = { joinTimeout, numNodes: "3", rankWeights: "2,1,1" };

  test("is 0 for the master, and that of the option before that of the environment", () => {
    expect(launchOf({ ...three, master: true }, { RANK: "2" })?.rank).toBe(0);
    expect(launchOf({ ...three, worker: "1" }, { RANK: "2" })?.rank).toBe(1);
    expect(launchOf(three, { RANK: "2", NODE_RANK: "1" })?.rank).toBe(2);
    expect(launchOf(three, { NODE_RANK: "0" })).toEqual({ nodes: 3, rank: 0, weights: [2, 1, 1] });
  });

  test("one node is a job of this host alone", () => {
    expect(launchOf({ joinTimeout }, { RANK: "1" })).toBeNull();
    expect(launchOf({ joinTimeout, numNodes: "1", rankWeights: "1", master: true }, {})).toBeNull();
  });

  test.each([
    [{ worker: "1" }, {}, /--worker: 1 goes with --num-nodes/],
    [{ ...three, numNodes: "0" }, {}, /--num-nodes: 0 is not a whole number from 1 to 256/],
    [{ ...three, numNodes: "2" }, { RANK: "0" }, /--rank-weights: 2,1,1 has 3 weights for 2 ranks/],
    [{ ...three, worker: "3" }, {}, /--worker: 3 is no rank of 3; use 0 to 2/],
    [{ ...three, worker: "0" }, {}, /--worker: 0 is the master; use --master, or 1 to 2/],
    [{ ...three, master: true, worker: "1" }, {}, /--worker: 1 and --master are two ranks/],
    [three, {}, /name the rank, or set RANK or NODE_RANK/],
    [three, { RANK: "x" }, /--worker: x is no rank of 3 \(from RANK\)/],
  ] as const)("%j with %j is refused", (options, env, message) => {
    expect(() => launchOf({ joinTimeout, ...options }, env)).toThrow(message);
  });
});

describe("weights", () => {
  test("ask for the fewest samplers that share out exactly", () => {
    expect([samplersOf([2, 1, 1]), samplersOf([50, 25, 25]), samplersOf([3, 3])]).toEqual([4, 4, 2]);
    expect(() => samplersOf([999_999, 1])).toThrow(/needs 1000000 rollout replicas.*--rollout/);
  });

  test("share out samplers and trainers, whose sums are exact; files stay with the master", () => {
    const shares = sharesOf({ nodes: 3, rank: 0, weights: [2, 1, 1] }, { policy: 2, rollout: 4, checkpoint: 1 });
    expect(shares).toEqual([
      { policy: 1, rollout: 2, checkpoint: 1 },
      { policy: 1, rollout: 1, checkpoint: 0 },
      { policy: 0, rollout: 1, checkpoint: 0 },
    ]);
  });

  test("that leave a rank without work are refused with a number that does not", () => {
    const launch = { nodes: 2, rank: 0, weights: [9, 1] };
    expect(() => sharesOf(launch, { policy: 1, rollout: 2, checkpoint: 1 })).toThrow(
      /--rank-weights: 9,1 gives rank 1 none of 2 rollout replicas; use --rollout 10/,
    );
  });
});

describe("what the options say of the job", () => {
  test("the interval and the split of evaluations are one key", () => {
    expect(jobFlagsOf({ joinTimeout, evalInterval: "6" })).toEqual({ "evaluation.every_steps": 6 });
    expect(jobFlagsOf({ joinTimeout, rolloutSplit: "train-only" })).toEqual({ "evaluation.every_steps": 0 });
    expect(() => jobFlagsOf({ joinTimeout, rolloutSplit: "train-only", evalInterval: "6" })).toThrow(
      /give one of them/,
    );
    expect(() => jobFlagsOf({ joinTimeout, evalInterval: "0" })).toThrow(
      /--eval-interval: 0 is not a whole number from 1/,
    );
  });

  test("a folder of data has both splits, a file the one of training", () => {
    const folder = mkdtempSync(join(tmpdir(), "muster-data-"));
    const file = join(folder, "train.jsonl");
    writeFileSync(file, "");
    expect(jobFlagsOf({ joinTimeout, dataPath: folder })).toEqual({
      "prompts.train": folder,
      "prompts.held_out": folder,
    });
    expect(jobFlagsOf({ joinTimeout, dataPath: file })).toEqual({ "prompts.train": file });
    rmSync(folder, { recursive: true });
    expect(() => jobFlagsOf({ joinTimeout, dataPath: file })).toThrow(/--data-path: .* is not there/);
  });

  test("one path is the folder of runs and the name of this one", () => {
    expect(placeOf({ runs: "runs", logPath: "/data/exp1" })).toMatchObject({ runs: "/data", job: "exp1" });
    expect(() => placeOf({ runs: "runs", logPath: "/data/Exp 1" })).toThrow(/log-path/);
    expect(() => placeOf({ runs: "runs", job: "a", logPath: "/data/b" })).toThrow(/--job: a is in --log-path/);
    expect(() => placeOf({ runs: "/x", logPath: "/data/b" })).toThrow(/--runs: \/x is in --log-path/);
  });

  test("a rank that says otherwise than the master is told what; what it leaves out is the master's", () => {
    const launch = { nodes: 3, rank: 1, weights: [2, 1, 1] };
    const master = { ...saidIn(launch, { joinTimeout, steps: "20", evalInterval: "6" }), "rank-weights": "2,1,1" };
    expect(differenceOf(master, saidIn(launch, { joinTimeout }))).toBeNull();
    expect(differenceOf(master, saidIn(launch, { joinTimeout, rankWeights: "2,1,1", steps: "20" }))).toBeNull();
    expect(differenceOf(master, saidIn({ ...launch, nodes: 2 }, { joinTimeout }))).toMatch(
      /^--num-nodes is 2 here and 3 at the master/,
    );
    expect(differenceOf(master, saidIn(launch, { joinTimeout, seed: "7" }))).toMatch(/--seed is 7 here and left out/);
  });

  test("a rank may say what the master left out, as when that goes on with the stored configuration of a run", () => {
    const launch = { nodes: 2, rank: 1, weights: [1, 1] };
    const replicas = { policy: 2, rollout: 4, checkpoint: 1 };
    const job = { seed: 7, steps: 20, mode: "sync", replicas, evaluation: { everySteps: 6, prompts: 8 } } as const;
    const master = { ...saidOf(job), ...saidIn(launch, { joinTimeout }) };
    const same = {
      seed: "7",
      steps: "20",
      mode: "sync",
      policy: "2",
      rollout: "4",
      checkpoint: "1",
      evalInterval: "6",
    };
    expect(differenceOf(master, saidIn(launch, { joinTimeout, ...same }))).toBeNull();
    expect(differenceOf(master, saidIn(launch, { joinTimeout, steps: "21" }))).toMatch(/--steps is 21 here and 20 at/);
    expect(differenceOf(master, saidIn(launch, { joinTimeout, rolloutSplit: "train-only" }))).toMatch(
      /--rollout-split is train-only here and both at the master/,
    );
    const none = saidOf({ ...job, evaluation: { everySteps: 0, prompts: 8 } });
    expect(differenceOf(none, { "rollout-split": "train-only" })).toBeNull();
  });
});

describe("where the master is", () => {
  const own = [
    { address: "10.0.0.5", network: "10.0.0.5/24" },
    { address: "fd00::5", network: "fd00::5/64" },
  ];

  test("the options come before the environment, and the port has a default", () => {
    expect(masterOf({ joinTimeout }, {})).toEqual({ host: null, port: 29_500 });
    expect(masterOf({ joinTimeout, masterPort: "7" }, { MASTER_ADDR: "a", MASTER_PORT: "8" })).toEqual({
      host: "a",
      port: 7,
    });
    expect(() => masterOf({ joinTimeout }, { MASTER_PORT: "99999" })).toThrow(/--master-port: 99999/);
    expect(() => masterOf({ joinTimeout }, { MASTER_ADDR: "a b" })).toThrow(/--master-addr: a b is no address/);
  });

  test("a host with one address is the master there; one with several must say which", async () => {
    expect(await masterAddress(null, own)).toEqual(own[0]);
    const two = [...own, { address: "10.1.0.5", network: "10.1.0.5/16" }];
    await expect(masterAddress(null, two)).rejects.toThrow(
      /several addresses or none \(10\.0\.0\.5, fd00::5, 10\.1\.0\.5\)/,
    );
    await expect(masterAddress(null, [])).rejects.toThrow(/none but loopback/);
  });

  test("another host's address can not be listened on", async () => {
    await expect(masterAddress("10.9.9.9", own)).rejects.toThrow(/10\.9\.9\.9 is no address of this host/);
    expect(await masterAddress("10.0.0.5", own)).toEqual(own[0]);
  });

  test("a name that is loopback here and something else to others is refused; one that has an own address besides is that one", async () => {
    const found =
      (...all: string[]) =>
      async () =>
        all.map((address) => ({ address }));
    await expect(masterAddress("alpha", own, found("127.0.1.1"))).rejects.toThrow(
      /alpha is 127\.0\.1\.1 on this host, which no other host reaches; name one of its addresses: 10\.0\.0\.5/,
    );
    expect(await masterAddress("alpha", own, found("127.0.1.1", "10.0.0.5"))).toEqual(own[0]);
    expect(await masterAddress("localhost", own, found("127.0.0.1"))).toMatchObject({ address: "127.0.0.1" });
    await expect(masterAddress("beta", own, found())).rejects.toThrow(/beta is no name that this host knows/);
  });

  test("ranks find each other in its network; loopback and single addresses have none", () => {
    expect(networkOf({ address: "10.0.0.5", network: "10.0.0.5/24" })).toBe("10.0.0.5/24");
    expect(networkOf({ address: "10.0.0.5", network: "10.0.0.5/32" })).toBeNull();
    expect(networkOf({ address: "127.0.0.1", network: "127.0.0.1" })).toBeNull();
  });
});
