import { describe, expect, it } from "vitest";
import { decodeStatus, encodeStatus, type JobStatus, pack } from "../src/index.ts";

const status: JobStatus = {
  ...{ job: "dates", atMs: 1, term: 2, controller: { host: "h", pid: 3 }, phase: "sampling" },
  ...{ step: 1, steps: 3, attempt: 1, epoch: 4, mesh: ["policy-0"], lineage: 0, version: 1, leases: 2 },
  sections: [{ name: "weights", bytes: 8, digest: "d" }],
  dropped: { duplicate: 0, stale: 0 },
  ledger: { admitted: 4, trained: 2, aborted: 0, quarantined: 0, pending: 2 },
  causes: [],
  incidents: { counts: {}, open: 0, tokensWasted: 0, ettr: null },
  checkpoint: null,
  members: [],
  totals: { policy: { healthy: 1 } },
  membersLeftOut: 0,
  fleet: {
    wanted: { policy: 1, rollout: 1, checkpoint: 0 },
    ...{ nodes: [], replicas: [], totals: {}, leftOut: { nodes: 0, replicas: 0 }, missing: [], commands: [] },
  },
  streams: { groups: { bytes: 1, bytesMax: null } },
};

describe("the status of a job", () => {
  it("is JSON, and comes back as it was written", () => {
    expect(JSON.parse(Buffer.from(encodeStatus(status)).toString())).toEqual(status);
    expect(decodeStatus(encodeStatus(status), "dates")).toEqual(status);
  });

  it("is read as earlier controllers packed it, and without the fields that later ones add", () => {
    expect(decodeStatus(pack(status), "dates")).toEqual(status);
    const later = { ...status, mood: "good", fleet: { ...status.fleet, mood: "good" } };
    expect(decodeStatus(encodeStatus(later), "dates")).toEqual(status);
  });

  it.each([
    ["noise", Uint8Array.of(0xc1, 7)],
    ["half of one", encodeStatus(status).subarray(0, 40)],
    ["one without a field", encodeStatus({ ...status, fleet: undefined } as unknown as JobStatus)],
  ])("that is %s is refused, and the job is named", (_, data) => {
    expect(() => decodeStatus(data, "dates")).toThrow(
      expect.objectContaining({
        code: "MUSTER_ERR_STATUS_UNREADABLE",
        params: expect.objectContaining({ job: "dates" }),
      }),
    );
  });
});
