/** Why a native operation failed. `ranks` are those concerned, where it is about ranks. */
export interface NativeFailure {
  readonly ok: false;
  readonly code: string;
  readonly message: string;
  readonly ranks: readonly number[];
}
