/** Where the modules of this package lie: what is decided by them is known by a digest of their files. */
export const protocolFolder = new URL(".", import.meta.url);
