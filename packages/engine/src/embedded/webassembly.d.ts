/** The part of the JavaScript API of WebAssembly that the engine uses; the compiler's libraries carry it only for browsers. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
    static imports(module: Module): readonly { readonly name: string }[];
  }
  class Instance {
    constructor(module: Module);
    readonly exports: Readonly<Record<string, unknown>>;
  }
}
