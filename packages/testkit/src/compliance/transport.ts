/** What every {@link Transport} promises, told as tests. Run by each implementation against brokers of its own. */
import type { Transport } from "@muster/transport";
import type { MemoryBrokerOptions } from "@muster/transport/internal";
import { afterEach, beforeEach, describe } from "vitest";
import type { Actors } from "./actors.ts";
import { testConsuming } from "./consuming.ts";
import { testFollowing } from "./following.ts";
import { fullBytes, testFull } from "./full.ts";
import { testJournal, testJournalPurging, testJournalReading } from "./journal.ts";
import { testPublishing } from "./publishing.ts";
import { testFailingHandlers, testRedelivery } from "./redelivery.ts";
import { testSending } from "./sending.ts";
import { testState } from "./state.ts";

/** A fresh broker with an empty, prepared job. */
export interface TransportFixture {
  /** Connects as the role with which `name` (`<role>.<id>.<incarnation>`) begins. */
  connect(name: string): Promise<Transport>;
  close(): Promise<void>;
}

/** Declares the suite for one implementation; `factory` makes a broker per test. */
export function describeTransport(
  name: string,
  factory: (options: Pick<MemoryBrokerOptions, "bytesMax">) => Promise<TransportFixture>,
): void {
  describe(`${name} as a transport`, () => {
    let fixture: TransportFixture;
    let actors: Actors;
    beforeEach(async () => {
      fixture = await factory({});
      actors = await actorsOf(fixture);
    });
    afterEach(() => fixture.close());

    const present = (): Actors => actors;
    describe("publishing", () => testPublishing(present));
    describe("following", () => testFollowing(present));
    describe("sending", () => testSending(present));
    describe("consuming", () => testConsuming(present));
    describe("redelivery", () => {
      testRedelivery(present);
      testFailingHandlers(present);
    });
    describe("the journal", () => {
      testJournal(present);
      testJournalReading(present);
      testJournalPurging(present);
    });
    describe("the state", () => testState(present));
  });
  describe(`${name} as a transport without room`, () => {
    let fixture: TransportFixture;
    let actors: Actors;
    beforeEach(async () => {
      fixture = await factory({ bytesMax: { groups: fullBytes, journal: fullBytes } });
      actors = await actorsOf(fixture);
    });
    afterEach(() => fixture.close());

    testFull(() => actors);
  });
}

async function actorsOf(fixture: TransportFixture): Promise<Actors> {
  return {
    controller: await fixture.connect("controller.c0.a1"),
    rollout: await fixture.connect("rollout.r0.a1"),
    policy: await fixture.connect("policy.p0.a1"),
  };
}
