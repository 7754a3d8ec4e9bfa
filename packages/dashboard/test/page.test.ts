/**
 * The page in a real browser, where there is one (`MUSTER_CHROMIUM`, or chromium on the path). With `MUSTER_SCREENSHOTS=<folder>` its screenshots stay there, to be
 * looked at.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromiumMissing, findChromium, makeTempDirectory, openBrowser } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { member, playJob, replica, someStatus, someStep, token } from "./support/played.ts";

type Browser = Awaited<ReturnType<typeof openBrowser>>;
type Page = Awaited<ReturnType<Browser["newPage"]>>;

const program = findChromium();
const folder = await makeTempDirectory();
const screenshots = process.env.MUSTER_SCREENSHOTS ?? folder.path;
const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;

describe("the page in a browser", { timeout: 60_000 }, () => {
  let browser: Browser | undefined;
  let played: Awaited<ReturnType<typeof playJob>> | undefined;
  let page: Page;
  let faults: string[];
  beforeAll(async () => {
    mkdirSync(screenshots, { recursive: true });
    if (program !== null) browser = await openBrowser(program);
  }, 60_000);
  beforeEach((context) => context.skip(program === null, chromiumMissing));
  afterEach(async () => {
    await page?.close();
    await played?.close();
    played = undefined;
  });
  afterAll(async () => {
    await browser?.close();
    await folder.remove();
  });

  async function openPage(
    job: NonNullable<typeof played>,
    width = 1280,
    prepare: (page: Page) => Promise<void> = async () => {},
  ): Promise<void> {
    played = job;
    if (!browser) throw new Error(chromiumMissing);
    page = await browser.newPage({ viewport: { width, height: 1200 } });
    faults = [];
    page.on("pageerror", (error) => faults.push(error.message));
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    await prepare(page);
    await page.goto(`${job.base}/#token=${token}`);
  }

  it("shows what is known, goes on live, and hides the token from its address", async () => {
    const job = await playJob();
    await job.show(someStatus());
    for (const step of [1, 2, 3]) await job.say("step.committed", someStep(step));
    await openPage(job);
    await page.getByText("Moving.").waitFor();
    await page.getByText("Step 3 was committed").waitFor();
    const form = { name: "form", count: 4, mean: 0.25, spread: 0, least: 0, most: 1 };
    expect(await page.getByText("Components of rewards").count()).toBe(0);
    await job.say("step.committed", someStep(4, { components: [form] }));
    await page.getByText("Step 4 was committed").waitFor();
    // A component that is heard of later has a curve from then on.
    const curves = page.locator("section", { hasText: "Components of rewards" });
    await curves.getByText("form").waitFor();
    await job.say("step.committed", someStep(5, { components: [form, { ...form, name: "right" }] }));
    await curves.getByText("right").waitFor();
    expect(page.url()).toBe(`${job.base}/`);
    await page.screenshot({ path: join(screenshots, "dashboard.png"), fullPage: true });
    expect(faults).toEqual([]);
  });

  it("says that a job moves on a machine whose clock is an hour ahead", async () => {
    const job = await playJob();
    await job.say("step.committed", someStep(1));
    await job.show(someStatus());
    await openPage(job, 1280, async (opened) => opened.clock.install({ time: Date.now() + 3_600_000 }));
    await job.show(someStatus({ atMs: Date.now() }));
    await page.getByText("Moving.").waitFor();
    await page.getByText(/Step 1 was committed \d\.\d s ago/).waitFor();
  });

  it("asks before a command is given, and says what became of it", async () => {
    const job = await playJob();
    await job.show(someStatus());
    await openPage(job);
    const row = page.locator('[data-replica="rollout-0"]');
    await row.getByRole("button", { name: "Kill" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await row.getByRole("button", { name: "Kill" }).click();
    await page.screenshot({ path: join(screenshots, "dashboard-kill.png") });
    await page.getByRole("dialog").getByRole("button", { name: "Kill" }).click();
    await page.getByRole("alert").getByText("accepted: taken").waitFor();
    expect(job.asked).toMatchObject([{ kind: "replica.kill", body: { id: "rollout-0", signal: "SIGKILL" } }]);
    await page.getByLabel("more rollout replicas").click();
    await page.getByLabel("more rollout replicas").click();
    await page.locator(".scale", { hasText: "rollout" }).getByRole("button", { name: "Scale" }).click();
    await page.getByRole("dialog").getByText("2 more rollout replicas").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Scale" }).click();
    await page.getByText("fleet.scale").first().waitFor();
    expect(job.asked.at(-1)).toMatchObject({ kind: "fleet.scale", body: { rollout: 3 } });
  });

  it("shows what trainers and samplers compute with, and marks samplers that draw with different bits", async () => {
    const job = await playJob();
    const kind = (fingerprint: string, members: number) => ({ build: "wasm-1", fingerprint, members });
    await job.show(someStatus({ engines: [kind("f1", 2)], samplers: [kind("f1", 3)] }));
    await openPage(job);
    const engines = page.getByRole("list", { name: "engines" });
    await engines.getByText("2 trainers: build wasm-1, fingerprint f1").waitFor();
    await engines.getByText("3 samplers: build wasm-1, fingerprint f1").waitFor();
    expect(await engines.locator(".bad").count()).toBe(0);
    await job.show(someStatus({ engines: [kind("f1", 2)], samplers: [kind("f1", 2), kind("f2", 1)] }));
    await engines.getByText("1 sampler: build wasm-1, fingerprint f2").waitFor();
    expect(await engines.locator(".bad").count()).toBe(2);
    // A job that says nothing of its engines has no list.
    await job.show(someStatus());
    await engines.waitFor({ state: "detached" });
    expect(faults).toEqual([]);
  });

  it("gives no command where it is read only", async () => {
    const job = await playJob({ isReadOnly: true });
    await job.show(someStatus());
    await openPage(job);
    await page.locator('[data-replica="rollout-0"]').waitFor();
    expect(await page.getByRole("button").count()).toBe(0);
  });

  it("shows hostile names and reasons as text", async () => {
    const job = await playJob({ say: ({ body }) => ("reason" in body ? String(body.reason) : null) });
    const status = someStatus();
    await job.show({
      ...status,
      members: [...status.members, { ...member(hostile, "rollout"), phase: hostile, health: "suspect" }],
      fleet: { ...status.fleet, missing: [hostile], replicas: [replica(hostile, hostile)] },
    });
    await job.say("step.skipped", { step: 1, version: 0, reason: hostile });
    await openPage(job);
    await page.getByText(hostile).first().waitFor();
    expect(await page.title()).toBe("Muster");
    expect(await page.locator("img, body script").count()).toBe(0);
  });

  it("fits a phone, in the dark, with a name of any length", async () => {
    const job = await playJob();
    const status = someStatus();
    const long = `rollout-${"x".repeat(100)}`;
    await job.show({ ...status, members: [...status.members, { ...member(long, "rollout"), health: "suspect" }] });
    await job.say("member.suspected", {
      id: "rollout-0",
      role: "rollout",
      incarnation: "i1",
      evidence: "silent for 9 s",
    });
    for (const step of [1, 2, 3]) await job.say("step.committed", someStep(step));
    await openPage(job, 390);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.locator(`[data-replica="${long}"]`).waitFor();
    await page.screenshot({ path: join(screenshots, "dashboard-phone.png"), fullPage: true });
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
  });

  it("says that it needs its token, and that its server is gone", async () => {
    const job = await playJob();
    await job.show(someStatus());
    await openPage(job);
    await page.locator('[data-replica="policy-0"]').waitFor();
    await job.dashboard.close();
    await page.getByText("the page has lost its server").waitFor();
    expect(await page.locator('[data-replica="policy-0"]').count()).toBe(1);
    // It was started again, with another token.
    const json = { error: "the token is not the one of this server" };
    await page.route("**/api/v1/stream", (route) => route.fulfill({ status: 401, json }));
    await page.getByText("wants another token now").waitFor();
    await page.unroute("**/api/v1/stream");
    const other = await playJob();
    await page.goto(other.base);
    await page.getByText("lacks its token").waitFor();
    await other.close();
  });
});
