/**
 * Bytes of a section where they lie: one array, or pieces of it one behind the other where it is larger than an array of JavaScript can be. Each piece but
 * the last is a multiple of 256 KiB, the size of the blocks that digests are made of.
 */
export type SectionBytes = Uint8Array | readonly Uint8Array[];
