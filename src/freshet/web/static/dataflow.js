// A job on Spark from top to bottom: the tables it reads, the levels with their shards, the resulting views.
// Shards of one level run in parallel, so the slowest one determines the time of the level: bars are relative to it.
const STEPS = ["read blocks, open state", "maintain", "emit changes", "write the log"];

function make(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const total = (ms) => Object.values(ms).reduce((sum, n) => sum + n, 0);
const time = (ms) => (ms >= 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms)} ms`);
const rows = (n) => `${n.toLocaleString()} ${n === 1 ? "row" : "rows"}`;

export function showDataflow(section, flow) {
  section.hidden = !flow;
  if (!flow) return;
  const shape = JSON.stringify([flow.master, flow.shards, flow.tables.map((t) => t.name),
    flow.levels.map((l) => [l.operators, l.streams, l.shards.map((s) => s.shard)])]);
  const host = section.querySelector(".flow");
  if (host.dataset.shape !== shape) {
    host.dataset.shape = shape;
    section.querySelector(".of").textContent = `${flow.master} · ${flow.shards} ${flow.shards === 1 ? "shard" : "shards"}`;
    host.replaceChildren(...draw(flow));
  }
  fill(host, flow);
}

function draw(flow) {
  const views = [...new Set(flow.levels.flatMap((l) => l.operators.flatMap((o) => o.views)))];
  return [
    stage("tables", flow.tables.map((t) => box("table", t.name, t.name))),
    ...flow.levels.map((level, number) => {
      const made = stage(`level ${number}`, level.shards.map((s) => box("shard", `${number}/${s.shard}`, `shard ${s.shard}`, true)));
      const list = make("ul", "operators");
      for (const stream of level.streams) {
        list.append(make("li", "stream", `${stream.sources.join(", ")} (${stream.columns.join(", ")}) · ${stream.spread}`));
      }
      for (const operator of level.operators) {
        const gives = operator.views.length ? ` → ${operator.views.join(", ")}` : "";
        list.append(make("li", "operator", `${operator.name} ${operator.does}${gives}`));
      }
      made.insertBefore(list, made.lastChild);
      return made;
    }),
    stage("views", views.map((name) => make("div", "box view", name))),
  ];
}

function stage(title, boxes) {
  const made = make("div", "stage"), row = make("div", "boxes");
  made.setAttribute("role", "listitem");
  row.append(...(boxes.length ? boxes : [make("span", "hint", "nothing has come here yet")]));
  made.append(make("h3", "", title), row);
  return made;
}

function box(kind, id, title, timed = false) {
  const made = make("div", `box ${kind}`), bar = make("div", "bar");
  made.dataset.at = id;
  made.append(make("b", "", title), make("span", "figure"));
  if (timed) {
    bar.append(...STEPS.map((_, i) => make("i", `step${i}`)));
    made.append(bar);
  }
  return made;
}

function fill(host, flow) {
  const at = new Map([...host.querySelectorAll("[data-at]")].map((b) => [b.dataset.at, b]));
  for (const table of flow.tables) say(at.get(table.name), `${time(table.ms)} · ${rows(table.rows)} of ${table.all.toLocaleString()}`);
  flow.levels.forEach((level, number) => {
    const slowest = Math.max(1, ...level.shards.map((s) => total(s.ms)));
    for (const shard of level.shards) {
      const found = at.get(`${number}/${shard.shard}`);
      say(found, `${time(total(shard.ms))} · ${rows(shard.rows)}`);
      STEPS.forEach((step, i) => { found.querySelector(`.step${i}`).style.width = `${100 * (shard.ms[step] ?? 0) / slowest}%`; });
      found.title = STEPS.map((step) => `${step}: ${time(shard.ms[step] ?? 0)}`).join("\n");
    }
  });
}

function say(host, text) {
  const figure = host.querySelector(".figure");
  if (figure.textContent !== text) figure.textContent = text;
}
