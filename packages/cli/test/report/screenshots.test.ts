/**
 * The report in a real browser, where there is one (`MUSTER_CHROMIUM`, or chromium on the path): screenshots of it on a desk, on a phone, in the dark and of a
 * run that failed, and what the browser itself measures of its layout. With `MUSTER_SCREENSHOTS=<folder>` the screenshots stay there, to be looked at.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromiumMissing, findChromium, makeTempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { htmlReport, type RunRecord } from "../../src/report/index.ts";
import { runRecord } from "./record.ts";

const browser = findChromium();
const folder = await makeTempDirectory();
const screenshots = process.env.MUSTER_SCREENSHOTS ?? folder.path;
beforeAll(() => void mkdirSync(screenshots, { recursive: true }));
afterAll(() => folder.remove());

function browse(...args: readonly string[]): string {
  const profile = `--user-data-dir=${join(folder.path, "profile")}`;
  const common = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", profile];
  const { stdout, stderr, status } = spawnSync(browser ?? "", [...common, ...args], {
    encoding: "utf8",
    timeout: 60_000,
  });
  expect([status, status === 0 ? "" : stderr]).toEqual([0, ""]);
  return stdout;
}

const fileOf = (name: string, text: string): string => {
  const path = join(folder.path, `${name}.html`);
  writeFileSync(path, text);
  return `file://${path}`;
};

const failed = (): RunRecord => {
  const record = runRecord();
  const reason =
    "policy-0 keeps ending: TypeError: reward is not a function (rewards/my-reward.mjs:3); see runs/dates/logs/policy-0.err";
  const steps = record.steps.slice(0, 2);
  return {
    ...record,
    ...{ steps, evals: record.evals.slice(0, 1), samples: record.samples.slice(0, 2) },
    status: { ...record.status, state: "failed", reason },
    summary: {
      ...record.summary,
      steps: 2,
      weight_version: 2,
      reward_last: record.summary.reward_first,
      eval_last: null,
    },
  };
};

/** A page within a page of some width, as a phone has it: windows of a browser are never as narrow. */
const framed = (page: string, width: number, script = ""): string => {
  const open = page.replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, "");
  const quoted = open.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  return `<!doctype html><body style="margin:0"><iframe width="${width}" height="6200" style="border:0" srcdoc="${quoted}"></iframe>${script}</body>`;
};

const measuring = `<script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {
  const page = frame.contentDocument;
  const width = page.documentElement.clientWidth;
  const wide = [...page.querySelectorAll("body *")].filter((element) => {
    if (element.matches(".at, .places") || element.closest(".scroll, pre")) return false;
    const box = element.getBoundingClientRect();
    return (box.width > 0 || element.matches("text")) && (box.left < -0.5 || box.right > width + 0.5);
  });
  const plot = page.querySelector(".pair svg .axis").getBoundingClientRect();
  const under = page.elementFromPoint(plot.left + plot.width / 2, plot.top - 30);
  const small = Math.min(...[...page.querySelectorAll(".pair svg g > text[text-anchor=end]")].map((text) => text.getBoundingClientRect().height));
  const found = { width, scrollWidth: page.documentElement.scrollWidth, small, hit: under && under.getAttribute("class"),
    wide: wide.slice(0, 5).map((element) => element.outerHTML.slice(0, 120)) };
  document.body.innerHTML = "<pre id=found>" + JSON.stringify(found).replaceAll("<", "&lt;") + "</pre>";
});
</script>`;

function measured(page: string, width: number) {
  const dom = browse(
    "--virtual-time-budget=3000",
    "--dump-dom",
    fileOf(`measured-${width}`, framed(page, width, measuring)),
  );
  const text = /<pre id="found">(.*?)<\/pre>/s.exec(dom)?.[1] ?? "nothing was measured";
  return JSON.parse(text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&")) as {
    readonly width: number;
    readonly scrollWidth: number;
    readonly small: number;
    readonly hit: string | null;
    readonly wide: readonly string[];
  };
}

/** Width and height of a PNG, by its header. */
function sizeOf(path: string): readonly [number, number] {
  const data = readFileSync(path);
  expect(data.subarray(1, 4).toString()).toBe("PNG");
  // A page without anything on it takes a few kilobytes.
  expect(data.length).toBeGreaterThan(20_000);
  return [data.readUInt32BE(16), data.readUInt32BE(20)];
}

const running = (): RunRecord => {
  const record = runRecord();
  return { ...record, status: { ...record.status, state: "running", reason: "" } };
};

describe("the report in a browser", () => {
  beforeEach((context) => context.skip(browser === null, chromiumMissing));

  test.each([
    { name: "desktop", width: 1280, height: 3900, page: () => htmlReport(runRecord()) },
    { name: "dark", width: 1280, height: 3900, page: () => htmlReport(running()), dark: true },
    { name: "phone", width: 390, height: 6200, page: () => framed(htmlReport(running()), 390) },
    { name: "failed", width: 1280, height: 1500, page: () => htmlReport(failed()) },
  ])("has a screenshot: $name", ({ name, width, height, page, dark }) => {
    const path = join(screenshots, `report-${name}.png`);
    const theme = dark ? ["--blink-settings=preferredColorScheme=0"] : [];
    const window = [`--window-size=${Math.max(width, 500)},${height}`, `--screenshot=${path}`];
    browse(...theme, ...window, fileOf(name, page()));
    expect(sizeOf(path)).toEqual([Math.max(width, 500), height]);
  });

  test.each([320, 390, 768, 1280])(
    "fits a width of %d: nothing beside the page, words that can be read, places to point at",
    (width) => {
      for (const record of [runRecord(), failed()]) {
        const found = measured(htmlReport(record), width);
        expect(found).toMatchObject({ width, scrollWidth: width, wide: [], hit: "hit" });
        expect(found.small).toBeGreaterThan(8.5);
      }
    },
  );
});
