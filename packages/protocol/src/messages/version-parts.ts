import { z } from "zod";
import { defineMessages } from "./define.ts";
import { versionFields, versionParts } from "./parts.ts";

/** Parts of a version that are published later than the rest. */
export const versionPartMessages = defineMessages({
  "weights.publish": {
    direction: "command",
    from: ["controller"],
    says: "The controller has a policy replica that holds a version publish a part of it that was not kept: somebody came who reads it.",
    body: z.strictObject({ ...versionFields, parts: z.array(z.enum(versionParts)).min(1).max(versionParts.length) }),
  },
});
