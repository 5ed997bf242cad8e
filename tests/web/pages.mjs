// What the pages show, do and refuse to do: pages.mjs BINARY BROWSER SCRATCH [PICTURES]
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { check, finish } from "../interop/support/checks.mjs";
import { everyKind, hostile, long, version2 } from "./sessions.mjs";

const [binary, executablePath, scratch, pictures] = process.argv.slice(2);
const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const store = `${scratch}/store`;
const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };
/** The windows and colours in which the pages are looked at. */
const LOOKS = [["desktop", DESKTOP], ["phone", PHONE]].flatMap(([name, viewport]) =>
  ["light", "dark"].map((colorScheme) => ({ name, viewport, colorScheme })));

/** Exports a session as a page; its address. */
function exported(log) {
  const id = log.write(store);
  const file = `${scratch}/${id}.html`;
  execFileSync(binary, ["--store", store, "export", id, "--output", file]);
  return pathToFileURL(file).href;
}

/** The page with statistics, which is opened in a cache folder of the test's own. */
const stats = () => {
  const path = execFileSync(binary, ["--store", store, "stats", "--open"], {
    env: { PATH: process.env.PATH, XDG_CACHE_HOME: scratch, HOME: scratch, TZ: "UTC" }, stdio: ["ignore", "pipe", "ignore"],
  });
  return pathToFileURL(String(path).trim()).href;
};

const browser = await chromium.launch({
  executablePath,
  // Scrollbars that take room, as most desktops have them.
  ignoreDefaultArgs: ["--hide-scrollbars"],
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

/** Opens a page and calls `check` with it. Nothing may be requested, logged or go wrong meanwhile. */
async function on(address, { expected, ...options }, check) {
  const context = await browser.newContext({ viewport: DESKTOP, locale: "en-US", timezoneId: "UTC", ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("console", (message) => wrong.push(message.text()));
  page.on("request", (request) => {
    const url = request.url();
    if (url.split("#")[0] !== address.split("#")[0] && !url.startsWith("data:")) wrong.push(`request: ${url}`);
  });
  await page.goto(address);
  await page.waitForSelector("[aria-busy=false], .numbers");
  await check(page);
  assert.deepEqual(wrong.filter((text) => !expected?.test(text)), []);
  await context.close();
}

/** Opens everything that is folded. */
async function unfold(page) {
  for (let depth = 0; depth < 5; depth++) {
    await page.evaluate(() => {
      for (const details of document.querySelectorAll("main details")) details.open = true;
    });
    await page.waitForTimeout(0);
  }
}

const shown = (page) => page.evaluate(() => document.querySelector("main").innerText);

/** All of a page is made, whether or not it is near the window. */
async function makeAll(page) {
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
}

/** Takes a screenshot, if pictures are wanted. */
async function picture(page, name) {
  if (pictures) await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
}

async function accessible(page, what) {
  // The policy of the page does not allow other scripts; the driver's own are no part of it.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 160)).join(" | ")}`);
  assert.deepEqual(found, [], what);
}

/** Nothing is wider than the window, in which a scrollbar may take some room. */
async function fits(page) {
  const [wide, window] = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return [scrollWidth, clientWidth];
  });
  assert.ok(wide <= window, `${wide} pixels wide, but only ${window} in the window`);
}

const kinds = exported(everyKind());

await check("every kind of update of version 1 is shown", () =>
  on(kinds, {}, async (page) => {
    await makeAll(page);
    await unfold(page);
    const text = await shown(page);
    for (const expected of [
      "Claude Code", "Redis timeouts under load", "Redis keeps timing out", "The timeouts begin when the pool is exhausted",
      "Find the cause of the timeouts", "1 of 3 done", "Read src/cache/pool.ts", "+5 \u22123", "await work(connection)",
      "failed", "Error: timed out", "Review of the test", "It uses real timers", "1 min 14 s", "$1.83", "48,211 of 200,000 tokens",
      "The agent shortened its context", "finally fixes it", "a terminal was shown here", "created #12",
      "1. bump", "The plan was removed.", "Message from Review of the test to the user's session", "The test is fine now. Well done.",
      "Connections are always given back", "Update: _vendor_event", "The user cancelled this turn.",
      "This turn failed: the model is overloaded", "This turn was interrupted: the process ended during the turn",
      "This turn has no end in the log", "Friday, November 20, 2026",
    ]) assert.ok(text.includes(expected), `${expected}\n${text}`);
    assert.equal(await page.locator(".user .picture").evaluate((image) => image.naturalWidth), 320);
    assert.equal(await page.locator("audio").count(), 1);
    assert.equal(await page.locator(".call .call.child").count(), 1, "a subagent is inside of its call");
    assert.equal(await page.locator("th").first().innerText(), "errors");
    assert.ok(await page.locator(".code span[style*='--ansi-1']").count() > 0, "colours of a terminal");
    assert.equal(await page.locator(".lines .removed").count(), 3);
  }));

await check("every kind of update of version 2 is shown", () =>
  on(exported(version2()), {}, async (page) => {
    await makeAll(page);
    await unfold(page);
    const text = await shown(page);
    for (const expected of [
      "A whole thought.", "A part of a thought.", "A whole message.", "A part of a message.", "Run a command", "Content in a chunk.",
      "output of a terminal", "A step of version 2", "A short context.", "A subagent of version 2", "The subagent says this.", "A letter.",
    ]) assert.ok(text.includes(expected), `${expected}\n${text}`);
    assert.equal(await page.locator(".child > summary .took").innerText(), "1 part");
  }));

await check("without scripts the pages say what they need", async () => {
  for (const [address, words] of [
    [kinds, "Allow JavaScript to read it, or export it as Markdown."], [stats(), "Allow JavaScript to read them."],
  ]) {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(address);
    assert.ok((await page.locator(".noscript").innerText()).endsWith(words), words);
    await context.close();
  }
});

await check("nothing in a conversation becomes markup, a script or a link that runs one", () =>
  on(exported(hostile()), {}, async (page) => {
    await page.evaluate(() => { globalThis.owned = () => (globalThis.isOwned = true); });
    await makeAll(page);
    await unfold(page);
    for (const element of await page.locator("main a, main summary, main .path").all()) {
      if (await element.isVisible()) await element.dispatchEvent("click");
    }
    const found = await page.evaluate(() => ({
      owned: globalThis.isOwned ?? false,
      scripts: document.querySelectorAll("body script:not(:first-of-type), iframe, object, embed, form, base, meta[http-equiv=refresh]").length,
      handlers: [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some(({ name }) => name.startsWith("on"))).length,
      links: [...document.querySelectorAll("a[href]")].map((a) => a.getAttribute("href")).filter((href) => !/^(#|https?:|mailto:)/.test(href)),
      images: [...document.querySelectorAll("img")].map((i) => i.getAttribute("src")).filter((src) => !src.startsWith("data:image/")),
      title: document.title,
      control: /[\0-\x08\x0b-\x1f\x7f-\x9f]/.test(document.body.innerText),
    }));
    assert.deepEqual(found, {
      owned: false, scripts: 0, handlers: 0, links: [], images: [], title: "</title><script>owned()</script>", control: false,
    });
    const text = await shown(page);
    assert.ok(text.includes("<img src=x onerror=owned()>"), "what was written is shown");
  }));

await check("the policy forbids scripts that are not the page's own", () =>
  // The browser reports both attempts.
  on(kinds, { expected: /Content Security Policy|Trusted/ }, async (page) => {
    const ran = await page.evaluate(() => {
      const script = document.createElement("script");
      try {
        script.textContent = "globalThis.isOwned = true";
      } catch {
        return "refused";
      }
      document.body.append(script);
      return globalThis.isOwned ?? "ignored";
    }).catch(() => "refused");
    assert.notEqual(ran, true);
    assert.equal(await page.evaluate(() => {
      try {
        document.body.insertAdjacentHTML("beforeend", "<b>x</b>");
        return "inserted";
      } catch {
        return "refused";
      }
    }), "refused");
  }));

await check("a search finds what is folded, counts hits and goes through them", () =>
  on(kinds, {}, async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type("REAL timers");
    await page.waitForFunction(() => document.querySelector(".count").textContent === "1 of 1");
    assert.ok(await page.locator(".hit", { hasText: "Ask a reviewer" }).isVisible());
    assert.ok(await page.getByText("It uses real timers").isVisible());
    await page.locator("input").fill("pool");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => /^\d+ of \d+$/.test(document.querySelector(".count").textContent));
    const count = () => page.locator(".count").innerText();
    const [first, all] = (await count()).split(" of ").map(Number);
    assert.ok(all > 3);
    await page.keyboard.press("Enter");
    assert.equal(await count(), `${(first % all) + 1} of ${all}`);
    await page.keyboard.press("Shift+Enter");
    assert.equal(await count(), `${first} of ${all}`);
    await page.locator("input").fill("nowhere at all");
    await page.keyboard.press("Enter");
    assert.equal(await count(), "no hits");
    await page.keyboard.press("Escape");
    assert.equal(await page.locator("input").inputValue(), "");
  }));

await check("the keyboard goes from part to part, and links lead to parts", () =>
  on(kinds, {}, async (page) => {
    const focused = () => page.evaluate(() => document.activeElement.id);
    await page.keyboard.press("j");
    assert.equal(await focused(), "t1");
    await page.keyboard.press("j");
    assert.equal(await focused(), "t1.1");
    await page.keyboard.press("k");
    assert.equal(await focused(), "t1");
    const link = page.locator("#t1 > header .permalink");
    assert.equal(await link.getAttribute("href"), "#t1");
    await page.evaluate(() => (location.hash = "#t3"));
    await page.waitForFunction(() => document.activeElement.id === "t3");
    assert.ok(await page.locator("#t3").isVisible());
    await page.evaluate(() => (location.hash = "#s1.1"));
    await page.waitForFunction(() => document.activeElement.id === "s1.1");
    await page.locator("nav a").nth(1).click();
    await page.waitForFunction(() => document.activeElement.id === "t2");
    // The list follows the window's position with the next frame.
    await page.waitForFunction(
      (turn) => document.querySelector("nav [aria-current]")?.innerText === turn,
      "2\nCan you also bump the version and write the changelog?",
    );
  }));

await check("the colours can be chosen", () =>
  on(kinds, { colorScheme: "light" }, async (page) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    const theme = page.getByRole("button", { name: /^Colours/ });
    await theme.click();
    assert.equal(await ground(), light);
    await theme.click();
    assert.notEqual(await ground(), light);
  }));

for (const { name, viewport, colorScheme } of LOOKS) {
  await check(`${name}, ${colorScheme}: no accessibility errors, nothing wider than the window`, () =>
    on(kinds, { viewport, colorScheme }, async (page) => {
      await makeAll(page);
      await picture(page, `${name}-${colorScheme}`);
      await accessible(page, "as it opens");
      await unfold(page);
      await accessible(page, "unfolded");
      await picture(page, `${name}-${colorScheme}-unfolded`);
      await fits(page);
    }));
}

await check("nothing is wider than a window of any width", () =>
  on(kinds, {}, async (page) => {
    await makeAll(page);
    await unfold(page);
    for (const width of [320, 390, 640, 800, 1024, 1088, 1100, 1200, 1280, 1312, 1330, 1440, 1920]) {
      await page.setViewportSize({ width, height: 800 });
      await fits(page);
    }
  }));

await check("print has every part", () =>
  on(kinds, {}, async (page) => {
    const pdf = await page.pdf();
    if (pictures) writeFileSync(`${pictures}/print.pdf`, pdf);
    assert.ok(pdf.length > 10_000);
  }));

await check("ten thousand turns are usable at once", async () => {
  const turns = exported(long());
  await on(turns, {}, async (page) => {
    const { paint, elements, length } = await page.evaluate(() => ({
      paint: Math.round(performance.getEntriesByName("first-contentful-paint")[0].startTime),
      complete: Math.round(performance.now()),
      elements: document.querySelectorAll("main *").length,
      length: document.querySelectorAll("main .block").length,
    }));
    console.log(`  first painted after ${paint} ms, ${elements} elements of ${length} blocks`);
    assert.ok(elements < 20_000, `${elements} elements`);
    await page.keyboard.press("/");
    await page.keyboard.type("needle-in-the-haystack");
    await page.waitForFunction(() => document.querySelector(".count").textContent === "1 of 1");
    assert.ok(await page.locator(".hit").isVisible());
    assert.ok((await page.locator(".hit").innerText()).includes("54439"));
    const top = await page.locator(".hit").evaluate((hit) => hit.getBoundingClientRect().top);
    assert.ok(top >= 0 && top < DESKTOP.height, `the hit is at ${top}`);
  });
  await on(`${turns}#t9000`, {}, async (page) => {
    await page.waitForFunction(() => document.activeElement.id === "t9000");
    assert.ok(await page.getByText("Question 9000:").first().isVisible());
  });
});

await check("statistics have plots and tables", async () => {
  const address = stats();
  for (const { name, viewport, colorScheme } of LOOKS) {
    await on(address, { viewport, colorScheme }, async (page) => {
      assert.equal(await page.locator("dd").nth(1).innerText(), "10,024");
      assert.ok(await page.getByRole("rowheader", { name: "/srv/<b>x</b>" }).isVisible());
      assert.ok(await page.getByRole("img", { name: /^turns by day; the most on Nov 20, 2026/ }).isVisible());
      await page.getByRole("button", { name: "Cost" }).click();
      assert.ok(await page.getByText("most: $1.83").isVisible());
      await accessible(page, "statistics");
      await picture(page, `stats-${name}-${colorScheme}`);
      await fits(page);
    });
  }
});

await browser.close();
finish();
