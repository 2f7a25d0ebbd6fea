// The raw delta feed and the engine's figures.
const MOST = 60;

export function showFeed(list, seen) {
  const last = `${seen.view} ${seen.appeared} ${seen.vanished}`;
  if (list.dataset.last === last) return;
  list.dataset.last = last;
  list.replaceChildren(...seen.recent.slice(-MOST).reverse().map(([version, weight, row]) => {
    const item = document.createElement("li");
    item.className = weight > 0 ? "plus" : "minus";
    item.textContent = `${weight > 0 ? "+" : "−"}${Math.abs(weight)}  ${row.map((v) => v ?? "NULL").join("  ")}`;
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
