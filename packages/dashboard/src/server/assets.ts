/** The page itself: what this package has compiled, the libraries that it uses, and nothing from elsewhere. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** One file of the page. */
export interface Asset {
  readonly type: string;
  readonly body: Buffer;
}

const root = fileURLToPath(new URL("../../", import.meta.url));
const scriptType = "text/javascript; charset=utf-8";

/** Modules that the page imports by name. */
const libraries = {
  preact: "preact",
  "preact/hooks": "preact/hooks",
  "preact/jsx-runtime": "preact/jsx-runtime",
  uplot: "uplot",
  "@muster/base/first-names": "@muster/base/first-names",
} as const;

const fileOf = (name: string): string => `/assets/lib/${name.replaceAll(/[@/]/g, "-")}.js`;
const importMap = JSON.stringify({
  imports: Object.fromEntries(Object.keys(libraries).map((name) => [name, fileOf(name)])),
});

/** What a browser may load and do: only what this server gives it. */
export const pagePolicy = [
  "default-src 'none'",
  `script-src 'self' 'sha256-${createHash("sha256").update(importMap).digest("base64")}'`,
  ...["style-src 'self' 'unsafe-inline'", "connect-src 'self'", "img-src 'self' data:", "base-uri 'none'"],
  ...["form-action 'none'", "frame-ancestors 'none'"],
].join("; ");

const html = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Muster</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/assets/uplot.css">
<link rel="stylesheet" href="/assets/style.css">
<script type="importmap">${importMap}</script>
<script type="module" src="/assets/page/main.js"></script>
<body><noscript>This page needs JavaScript. Without it: <code>muster status --watch</code>.</noscript></body>
</html>
`;

/** Reads all files of the page, by path. A few hundred kilobytes, read once. */
export function readAssets(): ReadonlyMap<string, Asset> {
  const resolve = (name: string): string => fileURLToPath(import.meta.resolve(name));
  const script = (path: string): Asset => ({ type: scriptType, body: readFileSync(path) });
  const style = (path: string): Asset => ({ type: "text/css; charset=utf-8", body: readFileSync(path) });
  const uplotFolder = join(resolve("uplot"), "..");
  // Our own ones are compiled: tests resolve them to their sources, which no browser reads.
  const compiledOf = (path: string): string => path.replace(/\/src\/([^/]+)\.ts$/, "/dist/$1.js");
  const scriptOf = (name: string): string =>
    name === "uplot" ? join(uplotFolder, "uPlot.esm.js") : compiledOf(resolve(name));
  return new Map<string, Asset>([
    ["/", { type: "text/html; charset=utf-8", body: Buffer.from(html) }],
    ["/assets/style.css", style(join(root, "src/page/style.css"))],
    ["/assets/uplot.css", style(join(uplotFolder, "uPlot.min.css"))],
    ...Object.values(libraries).map((name) => [fileOf(name), script(scriptOf(name))] as const),
    ...["page", "view"].flatMap((folder) =>
      compiled(folder).map((file) => [`/assets/${folder}/${file}`, script(join(root, "dist", folder, file))] as const),
    ),
  ]);
}

function compiled(folder: string): readonly string[] {
  return readdirSync(join(root, "dist", folder)).filter((file) => file.endsWith(".js"));
}
