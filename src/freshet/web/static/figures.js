// The raw delta feed and the engine's figures.
const MOST = 60;
const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false });

// The server's log, newest first.
export function showLog(list, log) {
  list.replaceChildren(...[...log].reverse().map(([at, text]) => {
    const item = document.createElement("li"), moment = document.createElement("time");
    moment.textContent = clock(at);
    item.append(moment, `  ${text}`);
    return item;
  }));
}

// The tables that queries may read: columns with their types, and the number of distinct rows.
export function showTables(host, schema) {
  host.replaceChildren(...schema.map((table) => {
    const box = document.createElement("details"), title = document.createElement("summary");
    const list = document.createElement("dl");
    title.append(table.name, Object.assign(document.createElement("span"), { className: "of" }));
    title.lastChild.dataset.table = table.name.toLowerCase();
    for (const column of table.columns) {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = column.name;
      dd.textContent = column.type + (column.key ? " · key" : "");
      list.append(dt, dd);
    }
    box.append(title, list);
    return box;
  }));
}

export function countTables(host, rows) {
  for (const label of host.querySelectorAll("[data-table]")) {
    const n = rows?.[label.dataset.table];
    const shown = n === undefined ? "" : ` ${n.toLocaleString()} ${n === 1 ? "row" : "rows"}`;
    if (label.textContent !== shown) label.textContent = shown;
  }
}

export function showFeed(list, seen) {
  const last = `${seen.view} ${seen.appeared} ${seen.vanished}`;
  if (list.dataset.last === last) return;
  list.dataset.last = last;
  list.replaceChildren(...seen.recent.slice(-MOST).reverse().map(([version, weight, row, at]) => {
    const item = document.createElement("li");
    item.className = weight > 0 ? "plus" : "minus";
    const moment = document.createElement("time");
    moment.textContent = clock(at);
    moment.dateTime = new Date(at * 1000).toISOString();
    item.append(moment, `  ${weight > 0 ? "+" : "−"}${Math.abs(weight)}  ${row.map((v) => v ?? "NULL").join("  ")}`);
    item.title = `version ${version}`;
    return item;
  }));
}

const bytes = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(2)} GB` : n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : `${Math.round(n / 1e3)} kB`);
const WORDS = {
  changes_per_second: ["Changes a second", (n) => Math.round(n).toLocaleString()],
  p50_ms: ["Transaction, p50", (n) => `${n.toFixed(2)} ms`],
  p99_ms: ["Transaction, p99", (n) => `${n.toFixed(2)} ms`],
  counters_per_change: ["Counters moved a change (λ paid)", (n) => n.toFixed(2)],
  counters_per_change_minute: ["The same, last minute", (n) => n.toFixed(2)],
  tree_switches: ["Moves to another join tree", (n) => n.toLocaleString()],
  state_bytes: ["State", bytes],
  tuples: ["Tuples stored", (n) => n.toLocaleString()],
  changes: ["Changes so far", (n) => n.toLocaleString()],
  transactions: ["Transactions", (n) => n.toLocaleString()],
  version: ["Version", (n) => n.toLocaleString()],
};

export function showFigures(list, health) {
  const said = Object.entries(WORDS).filter(([key]) => health[key] !== undefined && health[key] !== null)
    .map(([key, [term, form]]) => [term, form(health[key])]);
  for (const [stage, ms] of Object.entries(health.stages ?? {})) said.push([`Spark: ${stage}`, `${ms.toLocaleString()} ms`]);
  if (list.children.length !== 2 * said.length) {
    list.replaceChildren(...said.flatMap(() => [document.createElement("dt"), document.createElement("dd")]));
  }
  said.forEach(([term, value], i) => {
    const [dt, dd] = [list.children[2 * i], list.children[2 * i + 1]];
    if (dt.textContent !== term) dt.textContent = term;
    if (dd.textContent !== value) dd.textContent = value;
  });
}
