/** A process that imports one module of a job and says how that went: what the module throws, prints or never ends is its own affair there. */
import { messageOf } from "@muster/base";
import { loadGenerate, loadReward } from "@muster/engine";

const [path = "", what] = process.argv.slice(2);
const load = what === "reward" ? loadReward : loadGenerate;
load(path)
  .then(
    () => null,
    (error: unknown) => messageOf(error),
  )
  .then((fault) => process.send?.({ fault }, () => process.exit()));
