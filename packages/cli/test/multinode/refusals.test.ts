/** Who comes to a master without its token is heard of, and fills neither terminal nor memory. */
import { manualClock } from "@muster/runtime/internal";
import { expect, test } from "vitest";
import { Refusals } from "../../src/multinode/refusals.ts";

test("the first is named at once, a thousand more in one line a minute later, and the next after that at once again", () => {
  const clock = manualClock();
  const said: string[] = [];
  const refusals = new Refusals(clock, (line) => void said.push(line));
  refusals.came("10.0.0.9");
  expect(said).toEqual(["a connection from 10.0.0.9 was refused: it has not the join token of this master"]);
  for (let i = 0; i < 1_000; i++) refusals.came(`10.0.1.${i % 250}`);
  clock.advance(59_999);
  expect(said).toHaveLength(1);
  clock.advance(1);
  expect(said[1]).toBe(
    "1000 more without the join token in the last minute, from 10.0.1.0, 10.0.1.1, 10.0.1.2, 10.0.1.3 and maybe others",
  );
  refusals.came("10.0.0.9");
  clock.advance(60_000);
  expect(said[2]).toBe("1 more without the join token in the last minute, from 10.0.0.9");
  clock.advance(60_000);
  expect(said).toHaveLength(3);
  refusals.came("10.0.0.7");
  expect(said[3]).toMatch(/^a connection from 10\.0\.0\.7 was refused/);
  refusals.close();
});
