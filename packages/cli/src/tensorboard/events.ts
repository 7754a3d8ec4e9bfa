/**
 * The messages of TensorFlow's event files that scalars need (event.proto and summary.proto of TensorFlow), written field by field: their numbers
 * have not changed since 2015. Pure.
 */
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/** A value under its name. */
export type Scalar = readonly [tag: string, value: number];

/** `Event`: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7. */
const field = { wallTime: 1, step: 2, fileVersion: 3, summary: 5, sessionLog: 7 } as const;

function eventAt(wallMs: number, step: number): BinaryWriter {
  const writer = new BinaryWriter().tag(field.wallTime, WireType.Bit64).double(wallMs / 1000);
  return writer.tag(field.step, WireType.Varint).int64(step);
}

/** What a file begins with: the version of its format. */
export function versionEvent(wallMs: number): Uint8Array {
  return eventAt(wallMs, 0).tag(field.fileVersion, WireType.LengthDelimited).string("brain.Event:2").finish();
}

/** A reader that has seen values of this step or of later ones, in a file before this one, forgets them: `SessionLog.status = 1` is START. */
export function startEvent(wallMs: number, step: number): Uint8Array {
  const log = new BinaryWriter().tag(1, WireType.Varint).int32(1).finish();
  return eventAt(wallMs, step).tag(field.sessionLog, WireType.LengthDelimited).bytes(log).finish();
}

/** The values of a step: `Summary.value = 1`, `Value.tag = 1`, `Value.simple_value = 2`. */
export function scalarsEvent(wallMs: number, step: number, scalars: readonly Scalar[]): Uint8Array {
  const summary = new BinaryWriter();
  for (const [tag, value] of scalars) {
    const one = new BinaryWriter().tag(1, WireType.LengthDelimited).string(tag).tag(2, WireType.Bit32).float(value);
    summary.tag(1, WireType.LengthDelimited).bytes(one.finish());
  }
  return eventAt(wallMs, step).tag(field.summary, WireType.LengthDelimited).bytes(summary.finish()).finish();
}
