/**
 * Tables of tensors. Who publishes weights publishes the table of their tensors beside them; who takes weights compares that table with its own by
 * digest, and fetches it only where they differ.
 */
import { invariant, messageOf } from "@muster/base";
import { conversionOf, type EngineDescription, type FormatDifference, tensorDifference } from "@muster/engine";
import type { JobConfig, Section, TensorTable } from "@muster/protocol";
import { type PlacedTensor, SectionConversion, type TableText } from "@muster/tensors";
import { errors } from "./errors.ts";
import type { Ports } from "./ports.ts";
import type { Admission } from "./replica/work.ts";
import { type Puller, pullOf, type VersionRequest } from "./weights.ts";

/** What a table is called on the data plane. */
export const tableSection = "table";

/** The table of an engine, as it is published. */
export interface OwnTable extends Omit<TableText, "bytes"> {
  readonly tensors: readonly PlacedTensor[];
  readonly named: TensorTable;
}

/** Writes the table of an engine. */
export async function ownTable(
  ports: Pick<Ports, "table" | "digests">,
  tensors: readonly PlacedTensor[],
  signal: AbortSignal,
): Promise<OwnTable> {
  const { rows, digest, text } = await ports.table(tensors);
  const [ofText = ""] = await ports.digests([text], signal);
  return { rows, digest, text, tensors, named: { rows, digest, text: { bytes: text.length, digest: ofText } } };
}

const differing = ({ version }: VersionRequest, { what, trainer: published, sampler: own }: FormatDifference): Error =>
  errors.TensorsDiffer({ version, what, published, own });

/** Who asks for tables. */
interface Asking extends Pick<Admission, "dataKey" | "config"> {
  readonly signal: AbortSignal;
}

/** A table that is known here; of a sampler also how others become it. */
export interface KnownTable extends Pick<EngineDescription, "tensors" | "conversion"> {
  readonly digest: string;
}

type TablePorts = Pick<Ports, "pull" | "readTable" | "table" | "model">;

/** The tables that a replica knows, and how it comes to others. */
export class Tables {
  readonly #ports: TablePorts;
  readonly #self: Pick<Puller, "job" | "member">;
  /** The one that was fetched last: a job has one model. */
  #fetched: KnownTable | null = null;
  #described: KnownTable | null = null;
  /** What makes the tensors of {@link #fetched} into one's own. */
  #conversion: { readonly of: readonly PlacedTensor[]; readonly found: SectionConversion } | null = null;

  constructor(ports: TablePorts, { job, id }: { readonly job: string; readonly id: string }) {
    this.#ports = ports;
    this.#self = { job, member: id };
  }

  /** What the engine of a job says that it takes or gives: the same for the whole life of a replica. */
  async described(config: JobConfig, role: "policy" | "rollout"): Promise<KnownTable> {
    if (this.#described) return this.#described;
    const { tensors, conversion } = this.#ports.model(config, role);
    const { digest } = await this.#ports.table(tensors);
    this.#described = { digest, tensors, ...(conversion ? { conversion } : {}) };
    return this.#described;
  }

  /**
   * The table of the weights of a version: one's own where that is meant, or where the version names none.
   *
   * @throws MUSTER_ERR_TENSOR_TABLE_INVALID when nobody has it as it was named.
   */
  async of(wanted: VersionRequest, own: KnownTable, asking: Asking): Promise<readonly PlacedTensor[]> {
    const weights = wanted.sections.find(({ table }) => table !== undefined);
    if (!weights?.table) return own.tensors;
    const { digest } = weights.table;
    const known = [own, this.#fetched].find((table) => table?.digest === digest);
    if (known) return known.tensors;
    const tensors = await this.#fetch(wanted, { ...weights, table: weights.table }, asking);
    this.#fetched = { digest, tensors };
    return tensors;
  }

  /**
   * Sees to it that the weights of a version are for this engine, before a byte of them is taken.
   *
   * @throws MUSTER_ERR_TENSORS_DIFFER naming the first tensor that differs; as {@link of}.
   */
  async check(wanted: VersionRequest, own: KnownTable, asking: Asking): Promise<void> {
    const tensors = await this.of(wanted, own, asking);
    if (tensors === own.tensors) return;
    const difference = tensorDifference(tensors, own.tensors);
    invariant(difference, "tables of two digests differ in a row");
    throw differing(wanted, difference);
  }

  /**
   * What makes the weights of a version into those of this engine; `null` where they are that already.
   *
   * @throws MUSTER_ERR_TENSORS_DIFFER naming a tensor that nothing makes; as {@link of}.
   */
  async conversion(wanted: VersionRequest, own: KnownTable, asking: Asking): Promise<SectionConversion | null> {
    const tensors = await this.of(wanted, own, asking);
    if (tensors === own.tensors) return null;
    if (this.#conversion?.of === tensors) return this.#conversion.found;
    const found = conversionOf(tensors, own);
    if (found && !(found instanceof SectionConversion)) throw differing(wanted, found);
    if (found) this.#conversion = { of: tensors, found };
    return found;
  }

  /** Asks one holder after the other; whoever gives another text than was named is not asked again. */
  async #fetch(
    wanted: VersionRequest,
    { bytes, table }: Section & { readonly table: TensorTable },
    { dataKey, config, signal }: Asking,
  ): Promise<readonly PlacedTensor[]> {
    const { rows, digest, text } = table;
    const puller: Puller = { ...this.#self, dataKey, config };
    const faults: string[] = [];
    const failed = (): Error =>
      errors.TensorTableInvalid({ version: wanted.version, digest, faults: faults.join("; ") });
    let { holders } = wanted;
    while (holders.length > 0) {
      const into = { [tableSection]: new Uint8Array(text.bytes) };
      const asked = { ...wanted, holders, sections: [{ name: tableSection, ...text }] };
      const from = await this.#ports.pull({ ...pullOf(puller, asked), into, signal }).then(
        (pulled) => pulled.from,
        (error: unknown) => {
          if (signal.aborted) throw error;
          faults.push(messageOf(error));
          throw failed();
        },
      );
      const tensors = await this.#ports.readTable(into[tableSection] ?? new Uint8Array(), { rows, bytes, digest });
      if (typeof tensors !== "string") return tensors;
      const holder = holders.find(({ addresses }) => addresses.includes(from));
      faults.push(`what ${holder?.id ?? from} gives is wrong: ${tensors}`);
      holders = holders.filter((other) => holder && other !== holder);
    }
    throw failed();
  }
}
