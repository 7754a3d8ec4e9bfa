/** What a run says of a broker that it can not reach, by the states of its connection. */
import { manualClock } from "@muster/runtime/internal";
import { expect, it } from "vitest";
import { BrokerWatch } from "../src/run/broker-watch.ts";

function watching() {
  const clock = manualClock();
  const said: string[] = [];
  const silent: string[] = [];
  const watch = new BrokerWatch({ clock, onSilent: (detail) => silent.push(detail), note: (line) => said.push(line) });
  return { clock, watch, said, silent };
}

it("a broker that is away for more than a moment is told once, and again when it answers", () => {
  const { clock, watch, said, silent } = watching();
  watch.take({ type: "connected" });
  watch.take({ type: "disconnected" });
  clock.advance(1_999);
  expect(said).toEqual([]);
  clock.advance(60_000);
  expect(said).toEqual(["! the broker does not answer; the job waits for it, and nothing is lost"]);
  expect(silent).toEqual(["the broker does not answer"]);
  clock.advance(1);
  watch.take({ type: "reconnected" });
  expect(said.slice(1)).toEqual(["the broker answers again, after 1 min 02 s"]);
});

it("a short cut is no news, and neither is its end", () => {
  const { clock, watch, said } = watching();
  watch.take({ type: "disconnected" });
  clock.advance(1_000);
  watch.take({ type: "reconnected" });
  clock.advance(10_000);
  expect(said).toEqual([]);
});

it("what its keeper has told before the connection is seen to be away is not told again, however long it takes; the next time is", () => {
  const { clock, watch, said } = watching();
  watch.ended();
  watch.take({ type: "disconnected" });
  clock.advance(60_000);
  watch.take({ type: "reconnected" });
  expect(said).toEqual([]);
  watch.take({ type: "disconnected" });
  clock.advance(2_000);
  expect(said).toHaveLength(1);
});

it("what its keeper or the end of the run explains is not told again", () => {
  const { clock, watch, said, silent } = watching();
  watch.take({ type: "disconnected" });
  watch.ended();
  clock.advance(10_000);
  watch.take({ type: "reconnected" });
  watch.take({ type: "disconnected" });
  watch.take({ type: "closed" });
  clock.advance(10_000);
  expect([said, silent]).toEqual([[], []]);
});
