/** Whether everything that a package's entry point exports has a doc comment, wherever it is declared. */
import { join } from "node:path";
import ts from "typescript";
import type { Finding } from "./finding.ts";

/**
 * Checks the exports of entry points (`index.ts` files).
 *
 * @param root - Folder that `entryPoints` and the findings are relative to.
 */
export function checkDocumentedExports(root: string, entryPoints: readonly string[]): Finding[] {
  const program = ts.createProgram(
    entryPoints.map((entryPoint) => join(root, entryPoint)),
    {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      allowImportingTsExtensions: true,
      customConditions: ["source"],
      noEmit: true,
      types: [],
    },
  );
  const checker = program.getTypeChecker();
  return entryPoints.flatMap((entryPoint) => {
    const source = program.getSourceFile(join(root, entryPoint));
    const module = source && checker.getSymbolAtLocation(source);
    if (!module) return [];
    const undocumented = checker
      .getExportsOfModule(module)
      .map((symbol) => ({ name: symbol.name, target: resolved(checker, symbol) }))
      .filter(({ target }) => !isDocumented(target) && !isOfLibrary(target));
    return undocumented.map((symbol) => ({
      file: entryPoint,
      line: 0,
      message: `${symbol.name} is exported without a doc comment`,
    }));
  });
}

function resolved(checker: ts.TypeChecker, symbol: ts.Symbol): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

function isDocumented(symbol: ts.Symbol): boolean {
  return (symbol.declarations ?? []).some((declaration) => ts.getJSDocCommentsAndTags(declaration).some(ts.isJSDoc));
}

/** What a library exports is documented there. */
function isOfLibrary(symbol: ts.Symbol): boolean {
  return (symbol.declarations ?? []).some((node) => node.getSourceFile().fileName.includes("/node_modules/"));
}
