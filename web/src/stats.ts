/** The page with statistics: totals, a plot of the days, and a table with bars for each kind of group. */

import { list, object, product, text, type Json } from "./acp";
import { h, scroller, svg } from "./dom";
import { grouped, money } from "./format";
import { themeButton } from "./theme";

/** How many days a plot has. */
const [FEWEST, MOST] = [30, 120];
const DAY = 86_400_000;
const HEIGHT = 160;
const STEP = 10;

interface Group {
  name: string;
  sessions: number;
  turns: number;
  tokens: number;
  cost: Json[];
  /** In US dollars, by list prices, of what no agent reported a cost. */
  computed: number;
}

type Measure = "turns" | "tokens" | "cost";

const MEASURES: [Measure, string][] = [["turns", "Turns"], ["tokens", "Tokens"], ["cost", "Cost"]];

function group(value: Json): Group {
  return {
    name: text(value["name"]),
    sessions: Number(value["sessions"]) || 0,
    turns: Number(value["turns"]) || 0,
    tokens: Number(object(value["tokens"])["totalTokens"]) || 0,
    cost: list(value["cost"]),
    computed: Number(object(value["computedCost"])["amount"]) || 0,
  };
}

const costOf = ({ cost, computed }: Group) => cost.reduce((sum, { amount }) => sum + (Number(amount) || 0), computed);
const valueOf = (group: Group, measure: Measure) => (measure === "cost" ? costOf(group) : group[measure]);
const amounts = (cost: Json[]) => cost.map(({ amount, currency }) => money(Number(amount) || 0, text(currency))).join(", ");
const paid = ({ cost, computed }: Group) => {
  if (!computed) return amounts(cost) || "\u2013";
  const isUsd = ({ currency }: Json) => currency === "USD";
  const known = cost.filter(isUsd).reduce((sum, { amount }) => sum + (Number(amount) || 0), 0);
  const sum = `~${money(known + computed, "USD")}`;
  const others = cost.filter((one) => !isUsd(one));
  return others.length ? `${sum}, ${amounts(others)}` : sum;
};
const some = (n: number) => (n ? grouped(n) : "\u2013");
const said = (group: Group, measure: Measure) =>
  measure === "cost" ? paid(group) : `${some(group[measure])} ${measure}`;

/** Every day up to the last, those without turns, too. */
function everyDay(days: Group[]): Group[] {
  const known = new Map(days.map((day) => [day.name, day]));
  const [first, last] = [days[0], days.at(-1)];
  if (!first || !last) return [];
  const all: Group[] = [];
  const end = Date.parse(last.name);
  const count = Math.min(MOST, Math.max(FEWEST, 1 + (end - Date.parse(first.name)) / DAY));
  for (let at = end - (count - 1) * DAY; at <= end; at += DAY) {
    const name = new Date(at).toISOString().slice(0, 10);
    all.push(known.get(name) ?? { name, sessions: 0, turns: 0, tokens: 0, cost: [], computed: 0 });
  }
  return all;
}

const dayName = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
const named = (day: Group) => dayName.format(new Date(day.name));

function plot(all: Group[], measure: Measure): HTMLElement {
  const days = everyDay(all);
  const most = Math.max(...days.map((day) => valueOf(day, measure)), 0) || 1;
  const bars = days.map((day, i) => {
    const height = Math.max(valueOf(day, measure) && 2, (valueOf(day, measure) / most) * HEIGHT);
    const label = svg("title");
    label.textContent = `${named(day)}: ${said(day, measure)}`;
    return svg("g", {},
      svg("rect", { x: i * STEP, y: 0, width: STEP, height: HEIGHT, class: "slot" }),
      svg("rect", { x: i * STEP + 1, y: HEIGHT - height, width: STEP - 2, height, rx: 1, class: "column" }),
      label);
  });
  const [first, last] = [days[0], days.at(-1)];
  const busiest = days.reduce((a, b) => (valueOf(b, measure) > valueOf(a, measure) ? b : a));
  const label = `${measure} by day; the most on ${named(busiest)}: ${said(busiest, measure)}`;
  const width = days.length * STEP;
  // The totals above are of all days.
  const isPart = first && all[0] && all[0].name < first.name;
  const begin = first ? `${named(first)}${isPart ? `, the last ${MOST} days` : ""}` : "";
  return h("figure", { class: "plot" },
    svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...bars),
    h("figcaption", {}, h("span", {}, begin), h("span", {}, `most: ${said(busiest, measure)}`), h("span", {}, last ? named(last) : "")));
}

function table(caption: string, groups: Group[], measure: Measure): HTMLElement {
  const rows = [...groups].sort((a, b) => valueOf(b, measure) - valueOf(a, measure) || a.name.localeCompare(b.name));
  const most = Math.max(...rows.map((row) => valueOf(row, measure)), 0) || 1;
  const head = ["", "sessions", "turns", "tokens", "cost"].map((name) =>
    h("th", { scope: "col" }, name || h("span", { class: "hidden" }, "name")));
  const body = rows.map((row) => {
    const bar = h("span", { class: "share", "aria-hidden": "true" });
    bar.style.width = `${(valueOf(row, measure) / most) * 100}%`;
    bar.hidden = valueOf(row, measure) === 0;
    return h("tr", {},
      h("th", { scope: "row" }, h("span", { class: "name" }, row.name || "unknown"), bar),
      ...[some(row.sessions), some(row.turns), some(row.tokens), paid(row)].map((value) => h("td", {}, value)));
  });
  return h("section", { class: "numbers" },
    h("h2", {}, caption),
    scroller(`Table, ${caption}`, "wide",
      h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body))));
}

function start(): void {
  const element = document.querySelector('script[type="application/json"]');
  const data = object(JSON.parse(element?.textContent || "{}"));
  const groups = (name: string) => list(data[name]).map(group);
  const total = group(object(data["total"]));
  const days = groups("days");
  const date = text(object(data["prices"])["date"]);
  const without = Number(object(data["total"])["turnsWithoutCost"]) || 0;
  const limits = [
    ...(total.computed ? [` Costs with a ~ are computed by the list prices of ${date}, where no agent reported one.`] : []),
    ...(without ? [` The cost of ${grouped(without)} turns is not known.`] : []),
  ];
  const shown = h("div", {});
  const switches = MEASURES.map(([measure, name]) => {
    const choice = h("button", { type: "button", class: "choice", "aria-pressed": "false" }, name);
    choice.disabled = valueOf(total, measure) === 0;
    choice.addEventListener("click", () => show(measure));
    return choice;
  });
  const show = (measure: Measure) => {
    switches.forEach((choice, i) => choice.setAttribute("aria-pressed", String(MEASURES[i]?.[0] === measure)));
    shown.replaceChildren(
      ...(days.length ? [plot(days, measure)] : []),
      table("Agents", groups("agents").map((agent) => ({ ...agent, name: product(agent.name) })), measure),
      table("Models", groups("models"), measure),
      table("Folders", groups("folders"), measure),
    );
  };
  const facts: [string, string][] = [
    ["Sessions", grouped(total.sessions)], ["Turns", grouped(total.turns)], ["Tokens", some(total.tokens)], ["Cost", paid(total)],
  ];
  document.body.append(
    h("header", { class: "bar" }, h("p", { class: "bar-title" }, "rejoin"), themeButton()),
    h("main", { id: "main" },
      h("section", { class: "intro", "aria-label": "Totals" },
        h("h1", {}, "Statistics"),
        h("dl", { class: "totals" }, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))))),
      h("div", { class: "choices", role: "group", "aria-label": "What the bars show" }, ...switches),
      shown,
      h("footer", { class: "foot" }, "Written by rejoin. Tokens and cost are those that agents report; many report none.", ...limits)),
  );
  show("turns");
}

addEventListener("DOMContentLoaded", start);
