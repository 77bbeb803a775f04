// SPDX-License-Identifier: BSD-3-Clause
// Opens pages in Chromium and prints what it saw as JSON, for test_pages.py:
//
//	node pages.js CHROMIUM PICTURES NAME=FILE...
"use strict";
const path = require("path");
const { chromium } = require("playwright-core");

const WIDTHS = [360, 1920];

async function look(browser, name, file, pictures) {
  const seen = { requests: [], errors: [], overflow: {}, hostile: null };
  for (const width of WIDTHS) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
      page.on("request", (request) => { if (request.url() !== "file://" + file) seen.requests.push(request.url()); });
      page.on("pageerror", (error) => seen.errors.push(error.message));
      page.on("console", (message) => { if (message.type() === "error") seen.errors.push(message.text()); });
      await page.goto("file://" + file);
      seen.overflow[width] = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      await page.screenshot({ path: path.join(pictures, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      seen.title = await page.title();
      seen.hostile = await page.evaluate(() => window.hostile || null);
      seen.unlabelled = await page.evaluate(() => document.querySelectorAll("svg[role=img]:not([aria-label]), input:not([aria-label])").length);
      await page.close();
    }
  }
  return seen;
}

// What the script adds: filter, fold, sort, the value under the pointer.
async function use(browser, file) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const did = {};
  await page.goto("file://" + file);
  did.groups = await page.locator("details.group").count();
  if (did.groups) {
    const first = page.locator("details.group").first();
    did.open_before = await first.evaluate((node) => node.open);
    await first.locator("summary").first().click();
    did.open_after = await first.evaluate((node) => node.open);
    const rows = () => page.evaluate(() => document.querySelectorAll("tr[data-s]:not(.gone)").length);
    did.rows = await rows();
    await page.fill(".search input", "paused cxi1");
    await page.waitForTimeout(400);
    did.rows_filtered = await rows();
    did.filtered_names = await page.evaluate(() => [...document.querySelectorAll("tr[data-s]:not(.gone)")].map((row) => row.dataset.s + " " + row.dataset.k));
    did.output = await page.textContent(".search output");
    did.hit_is_open = await page.evaluate(() => [...document.querySelectorAll("details.group")].some((node) => node.open && !node.classList.contains("gone")));
    await page.fill(".search input", "");
    await page.waitForTimeout(400);
    did.rows_again = await rows();
  }
  const sort = page.locator("#flows table.sort th button").nth(2);
  if (await sort.count()) {
    await sort.click();
    did.sorted = await page.evaluate(() => [...document.querySelectorAll("#flows tbody tr")].map((row) => Number(row.cells[2].dataset.v)));
    const plot = page.locator("figure.chart .plot > svg").first();
    await plot.hover();
    did.tip = await page.locator(".tip:not([hidden])").first().textContent();
  }
  await page.close();
  return did;
}

async function without_script(browser, file) {
  const context = await browser.newContext({ javaScriptEnabled: false, viewport: { width: 800, height: 900 } });
  const page = await context.newPage();
  await page.goto("file://" + file);
  const text = await page.textContent("body");
  const search = await page.locator(".search").first().isVisible().catch(() => false);
  await context.close();
  return { length: text.length, search, has_findings: text.includes("Findings") || text.includes("Likely cause") };
}

async function main() {
  const [executablePath, pictures, ...pages] = process.argv.slice(2);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const result = {};
  for (const word of pages) {
    const at = word.indexOf("="), name = word.slice(0, at), file = word.slice(at + 1);
    result[name] = { ...(await look(browser, name, file, pictures)), use: await use(browser, file), plain: await without_script(browser, file) };
  }
  const page = await browser.newPage();
  await page.goto("file://" + pages[0].slice(pages[0].indexOf("=") + 1));
  result.pdf = (await page.pdf({ path: path.join(pictures, "print.pdf"), format: "A4" })).length;
  await browser.close();
  console.log(JSON.stringify(result));
}

main().catch((error) => { console.error(error); process.exit(1); });
