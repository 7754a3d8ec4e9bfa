/** The `muster` command. */
export { main } from "./main.ts";
