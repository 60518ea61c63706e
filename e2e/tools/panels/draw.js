// What does each panel of the chart's dashboards show of a real Prometheus? Writes one picture (PNG) for each dashboard, drawn by page.js in Chromium.
//
// node draw.js --prometheus http://127.0.0.1:9090 --to docs/images --minutes 10 --queue vision --resource cpu

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const HERE = dirname(fileURLToPath(import.meta.url));
const DASHBOARDS = join(HERE, "../../../charts/podgroup/dashboards");

// Seconds between two points, and the range of a rate: those of Grafana for a data source with its default scrape interval of 15 s.
const STEP = 15;
const RATE_INTERVAL = "1m";

// Pixels: the width of a picture, a row of Grafana's grid, and the head above the panels.
const WIDTH = 1400;
const ROW = 38;
const HEAD = 64;

const { values: options } = parseArgs({
  options: {
    prometheus: { type: "string" },
    to: { type: "string" },
    minutes: { type: "string", default: "10" },
    queue: { type: "string", default: "default" },
    resource: { type: "string", default: "cpu" },
    chromium: { type: "string", default: process.env.CHROMIUM ?? "chromium" },
  },
});

async function ask(path, parameters) {
  const url = new URL(`/api/v1/${path}?${new URLSearchParams(parameters)}`, options.prometheus);
  const response = await fetch(url);
  const answer = await response.json();
  if (answer.status !== "success") throw new Error(`${url}: ${answer.error}`);
  return answer.data;
}

/** Returns the text with the chosen values in place of the variables. */
function filled(text, chosen) {
  // `$1` is a part of a match in a query.
  return text.replace(/\$([a-z_]\w*)/g, (whole, name) => {
    if (!(name in chosen)) throw new Error(`no value for ${whole} in ${text}`);
    return chosen[name];
  });
}

/** Returns the chosen value of each variable. A variable that offers "All" has it; every other has a value that Prometheus offers. */
async function choose(variables) {
  const chosen = { __rate_interval: RATE_INTERVAL };
  for (const variable of variables.filter(({ type }) => type === "query")) {
    const [, selector, label] = /^label_values\((.*), (\w+)\)$/.exec(variable.query);
    const offered = await ask(`label/${label}/values`, { "match[]": filled(selector, chosen) });
    const wanted = variable.includeAll ? variable.allValue : options[variable.name];
    if (!variable.includeAll && !offered.includes(wanted)) throw new Error(`${variable.name}: ${wanted} is none of ${offered}`);
    chosen[variable.name] = wanted;
  }
  return chosen;
}

/** Returns the series of a query: its name in the legend, its labels, and points of time and value. */
async function seriesOf(target, chosen, end) {
  const query = filled(target.expr, chosen);
  const start = end - options.minutes * 60;
  const result = target.instant
    ? (await ask("query", { query, time: end })).result.map((one) => ({ ...one, values: [one.value] }))
    : (await ask("query_range", { query, start, end, step: STEP })).result;
  return result.map(({ metric, values }) => ({
    name: target.legendFormat.replace(/\{\{(\w+)\}\}/g, (_, label) => metric[label] ?? ""),
    labels: metric,
    refId: target.refId,
    points: values.map(([time, value]) => [time, Number(value)]).filter(([, value]) => !Number.isNaN(value)),
  }));
}

/** Returns the page of a dashboard, with what Prometheus answers. */
async function page(dashboard, end) {
  const chosen = await choose(dashboard.templating.list);
  const panels = [];
  // A collapsed row is drawn open; only the last one is collapsed.
  for (const panel of dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])])) {
    if (panel.type === "row") {
      panels.push({ ...panel, title: `▾ ${filled(panel.title, chosen)}` });
      continue;
    }
    const answers = await Promise.all(panel.targets.map((target) => seriesOf(target, chosen, end)));
    panels.push({ ...panel, series: answers.flat() });
    if (answers.flat().length === 0) console.log(`no data: ${dashboard.title}, ${panel.title}`);
  }
  const shown = dashboard.templating.list.filter(({ type }) => type === "query");
  const data = {
    title: dashboard.title,
    variables: shown.map((variable) => [variable.label, variable.includeAll ? "All" : chosen[variable.name]]),
    panels,
    times: Array.from({ length: (options.minutes * 60) / STEP + 1 }, (_, at) => end - options.minutes * 60 + at * STEP),
    size: { row: ROW, head: HEAD },
  };
  const at = (path) => pathToFileURL(join(HERE, path)).href;
  return `<!doctype html><meta charset="utf-8">
<link rel="stylesheet" href="${at("node_modules/uplot/dist/uPlot.min.css")}"><link rel="stylesheet" href="${at("page.css")}">
<body><script>const DASHBOARD = ${JSON.stringify(data).replaceAll("<", "\\u003c")};</script>
<script src="${at("node_modules/uplot/dist/uPlot.iife.min.js")}"></script><script src="${at("page.js")}"></script>`;
}

const end = Math.floor(Date.now() / 1000 / STEP) * STEP;
const folder = mkdtempSync(join(tmpdir(), "panels-"));
mkdirSync(options.to, { recursive: true });
for (const file of readdirSync(DASHBOARDS).sort()) {
  const dashboard = JSON.parse(readFileSync(join(DASHBOARDS, file)));
  const html = join(folder, "page.html");
  writeFileSync(html, await page(dashboard, end));
  const height = HEAD + ROW * Math.max(...dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]).map(({ gridPos }) => gridPos.y + gridPos.h));
  const picture = resolve(options.to, file.replace(/^podgroup-/, "dashboard-").replace(/json$/, "png"));
  const flags = ["--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1", `--user-data-dir=${folder}/profile`];
  execFileSync(options.chromium, [...flags, `--window-size=${WIDTH},${height}`, `--screenshot=${picture}`, pathToFileURL(html).href], { stdio: "pipe" });
  console.log(picture);
}
rmSync(folder, { recursive: true });
