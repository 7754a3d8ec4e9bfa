/** Whether a folder that was verified may have changed since. */
import { join } from "node:path";
import { fileNames, manifestFile } from "./manifest.ts";
import type { CheckpointInfo } from "./read.ts";
import type { Place } from "./write.ts";

/** Changes when a file of the checkpoint does. Which files a sharded one has is known once it was read. */
export async function signatureOf({ fs, root }: Place, name: string, info?: CheckpointInfo): Promise<string> {
  const files = info?.format === 3 ? info.files.map((file) => file.name) : fileNames;
  const stats = ["", manifestFile, ...files].map((file) => fs.stat(join(root, name, file)));
  return (await Promise.all(stats)).map((stat) => stat?.signature ?? "absent").join("|");
}
