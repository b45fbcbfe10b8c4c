#!/usr/bin/env node
// The admin listener's page in a real browser while `make demo` runs: at three widths, light and dark, during its overload.
// The sentence must be true of what the gateway counts meanwhile. Leaves screenshots. usage: page-demo.mjs LAB FOLDER
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

const [lab, folder] = process.argv.slice(2);
const { chromium } = createRequire(path.resolve(folder, "x.js"))("playwright-core");
mkdirSync(folder, { recursive: true });
// Requests of basic a second, twice those before the overload.
const SURGE = 600;
const failures = [];
const check = (good, what) => {
  console.log(`${good ? "ok  " : "FAIL"} ${what}`);
  if (!good) failures.push(what);
};
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const demo = spawn(lab, ["demo"], { stdio: ["ignore", "pipe", "inherit"] });
let printed = "";
demo.stdout.on("data", (it) => { printed += it; });
let ended = false;
const end = new Promise((done) => demo.once("exit", (code) => { ended = true; done(code); }));

// The admin listener of the demo's gateway, found by the policy that the process was given.
const admin = () => {
  for (const pid of readdirSync("/proc").filter((it) => /^\d+$/.test(it))) {
    try {
      if (!new RegExp(`^PPid:\\s${demo.pid}$`, "m").test(readFileSync(`/proc/${pid}/status`, "utf8"))) continue;
      const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      const policy = words.includes("run") && words.find((it) => it.startsWith("/") && it !== words[0]);
      const address = policy && /^admin = "(.*)"/m.exec(readFileSync(policy, "utf8"));
      if (address) return `http://${address[1]}/`;
    } catch { /* it has ended meanwhile */ }
  }
};
// Requests of each class so far.
const counts = async (url) => {
  const text = await (await fetch(`${url}metrics`)).text();
  const sum = (name, kind) => [...text.matchAll(new RegExp(`^${name}\\{([^}]*)\\} (\\S+)`, "gm"))]
    .filter((it) => it[1].includes(`class="${kind}"`)).reduce((all, it) => all + Number(it[2]), 0);
  return Object.fromEntries(["premium", "basic"].map((kind) => [kind,
    { arrived: sum("tiergate_requests_arrived_total", kind), refused: sum("tiergate_requests_refused_total", kind) }]));
};

let browser;
try {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--no-proxy-server", "--disable-dev-shm-usage"],
  });
  let url;
  while (!(url = admin()) && !ended) await sleep(200);
  while (!ended && !await fetch(`${url}healthz`).then((it) => it.ok, () => false)) await sleep(200);
  const pages = [];
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [360, 820, 1440]) {
      const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 } });
      const page = await context.newPage();
      const said = [];
      page.on("console", (it) => { if (["error", "warning"].includes(it.type())) said.push(it.text()); });
      page.on("pageerror", (it) => said.push(String(it)));
      await page.goto(url, { waitUntil: "load" });
      pages.push({ name: `demo-${width}-${colorScheme}`, page, said });
    }
  }
  const sentence = (page) => page.textContent("#sentence");
  const shown = pages[0].page;
  // Of the overload: six pages that are opened at once take the processors from a calm demo, too, and something is shed.
  const surge = async () => {
    const arrived = async () => (await counts(url)).basic.arrived;
    const since = await arrived();
    await sleep(500);
    return await arrived() - since >= SURGE / 2;
  };
  while (!ended && !(await surge() && /shedding/.test(await sentence(shown)))) await sleep(100);
  // What it counts in some seconds of the overload, and what the page says at their end.
  const before = await counts(url);
  await sleep(4000);
  const [after, verdict] = [await counts(url), await sentence(shown)];
  const during = (kind, what) => after[kind][what] - before[kind][what];
  console.log(`     "${verdict}"; in four seconds: ${JSON.stringify({ before, after })}`);
  check(/shedding .*basic/.test(verdict) && during("basic", "refused") > 0, "it says that basic is shed, and basic is refused");
  const [shed, premium] = ["basic", "premium"].map((kind) => during(kind, "refused") / during(kind, "arrived"));
  const told = /shedding (\d+) % of basic/.exec(verdict);
  check(!told || Math.abs(told[1] / 100 - shed) < 0.25, `it says which part of basic: ${told?.[1]} %, counted ${Math.round(shed * 100)} %`);
  check(/shedding [^;]*premium/.test(verdict) === premium > 0.01, `of premium ${Math.round(premium * 100)} % are refused`);
  for (const { name, page, said } of pages) {
    await page.screenshot({ path: path.join(folder, `${name}.png`), fullPage: true });
    check(/saturated|shedding|overload/.test(await sentence(page)) && !ended, `${name}: during the overload`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    check(wide <= 0, `${name}: fits (${wide} px too wide)`);
    check(said.length === 0, `${name}: no console messages ${said.join(" | ")}`);
  }
} catch (fault) {
  check(false, String(fault));
} finally {
  await browser?.close();
  if (failures.length && !ended) demo.kill("SIGTERM");
}
const code = await end;
if (!failures.length) check(code === 0, "the demo passed");
console.log(printed.trimEnd().split("\n").slice(-12).join("\n"));
console.log(failures.length ? `${failures.length} failed` : `all good; screenshots in ${folder}`);
process.exit(failures.length ? 1 : 0);
