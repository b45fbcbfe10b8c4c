#!/usr/bin/env node
// The admin listener's page in a real browser: a gateway under too much load with hostile requests, the page at three widths, in light
// and dark. Checks that it has no console errors, asks nothing of anybody else, updates live, fits, runs no script of strangers, and
// leaves screenshots. usage: page.mjs GATEWAY FOLDER
import { spawn } from "node:child_process";
import { createServer, request, Agent } from "node:http";
import { createRequire } from "node:module";
import { mkdirSync, writeFileSync } from "node:fs";
import net from "node:net";
import path from "node:path";

const [gateway, folder] = process.argv.slice(2);
const { chromium } = createRequire(path.resolve(folder, "x.js"))("playwright-core");
mkdirSync(folder, { recursive: true });
const seconds = Number(process.env.SECONDS_LOADED ?? 25);
const failures = [];
const check = (good, what) => {
  console.log(`${good ? "ok  " : "FAIL"} ${what}`);
  if (!good) failures.push(what);
};
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const until = async (holds) => {
  for (let tries = 0; tries < 75; tries++) {
    if (await holds()) return true;
    await sleep(200);
  }
  return false;
};
const port = () => new Promise((done) => {
  const it = net.createServer().listen(0, "127.0.0.1", () => {
    const { port } = it.address();
    it.close(() => done(port));
  });
});

// An origin that takes 40 ms, and one that refuses connections.
const origin = createServer((_, answer) => setTimeout(() => answer.end("x".repeat(512)), 40));
await new Promise((done) => origin.listen(0, "127.0.0.1", done));
const [listen, admin, dead] = [await port(), await port(), await port()];
const policy = path.join(folder, "policy.toml");
const text = (slots) => `admin = "127.0.0.1:${admin}"
trusted = ["127.0.0.1"]
[[listener]]
address = "127.0.0.1:${listen}"
[origin]
servers = ["127.0.0.1:${origin.address().port}", "127.0.0.1:${dead}"]
slots = ${slots}
[[class]]
name = "checkout"
[[class]]
name = "browse"
deadline = "1s"
[[class]]
name = "prefetch"
deadline = "300ms"
queue = 20
[[rule]]
name = "orders"
path = "/order/*"
class = "checkout"
[[rule]]
name = "ahead"
path = "/ahead/*"
class = "prefetch"
[[rule]]
path = "/**"
class = "browse"
`;
writeFileSync(policy, text(10));
const log = path.join(folder, "gateway.log");
const child = spawn(gateway, ["run", policy], { stdio: ["ignore", "ignore", "pipe"] });
let errors = "";
child.stderr.on("data", (it) => { errors += it; });
const ended = new Promise((done) => child.once("exit", done));
const url = `http://127.0.0.1:${admin}/`;
try {
  for (let tries = 0; ; tries++) {
    if (await fetch(`${url}healthz`).then((it) => it.ok, () => false)) break;
    if (tries > 100) throw new Error(`the gateway does not start:\n${errors}`);
    await sleep(100);
  }
  // Clients that come in a closed loop, each from an address of its own.
  const agent = new Agent({ keepAlive: true, maxSockets: 400 });
  let loaded = true;
  const once = (path, client) => new Promise((done) => {
    const headers = { "x-forwarded-for": client };
    const it = request({ port: listen, host: "127.0.0.1", path, agent, headers }, (answer) => {
      answer.resume().on("end", done).on("error", done);
    });
    it.on("error", done).end();
  });
  const loop = async (path, client, pause) => {
    while (loaded) {
      await once(path, client);
      await sleep(pause);
    }
  };
  const hostile = "/ahead/%3Cimg%20src=x%20onerror=alert(1)%3E\"><script>alert(1)</script>";
  const loops = [];
  for (let it = 0; it < 8; it++) loops.push(loop(`/order/${it}`, `192.0.2.${it}`, 150));
  for (let it = 0; it < 25; it++) loops.push(loop(`/list/${it % 5}`, `198.51.100.${it}`, 60));
  for (let it = 0; it < 60; it++) loops.push(loop(it % 3 ? `/ahead/${it % 4}` : hostile, it % 4 ? "203.0.113.7" : `203.0.113.${it + 20}`, 50));
  await sleep(seconds * 500);
  writeFileSync(policy, text(9));
  check((await fetch(`${url}reload`, { method: "POST" })).ok, "a reload");
  await sleep(seconds * 500);

  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--no-proxy-server", "--disable-dev-shm-usage"],
  });
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [390, 820, 1440]) {
      const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 } });
      const page = await context.newPage();
      const [said, asked] = [[], []];
      page.on("console", (it) => { if (["error", "warning"].includes(it.type())) said.push(it.text()); });
      page.on("pageerror", (it) => said.push(String(it)));
      page.on("dialog", (it) => { said.push(`dialog: ${it.message()}`); it.dismiss(); });
      page.on("request", (it) => asked.push(it.url()));
      const name = `${width} ${colorScheme}`;
      await page.goto(url, { waitUntil: "load" });
      const before = await page.textContent("#classes");
      // Not by waitForFunction, which the page's security policy forbids.
      const live = await until(async () => await page.textContent("#live") === "live"
        && await page.textContent("#classes") !== before);
      check(live, `${name}: updates live`);
      if (await page.locator("details[data-key=diff]").count()) {
        await page.click("details[data-key=diff] summary");
        await page.evaluate(() => { document.getElementById("config").dataset.kept = "1"; });
        await sleep(4500);
        check(await page.locator("details[data-key=diff][open]").count() === 1, `${name}: what was opened stays open`);
      } else check(false, `${name}: shows what the reload changed`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(wide <= 0, `${name}: fits (${wide} px too wide)`);
      const verdict = await page.textContent("#sentence");
      check(/saturated; shedding .* of prefetch/.test(verdict), `${name}: says "${verdict}"`);
      check(await page.locator("main script, main img").count() === 0, `${name}: nothing of strangers is markup`);
      check(/onerror=alert\(1\)/.test(await page.textContent("#refused")), `${name}: the hostile path is shown as text`);
      check(said.length === 0, `${name}: no console messages ${said.join(" | ")}`);
      const outside = asked.filter((it) => !it.startsWith(url) && !it.startsWith("data:"));
      check(outside.length === 0, `${name}: no outside requests ${outside.join(" ")}`);
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: path.join(folder, `${width}-${colorScheme}.png`), fullPage: true });
      await page.screenshot({ path: path.join(folder, `${width}-${colorScheme}-top.png`) });
      // Every text is readable: what names and roles there are is in the accessibility tree.
      if (width === 1440) {
        const images = await page.locator("svg[role=img]").evaluateAll((all) => all.filter((it) => !it.getAttribute("aria-label")).length);
        check(images === 0, `${name}: every chart has a text`);
      }
      await context.close();
    }
  }
  // Without scripts, too.
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(url);
  check(/served/.test(await page.textContent("#classes")), "works without scripts");
  await browser.close();
  loaded = false;
  await Promise.all(loops);
  agent.destroy();
} finally {
  child.kill("SIGTERM");
  await Promise.race([ended, sleep(5000)]);
  child.kill("SIGKILL");
  origin.closeAllConnections();
  origin.close();
  writeFileSync(log, errors);
}
console.log(failures.length ? `${failures.length} failed` : `all good; screenshots in ${folder}`);
process.exit(failures.length ? 1 : 0);
