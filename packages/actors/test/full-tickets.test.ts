/** Tickets of the largest jobs: what a message has room for, ranks can read. */
import { encodeMessage, payloadBytesMax, smallBytesMax } from "@muster/protocol";
import { ranksMax } from "@muster/protocol/internal";
import { describe, expect, it } from "vitest";
import { readRankTicket, readTicket, ticketOf, writeRankTicket } from "../src/internal.ts";
import { listBytesMax, listText, ranksText } from "../src/shards/rank-texts.ts";

const trainers = 64;
const longest = Number.MAX_SAFE_INTEGER;
const version = { lineage: longest, version: longest };

/** Addresses as long as they come: a socket whose path is as long as Linux has it, and a port of an IPv6 address. */
const addressesOf = (trainer: number): string[] => [
  `unix:/${"r".repeat(80)}/policy-${trainer}`.padEnd(112, "s"),
  `tcp:[2001:0db8:85a3:0000:0000:8a2e:0370:1000]:${60_000 + trainer}`,
];

const ranks = { of: ranksMax, bytes: 2 ** 22, digest: "d".repeat(128) };
const holders = Array.from({ length: trainers }, (_, trainer) => ({
  id: `policy-${trainer}`,
  addresses: addressesOf(trainer),
  training: addressesOf(trainer),
  ranks,
}));

const shards = { of: ranksMax, bytes: 2 ** 22 };
const sections = [{ name: "weights" as const, bytes: 64 * 2 ** 40, digest: `shards:${"d".repeat(121)}`, shards }];

/** An address that is far longer than any that is published. */
const endless = "x".repeat(2 * payloadBytesMax);

describe("tickets of 64 trainers of 4,096 processes each", () => {
  it("are as short as those of a few processes, and read by the ranks of samplers", () => {
    const ticket = { order: "one", ...version, sections, holders };
    const text = ticketOf(ticket);
    expect(text.length).toBeLessThan(smallBytesMax);
    expect(readTicket(text)).toEqual(ticket);
  });

  it("are read by the ranks of trainers that meet, and the command has room in a message", () => {
    const members = holders.map(({ id, addresses }) => ({ id, ranks: { ...ranks, ...version, addresses } }));
    const ticket = { do: "meet", epoch: 7, place: 63, members } as const;
    const handed = { order: "one", ticket: { ...ticket, members } };
    expect(readRankTicket(writeRankTicket(handed))).toEqual(handed);
    const command = { kind: "mesh.build", body: { epoch: 7, members } } as never;
    expect(encodeMessage(command).length).toBeLessThan(smallBytesMax);
  });

  it("say of a checkpoint how large the shard of every process is", () => {
    const optimizer = Array.from({ length: ranksMax }, () => longest);
    const ticket = { do: "load", order: 1, path: "p".repeat(4_096), manifests: null, optimizer } as const;
    const handed = { order: "one", ticket: { ...ticket, optimizer } };
    expect(readRankTicket(writeRankTicket(handed))).toEqual(handed);
  });

  it("are refused where they are written when no rank would read them, with what to do", () => {
    const reason =
      /it has \d+ characters, and at most 2097152 are read: lower init_replicas.policy or processes.policy/;
    const tooLong = [{ id: "policy-0", addresses: [endless] }];
    expect(() => ticketOf({ order: "one", ...version, sections, holders: tooLong })).toThrow(reason);
    const members = [{ id: "policy-0", ranks: { ...ranks, ...version, addresses: [endless] } }];
    const ticket = { do: "meet", epoch: 7, place: 0, members } as const;
    expect(() => writeRankTicket({ order: "one", ticket: { ...ticket, members } })).toThrow(reason);
  });
});

it("texts of 4,096 processes have room where they are published, and messages may name them", () => {
  const each = Array.from({ length: ranksMax }, () => ({ bytes: longest, digest: "d".repeat(32) }));
  expect(listText({ name: "optimizer", bytes: longest }, each).length).toBeLessThanOrEqual(listBytesMax(ranksMax));
  const [addresses, training] = [addressesOf(1), addressesOf(2)];
  const text = ranksText(Array.from({ length: ranksMax }, () => ({ addresses, training })));
  expect(Math.max(text.length, listBytesMax(ranksMax))).toBeLessThan(2 ** 22);
});
