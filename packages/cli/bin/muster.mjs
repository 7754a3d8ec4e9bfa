#!/usr/bin/env node
import { setFlagsFromString } from "node:v8";
import { main } from "../dist/index.js";

// Several processes share few cores here, and have small heaps: threads that collect garbage together cost 5 % of a step (`npm run bench -- distribution`).
setFlagsFromString("--no-parallel-scavenge");

await main(process.argv);
