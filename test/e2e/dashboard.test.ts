/**
 * The page of a real job in a real browser: somebody kills a sampler and the controller dies, and the page shows how the job goes on. Half a minute: a browser, a
 * replica that comes back, one more that joins, and a controller that is followed.
 */
import { join } from "node:path";
import { chromiumMissing, findChromium, openBrowser, processesNaming, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

const program = findChromium();
let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());
beforeEach((context) => context.skip(program === null, chromiumMissing));

test("whoever looks sees who was killed, who is back, who commands, and how the job ends", async () => {
  const run = await runs.start("seen", "--steps", "100000", "--rollout", "2");
  await run.waitForEvent("step.committed");
  const server = await runs.muster("dashboard", "--job", run.job, "--listen", "127.0.0.1:0", "--json");
  const { url } = JSON.parse(await server.waitForLine('{"url"')) as { url: string };
  const browser = await openBrowser(program ?? "");
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 1400 } });
    page.setDefaultTimeout(30_000);
    await page.goto(url);
    await page.getByText("Moving.").waitFor();

    const row = page.locator('[data-replica="rollout-0"]');
    await row.getByRole("button", { name: "Kill" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Kill" }).click();
    await page.getByText(/^! rollout-0 died:/).waitFor();
    await row.getByText("1 death").waitFor();
    await row.getByText("healthy").waitFor();

    for (const { pid, args } of processesNaming(runs.path))
      if (args.includes("controller")) process.kill(pid, "SIGKILL");
    const before = run.events("step.committed").length;
    await waitFor(() => run.events("step.committed").length > before + 2, {
      what: "steps of the next controller",
      timeoutMs: 30_000,
    });
    await page.getByText("Moving.").waitFor();

    await page.getByLabel("more rollout replicas").click();
    await page.locator(".scale", { hasText: "rollout" }).getByRole("button", { name: "Scale" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Scale" }).click();
    await page.locator('[data-replica="rollout-2"]').getByText("healthy").waitFor();
    await page.locator(".lines", { hasText: "fleet.scale" }).getByText("done").first().waitFor();
    if (process.env.MUSTER_SCREENSHOTS)
      await page.screenshot({ path: join(process.env.MUSTER_SCREENSHOTS, "dashboard-job.png"), fullPage: true });

    const stop = await runs.muster("stop", "--job", run.job);
    expect((await stop.exited).code).toBe(0);
    await page.getByText("The job is stopped").waitFor();
    expect(await run.ended()).toMatchObject({ lost: 0, doubled: 0 });
  } finally {
    await browser.close();
    server.signal("SIGINT");
  }
  expect({ ...(await server.exited), said: server.lines.slice(1) }).toMatchObject({ code: 130, signal: null });
}, 150_000);
