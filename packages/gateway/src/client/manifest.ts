/** What a source says of its package, checked before anybody acts on it: it is the word of another process. */
import { z } from "zod";
import { errors } from "../errors.ts";
import { bytesOfRow, type TensorRow } from "./tensors.ts";

/** What a receiver needs to know of a package; it travels through the coordinator. */
export interface Manifest {
  readonly key: string;
  readonly secret: string;
  readonly address: string;
  readonly buffers: readonly {
    readonly bytes: number;
    readonly digest: string;
    readonly tensors: readonly TensorRow[];
  }[];
  /** Memory that processes of the same host can read; null when there is none. */
  readonly memory: {
    readonly boot_id: string;
    readonly pid: number;
    readonly fd: number;
    readonly offsets: readonly number[];
  } | null;
  readonly pp_size?: number | undefined;
  readonly quantization_config?: unknown;
}

const count = z.int().min(0);
const rowSchema = z.object({
  ...{ name: z.string(), dtype: z.string(), shape: z.array(count).max(64) },
  ...{ numel: count, offset: count },
});
const memorySchema = z.object({ boot_id: z.string(), pid: count, fd: count, offsets: z.array(count) });
const manifestSchema: z.ZodType<Manifest> = z.object({
  ...{ key: z.string(), secret: z.string() },
  address: z.string().regex(/^.+:\d{1,5}$/, "is no address with a port"),
  buffers: z.array(z.object({ bytes: count, digest: z.string(), tensors: z.array(rowSchema) })),
  // Where it makes no sense, TCP decides.
  memory: memorySchema.nullable().catch(null),
  pp_size: z.int().min(1).max(65_536).optional(),
  quantization_config: z.unknown().optional(),
});

/**
 * The manifest in what a source says.
 *
 * @param sender - Node id of the source.
 * @throws MUSTER_ERR_PEER_GONE with the field that is wrong
 */
export function checkedManifest(said: unknown, sender: string): Manifest {
  const wrong = (field: string, reason: string) => errors.PeerGone({ address: sender, reason: `${field}: ${reason}` });
  const { data: manifest, error } = manifestSchema.safeParse(said);
  if (manifest === undefined) {
    const [issue] = error.issues;
    throw wrong(["manifest", ...(issue?.path ?? [])].map(String).join("."), issue?.message ?? "is wrong");
  }
  const names = new Set<string>();
  for (const [i, { bytes, tensors }] of manifest.buffers.entries())
    for (const row of tensors) {
      const field = `manifest.buffers.${i}.tensors`;
      const length = bytesOfRow(row, (reason) => wrong(field, reason));
      if (row.offset + length > bytes) throw wrong(field, `${row.name} does not lie in the buffer of ${bytes} bytes`);
      if (names.has(row.name)) throw wrong(field, `${row.name} is there twice`);
      names.add(row.name);
    }
  return manifest;
}
