/** Tickets of the largest jobs: what a message has room for, ranks can read. */
import { encodeMessage, payloadBytesMax, sectionShardsMax } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { readRankTicket, readTicket, ticketOf, writeRankTicket } from "../src/internal.ts";

const trainers = 64;

/** Addresses as long as they come: a socket whose path is as long as Linux has it, and a port of an IPv6 address. */
const addressesOf = (trainer: number, rank: number): string[] => [
  `unix:/${"r".repeat(80)}/policy-${trainer}.${rank}`.padEnd(112, "s"),
  `tcp:[2001:0db8:85a3:0000:0000:8a2e:0370:${1000 + rank}]:${60_000 + trainer}`,
];

const ranksOf = (trainer: number) =>
  Array.from({ length: sectionShardsMax }, (_, rank) => ({ addresses: addressesOf(trainer, rank) }));

const holders = Array.from({ length: trainers }, (_, trainer) => ({
  id: `policy-${trainer}`,
  addresses: addressesOf(trainer, 0),
  ranks: ranksOf(trainer),
}));

const shards = Array.from({ length: sectionShardsMax }, (_, i) => ({
  bytes: 2 ** 40 + i,
  digest: `xxh3b:${i.toString(16).padStart(16, "0")}`,
}));
const sections = [{ name: "weights" as const, bytes: 64 * 2 ** 40, digest: `shards:${shards[0]?.digest}`, shards }];

/** An address that is far longer than any that is published. */
const endless = "x".repeat(payloadBytesMax);

describe("tickets of 64 trainers of 64 processes each", () => {
  it("are read by the ranks of samplers, as long as the order is that brings them", () => {
    const ticket = { order: "one", lineage: 0, version: 3, sections, holders };
    const text = ticketOf(ticket);
    expect(text.length).toBeGreaterThan(2 ** 18); // and so refused before
    expect(readTicket(text)).toEqual(ticket);
  });

  it("are read by the ranks of trainers that meet, and the command has room in a message", () => {
    const members = holders.map(({ id, ranks }) => ({ id, ranks: ranks.map(({ addresses }) => addresses) }));
    const ticket = { do: "meet", epoch: 7, place: 63, members } as const;
    const handed = { order: "one", ticket: { ...ticket, members } };
    expect(readRankTicket(writeRankTicket(handed))).toEqual(handed);
    const command = { kind: "mesh.build", body: { epoch: 7, members } } as never;
    expect(encodeMessage(command).length).toBeLessThan(payloadBytesMax);
  });

  it("are refused where they are written when no rank would read them, with what to do", () => {
    const ranks = [{ addresses: [endless] }, { addresses: [endless] }];
    const tooLong = [{ id: "policy-0", addresses: [], ranks }];
    const reason =
      /it has \d+ characters, and at most 2097152 are read: lower init_replicas.policy or processes.policy/;
    expect(() => ticketOf({ order: "one", lineage: 0, version: 3, sections, holders: tooLong })).toThrow(reason);
    const members = [{ id: "policy-0", ranks: [[endless], [endless]] }];
    const ticket = { do: "meet", epoch: 7, place: 0, members } as const;
    expect(() => writeRankTicket({ order: "one", ticket: { ...ticket, members } })).toThrow(reason);
  });
});
