// The join tree as SVG: nodes from the root down, edges with kind and key, counters that move.
const NS = "http://www.w3.org/2000/svg";
const WIDTH = 168, HEIGHT = 62, ACROSS = 20, DOWN = 66;
const rates = new Map(); // node → what it held when, for changes a second

function make(name, attributes, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const number = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)}M` : n >= 1e4 ? `${Math.round(n / 1e3)}k` : String(n));

function place(nodes) {
  // Leaves side by side, each parent above the middle of its children.
  const children = nodes.map((_, i) => nodes.filter((n) => n.parent === i).map((n) => n.node));
  const spots = [];
  let next = 0;
  const walk = (i, depth) => {
    const below = children[i].map((c) => walk(c, depth + 1));
    const x = below.length ? (below[0] + below[below.length - 1]) / 2 : next++ * (WIDTH + ACROSS);
    spots[i] = { x, y: depth * (HEIGHT + DOWN) };
    return x;
  };
  nodes.forEach((n, i) => { if (n.parent < 0) walk(i, 0); });
  return spots;
}

// The plan fits its panel until the user zooms; then it can be dragged or scrolled.
export function zoomable(host, { larger, smaller, fit }) {
  const scaled = (factor) => {
    const now = Number(host.dataset.scale || 0) || fitting(host);
    host.dataset.scale = factor ? Math.min(4, Math.max(0.1, now * factor)) : "";
    rescale(host);
  };
  larger.onclick = () => scaled(1.25);
  smaller.onclick = () => scaled(0.8);
  fit.onclick = () => scaled(0);
  host.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // a plain wheel scrolls
    event.preventDefault();
    scaled(event.deltaY < 0 ? 1.1 : 0.9);
  }, { passive: false });
  host.addEventListener("pointerdown", (event) => {
    if (event.button || event.target.closest("summary")) return;
    const begun = { x: event.clientX + host.scrollLeft, y: event.clientY + host.scrollTop };
    const moved = (e) => { host.scrollLeft = begun.x - e.clientX; host.scrollTop = begun.y - e.clientY; };
    const ended = () => { removeEventListener("pointermove", moved); removeEventListener("pointerup", ended); };
    addEventListener("pointermove", moved);
    addEventListener("pointerup", ended);
  });
  new ResizeObserver(() => rescale(host)).observe(host);
}

const natural = (svg) => svg.viewBox.baseVal.width;
const fitting = (host) => Math.min(1, (host.clientWidth - 2) / Math.max(1, ...[...host.querySelectorAll("svg.tree")].map(natural)));

function rescale(host) {
  const scale = Number(host.dataset.scale || 0) || fitting(host);
  for (const svg of host.querySelectorAll("svg.tree")) svg.setAttribute("width", natural(svg) * scale);
}

export function drawTree(host, plan) {
  const shape = JSON.stringify(outline(plan));
  if (host.dataset.shape !== shape) {
    host.dataset.shape = shape;
    host.replaceChildren(draw(plan, ""), ...nested(plan, ""));
    host.dataset.scale = "";
    rescale(host);
    rates.clear();
  }
  count(host, plan, "");
  host.setAttribute("aria-label", `the join tree: ${(plan.tree ?? []).map(describe).join("; ") || plan.class}`);
}

const outline = (plan) => [plan.class, (plan.tree ?? []).map((n) => [n.relation, n.parent, n.kind, n.key, n.output, n.filter,
  n.assertions]), Object.entries(plan.inputs ?? {}).map(([name, below]) => [name, outline(below)])];

function count(host, plan, path) {
  (plan.tree ?? []).forEach((n, i) => {
    if (n.tuples === undefined && n.changes === undefined) return;
    const label = host.querySelector(`[data-count="${path}${i}"]`);
    const held = n.tuples === undefined ? "" : `${number(n.alive)} / ${number(n.tuples)} · `;
    const shown = `${held}${rate(`${path}${i}`, n.changes ?? 0)}/s`;
    if (label && label.textContent !== shown) label.textContent = shown;
  });
  Object.values(plan.inputs ?? {}).forEach((below, i) => count(host, below, `${path}${i}.`));
}

function rate(key, changes) {
  const now = performance.now();
  const kept = rates.get(key) ?? { at: now, changes, shown: "0" };
  if (now - kept.at > 1000) {
    kept.shown = number(Math.round(Math.max(0, changes - kept.changes) * 1000 / (now - kept.at)));
    Object.assign(kept, { at: now, changes });
  }
  rates.set(key, kept);
  return kept.shown;
}

// The table of a column is left out, because the picture shows it, unless both sides have the same name.
const bare = (key) => {
  const without = key.replace(/\b\w+\.(\w)/g, "$1");
  const [left, right] = without.split(" = ");
  return left === right ? left : without;
};
const describe = (n) => `${n.relation}${n.kind ? ` ${n.kind} on ${n.key.join(", ")}` : ""}`;

function nested(plan, path) {
  return Object.entries(plan.inputs ?? {}).map(([name, below], i) => {
    const box = document.createElement("details"), title = document.createElement("summary");
    box.open = true;
    title.textContent = `input ${name}: ${below.class}`;
    box.append(title, draw(below, `${path}${i}.`), ...nested(below, `${path}${i}.`));
    return box;
  });
}

function draw(plan, path) {
  const nodes = plan.tree ?? [];
  if (!nodes.length) {
    const svg = make("svg", { viewBox: "0 0 220 40", class: "tree", width: 220 });
    svg.append(make("text", { x: 110, y: 24 }, plan.class));
    return svg;
  }
  const spots = place(nodes);
  const width = Math.max(...spots.map((s) => s.x)) + WIDTH + 8;
  const height = Math.max(...spots.map((s) => s.y)) + HEIGHT + 8;
  const svg = make("svg", { viewBox: `-4 -4 ${width} ${height}`, width, class: "tree" });
  nodes.forEach((n, i) => {
    if (n.parent < 0) return;
    const from = spots[n.parent], to = spots[i];
    const x1 = from.x + WIDTH / 2, y1 = from.y + HEIGHT, x2 = to.x + WIDTH / 2, y2 = to.y;
    svg.append(make("path", { d: `M${x1} ${y1} C${x1} ${y1 + 26} ${x2} ${y2 - 26} ${x2} ${y2}`, class: `edge ${n.kind}` }));
  });
  nodes.forEach((n, i) => {
    const { x, y } = spots[i];
    const group = make("g", { class: `node${n.output ? " output" : ""}${n.generalized ? " generalized" : ""}` });
    group.append(make("rect", { x, y, width: WIDTH, height: HEIGHT, rx: n.generalized ? HEIGHT / 2 : 8 }));
    group.append(make("text", { x: x + WIDTH / 2, y: y + 20, class: "name" }, short(n.relation, 22)));
    const own = (text) => text.replaceAll(`${n.relation}.`, "");
    const second = [...n.filter.map(own), ...n.assertions.map((a) => `assert ${a}`)].join(" and ");
    group.append(make("text", { x: x + WIDTH / 2, y: y + 36, class: "filter" }, short(second, 27)));
    group.append(make("text", { x: x + WIDTH / 2, y: y + 53, class: "count", "data-count": `${path}${i}` }, ""));
    group.append(make("title", {}, [describe(n), ...n.filter.map((f) => `where ${f}`), ...n.assertions.map((a) => `assert ${a}`),
      n.output ? "an output node: its columns are in the answer" : "only has to exist"].join("\n")));
    svg.append(group);
    if (n.parent >= 0) {
      const key = short(n.key.map(bare).join(", ") || "anything", 30);
      const wide = Math.max(6 * Math.max(key.length, n.kind.length), 20);
      svg.append(make("rect", { x: x + WIDTH / 2 - wide / 2, y: y - 35, width: wide, height: 31, class: "label" })); // hides the line
      svg.append(make("text", { x: x + WIDTH / 2, y: y - 24, class: "kind" }, n.kind));
      svg.append(make("text", { x: x + WIDTH / 2, y: y - 9, class: "key" }, key));
    }
  });
  return svg;
}

export function showGuarantees(list, plan) {
  const said = [["Class", plan.class], ["Update", plan.guarantee.update], ["Reading", plan.guarantee.delay],
    ...plan.guarantee.lost.map((lost) => ["Lost", lost])];
  for (const part of ["residual", "group by", "aggregates", "having", "distinct", "order", "taken", "iterations"]) {
    const value = Array.isArray(plan[part]) ? plan[part].join(", ") : plan[part];
    if (value) said.push([part[0].toUpperCase() + part.slice(1), value]);
  }
  const shown = JSON.stringify(said);
  if (list.dataset.shown === shown) return;
  list.dataset.shown = shown;
  list.replaceChildren(...said.flatMap(([term, text]) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = term;
    dd.textContent = text;
    return [dt, dd];
  }));
}
