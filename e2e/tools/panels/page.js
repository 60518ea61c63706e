// How is each panel drawn? By its type, unit, thresholds, overrides and legend, as its JSON says; what the JSON leaves open has Grafana's default.

const COLORS = ["#3b78c4", "#d9622b", "#3f8f4f", "#7a4fb0", "#b8324f", "#d9a400", "#2a9d9d", "#8c6d3f", "#d673a8", "#6b7a89", "#93b03a", "#4f5fd0"];
const NAMED = { green: "#2f8f46", yellow: "#c79100", orange: "#d9622b", red: "#c4302b", blue: "#3b78c4", text: "#24292e" };
const TIMES = [[86400, "day"], [3600, "hour"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]];
const BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const SHORT = [[1e9, "Bil"], [1e6, "Mil"], [1e3, "K"], [1, ""]];
// Steps between the marks of an axis.
const WHOLE = [1, 10, 100, 1000, 10000].flatMap((ten) => [ten, 2 * ten, 5 * ten]);
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);
const DURATIONS = [
  ...[1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1].flatMap((ten) => [ten, 2 * ten, 5 * ten]),
  ...[10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 43200, 86400],
];
const SUFFIXES = { ops: "ops/s", reqps: "req/s", eps: "evt/s" };

/** Returns a value as text in its unit. */
function format(value, field) {
  const number = (of) => (field.decimals === undefined ? String(Number(of.toPrecision(3))) : of.toFixed(field.decimals));
  const scales = { s: TIMES, bytes: BYTES, short: SHORT }[field.unit];
  if (scales) {
    if (value === 0) return field.unit === "short" ? "0" : `0 ${field.unit === "s" ? "s" : "B"}`;
    const [size, word] = scales.find(([size]) => Math.abs(value) >= size) ?? scales.at(-1);
    return `${number(value / size)} ${word}`.trim();
  }
  if (field.unit in SUFFIXES) return `${number(value)} ${SUFFIXES[field.unit]}`;
  if (field.unit !== "none") throw new Error(`unknown unit ${field.unit}`);
  return number(value);
}

/** Returns the settings of a series or column: the defaults of its panel and every override that matches its name. */
function fieldOf(panel, name) {
  const field = { ...panel.fieldConfig.defaults, custom: { ...panel.fieldConfig.defaults.custom } };
  for (const { matcher, properties } of panel.fieldConfig.overrides) {
    const matches = matcher.id === "byRegexp" ? new RegExp(matcher.options.slice(1, -1)).test(name) : matcher.options === name;
    for (const { id, value } of matches ? properties : []) {
      if (id.startsWith("custom.")) field.custom[id.slice(7)] = value;
      else field[id] = value;
    }
  }
  return field;
}

/** Returns the color of a value by the thresholds. */
function colorOf(value, field) {
  if (field.color?.mode === "fixed") return NAMED[field.color.fixedColor];
  const steps = field.thresholds?.steps ?? [];
  return NAMED[steps.findLast((step) => step.value === null || value >= step.value)?.color ?? "text"];
}

function element(name, parent, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  parent.append(made);
  return made;
}

function timeseries(panel, box) {
  const fields = panel.series.map(({ name }) => fieldOf(panel, name));
  const [first] = fields;
  const { placement, calcs = [] } = panel.options?.legend ?? {};
  const around = element("div", box);
  around.className = `around ${placement ?? "bottom"}`;
  const plot = element("div", around);
  plot.className = "plot";
  const legend = element("div", around);
  legend.className = "legend";
  panel.series.forEach(({ name, points }, at) => {
    const last = calcs.includes("lastNotNull") ? ` ${format(points.at(-1)[1], fields[at])}` : "";
    const entry = element("span", legend, name + last);
    const mark = document.createElement("i");
    mark.style.background = COLORS[at % COLORS.length];
    entry.prepend(mark);
  });
  const columns = panel.series.map(({ points }) => {
    const known = new Map(points);
    return DASHBOARD.times.map((time) => known.get(time) ?? null);
  });
  const lines = first.custom.thresholdsStyle?.mode === "line" ? first.thresholds.steps.filter(({ value }) => value !== null) : [];
  const threshold = (chart) => {
    for (const { value, color } of lines.filter(({ value }) => value <= chart.scales.y.max)) {
      const height = Math.round(chart.valToPos(value, "y", true));
      chart.ctx.strokeStyle = NAMED[color];
      chart.ctx.strokeRect(chart.bbox.left, height, chart.bbox.width, 0);
    }
  };
  const range = (_, least, most) => {
    const [low, high] = uPlot.rangeNum(least ?? 0, Math.max(most ?? 1, first.custom.axisSoftMax ?? -Infinity), 0.1, true);
    return [first.min ?? low, first.max ?? high];
  };
  const options = {
    width: plot.clientWidth,
    height: plot.clientHeight,
    scales: { y: { range } },
    axes: [
      { values: "{HH}:{mm}", grid: { stroke: "#eceeef" } },
      {
        size: 86,
        grid: { stroke: "#eceeef" },
        label: first.custom.axisLabel,
        labelSize: 20,
        values: (_, splits) => splits.map((value) => format(value, first)),
        ...(first.decimals === 0 ? { incrs: WHOLE } : {}),
        ...(first.unit === "s" ? { incrs: DURATIONS } : {}),
        ...(first.unit === "bytes" ? { incrs: BINARY } : {}),
      },
    ],
    series: [{}, ...panel.series.map(({ name }, at) => ({
      label: name,
      stroke: COLORS[at % COLORS.length],
      dash: fields[at].custom.lineStyle?.dash,
      width: 1.5,
      points: { show: true, filter: isolated },
    }))],
    hooks: { draw: [threshold] },
  };
  new uPlot(options, [DASHBOARD.times, ...columns], plot);
}

/** Returns where a line would show nothing: the places of values without neighbors. They are drawn as points. */
function isolated(chart, series) {
  const values = chart.data[series];
  const alone = (at) => values[at] !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null;
  return [...values.keys()].filter(alone);
}

function stat(panel, box) {
  const values = element("div", box);
  values.className = "stats";
  for (const { name, points } of panel.series) {
    const field = fieldOf(panel, name);
    const [, last] = points.at(-1);
    const shown = element("div", values);
    element("span", shown, name);
    element("b", shown, format(last, field)).style.color = colorOf(last, field);
  }
}

/** Returns the rows of a table. With several queries, series whose common labels are equal are one row, as by Grafana's "merge". */
function merged(panel) {
  const several = panel.targets.length > 1;
  const rows = [];
  for (const { labels, points, refId } of panel.series) {
    const name = several ? `Value #${refId}` : "Value";
    const same = (row) => several && !(name in row) && Object.keys(labels).every((label) => !(label in row) || row[label] === labels[label]);
    const row = rows.find(same) ?? rows[rows.push({}) - 1];
    Object.assign(row, labels, { [name]: points[0][1] });
  }
  return rows;
}

function table(panel, box) {
  const { excludeByName = {}, indexByName = {}, renameByName = {} } = panel.transformations.find(({ id }) => id === "organize").options;
  const sorted = panel.transformations.find(({ id }) => id === "sortBy")?.options.sort[0].field;
  const all = merged(panel);
  const columns = [...new Set(["Time", ...all.flatMap((row) => Object.keys(row)).sort()])].filter((name) => !excludeByName[name]);
  columns.sort((one, other) => (indexByName[one] ?? 0) - (indexByName[other] ?? 0));
  const key = columns.find((name) => renameByName[name] === sorted);
  if (key) all.sort((one, other) => (one[key] < other[key] ? -1 : 1));
  const rows = element("table", box);
  const head = element("tr", rows);
  columns.forEach((name) => element("th", head, renameByName[name] ?? name));
  for (const values of all) {
    const row = element("tr", rows);
    for (const name of columns) {
      const field = fieldOf(panel, renameByName[name] ?? name);
      const value = typeof values[name] === "number" ? format(values[name], field) : (values[name] ?? "");
      const mapped = field.mappings?.find(({ options }) => value in options)?.options[value];
      const cell = element("td", row, mapped?.text ?? value);
      if (mapped?.color && field.custom.cellOptions?.type === "color-text") cell.style.color = NAMED[mapped.color];
    }
  }
}

/** Horizontal bars: a group for each value of the row's label, a bar for each value of the column's, as by Grafana's "grouping to matrix". */
function barchart(panel, box) {
  const { columnField, rowField } = panel.transformations.find(({ id }) => id === "groupingToMatrix").options;
  const unique = (label) => [...new Set(panel.series.map(({ labels }) => labels[label]))];
  const [groups, bars] = [unique(rowField).sort(), unique(columnField)];
  const most = Math.max(...panel.series.map(({ points }) => points[0][1]));
  const chart = element("div", box);
  chart.className = "bars";
  for (const group of groups) {
    element("span", chart, group);
    const lines = element("div", chart);
    bars.forEach((bar, at) => {
      const found = panel.series.find(({ labels }) => labels[rowField] === group && labels[columnField] === bar);
      if (!found) return;
      const value = found.points[0][1];
      const line = element("p", lines, format(value, fieldOf(panel, bar)));
      const drawn = document.createElement("i");
      drawn.style.cssText = `width:${(80 * value) / most}%;background:${COLORS[at % COLORS.length]}`;
      line.prepend(drawn);
    });
  }
  const legend = element("div", box);
  legend.className = "legend";
  bars.forEach((bar, at) => {
    const mark = document.createElement("i");
    mark.style.background = COLORS[at % COLORS.length];
    element("span", legend, bar).prepend(mark);
  });
}

const head = element("header", document.body, DASHBOARD.title);
head.style.height = `${DASHBOARD.size.head}px`;
for (const [label, value] of DASHBOARD.variables) element("b", element("span", head, `${label} `), value);
const column = (document.body.clientWidth - 16) / 24;
for (const panel of DASHBOARD.panels) {
  const { x, y, w, h } = panel.gridPos;
  const box = element("section", document.body);
  const [left, top] = [8 + x * column, DASHBOARD.size.head + y * DASHBOARD.size.row];
  box.style.cssText = `left:${left}px;top:${top}px;width:${w * column - 8}px;height:${h * DASHBOARD.size.row - 8}px`;
  element("h2", box, panel.title);
  if (panel.type === "row") box.className = "row";
  else if (panel.series.length === 0) element("div", box, "No data").className = "empty";
  else ({ timeseries, stat, table, barchart })[panel.type](panel, box);
}
