// The page: the selected view, what the server sends for it, and the panels that show it.
// Everything that must survive a reload is on the server; only the selected view is in the address (#view=...).
import { Editor } from "./editor.js";
import { drawTree, showGuarantees, zoomable } from "./tree.js";
import { AnswerTable } from "./table.js";
import { Chart } from "./chart.js";
import { showDataflow } from "./dataflow.js";
import { countTables, showFeed, showFigures, showLog, showTables } from "./figures.js";

const $ = (id) => document.getElementById(id);
const looking = { view: null, sort: null, descending: false, filter: "", page: 0, size: 25,
                  chart: { measure: null, k: 5, largest: true } };
let state = null;
let socket = null;
let drawnViews = "";
let explaining = false;
let refreshing = false;
let waiting = false; // for the first micro-batch of Spark

const editor = new Editor($("sql"), { run: keepFresh, explain });
const table = new AnswerTable($("rows"), (column) => {
  look({ sort: column, descending: looking.sort === column ? !looking.descending : false, page: 0 });
});
const chart = new Chart($("chart"), $("hold"), $("unzoom"));

// The server ---------------------------------------------------------------------------------------------------

async function ask(method, path, body) {
  const answer = await fetch(path, {
    method, headers: body ? { "content-type": "application/json" } : {}, body: body && JSON.stringify(body),
  });
  const found = await answer.json().catch(() => ({ error: `the server said ${answer.status}` }));
  if (!answer.ok) throw found;
  return found;
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/api/live`);
  socket.onopen = () => send();
  socket.onmessage = (event) => take(JSON.parse(event.data));
  socket.onclose = () => {
    $("status").textContent = "not connected; trying again";
    document.body.dataset.stream = "lost";
    setTimeout(async () => { await load().catch(() => {}); connect(); }, 1000);
  };
}

const send = () => { if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(looking)); };

function look(changed) {
  Object.assign(looking, changed);
  remember();
  send();
}

function remember() {
  const kept = new URLSearchParams({ view: looking.view ?? "", sort: looking.sort ?? "",
    descending: looking.descending ? "1" : "", filter: looking.filter, size: looking.size,
    measure: looking.chart.measure ?? "", k: looking.chart.k, largest: looking.chart.largest ? "1" : "" });
  history.replaceState(null, "", `#${kept}`);
}

function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  if (!kept.get("view")) return;
  Object.assign(looking, { view: kept.get("view"), sort: kept.get("sort") || null, descending: !!kept.get("descending"),
    filter: kept.get("filter") ?? "", size: Number(kept.get("size")) || 25 });
  looking.chart = { measure: kept.get("measure") || null, k: Number(kept.get("k")) || 5, largest: !!kept.get("largest") };
  $("filter").value = looking.filter;
  $("size").value = String(looking.size);
  $("k").value = String(looking.chart.k);
  $("extreme").value = looking.chart.largest ? "top" : "bottom";
}

// Messages -----------------------------------------------------------------------------------------------------

async function load() {
  state = await ask("GET", "/api/state");
  fillExamples(state.examples);
  fillSettings(state);
  editor.learn(state.tables);
  showTables($("tables"), state.schema);
  showLog($("log"), state.log);
  document.body.dataset.fixed = String(state.fixed_views);
  const names = state.views.map((v) => v.name);
  if (!names.includes(looking.view)) look({ view: names[0] ?? null });
  if (!editor.text() && state.views.length) {
    const shown = state.views.find((v) => v.name === looking.view) ?? state.views[0];
    editor.set(shown.sql);
    $("name").value = shown.name;
  }
  drawViews(names, state.sizes);
  showStatus(state);
}

// Another page has changed views or settings.
async function refresh() {
  if (refreshing) return;
  refreshing = true;
  try { await load(); } catch { /* the next message tries again */ } finally { refreshing = false; }
}

function take(message) {
  if (message.error) { say(message.error); return; }
  showStatus(message.status);
  const known = state?.views.map((v) => v.name).join();
  if (state && (known !== message.views.join() || state.logged !== message.status.logged)) refresh();
  drawViews(message.views, message.status.sizes);
  if (!message.views.includes(looking.view)) {
    look({ view: message.views[0] ?? null, page: 0, sort: null });
    if (!looking.view) { clearPanels(); showEmpty("No view is kept. Write a query, and press Keep fresh."); }
    return;
  }
  const seen = message.seen;
  if (!seen || seen.view !== looking.view) return;
  if (seen.error) {
    if ($("view-error").hidden) clearPanels();
    showViewError(seen.error);
    return;
  }
  showViewError("");
  showEmpty(seen.matching > 0 ? "" : seen.total > 0 ? `None of ${seen.total.toLocaleString()} rows has “${looking.filter}”.`
    : waiting ? "Spark is at work on its first micro-batch. The answer appears here when that is done."
    : "The answer has no rows at this version. They appear here as the tables change.");
  $("no-feed").hidden = seen.recent.length > 0;
  for (const id of ["answer-of", "chart-of", "feed-of"]) $(id).textContent = seen.view;
  document.body.dataset.version = seen.version;
  if (!explaining) showPlan(seen.view, seen.plan);
  table.show(seen, looking);
  const least = seen.total === 1 ? "row" : "rows";
  const matching = looking.filter ? `${seen.matching.toLocaleString()} of ` : "";
  $("total").textContent = `${matching}${seen.total.toLocaleString()} ${least} · version ${seen.version}` +
    (seen.whole ? "" : ` · sorted and filtered over the first ${seen.looked_at.toLocaleString()}`);
  const last = Math.max(0, Math.ceil(seen.matching / seen.size) - 1);
  looking.page = seen.page;
  $("page").textContent = `page ${seen.page + 1} of ${last + 1}`;
  $("previous").disabled = seen.page === 0;
  $("next").disabled = seen.page >= last;
  const asked = new URLSearchParams({ ...(looking.filter && { filter: looking.filter }),
    ...(looking.sort && { sort: looking.sort }), ...(looking.descending && { descending: "1" }) }).toString();
  for (const form of ["csv", "parquet"]) {
    $(form).href = `/api/download/${encodeURIComponent(seen.view)}.${form}${asked && `?${asked}`}`;
    $(form).title = looking.filter ? "the rows that pass the filter" : "all rows";
  }
  fillMeasures(seen);
  if (seen.chart) $("no-chart").hidden = seen.chart.series.length > 0;
  if (seen.chart) chart.show(seen.chart, `${seen.view}/${seen.measure}`);
  showFeed($("feed"), seen);
}

function showEmpty(text) {
  if ($("empty").textContent !== text) $("empty").textContent = text;
  $("empty").hidden = !text;
}

function clearPanels() {
  for (const id of ["tree", "guarantees", "feed", "total", "page"]) {
    $(id).replaceChildren();
    for (const remembered of Object.keys($(id).dataset)) delete $(id).dataset[remembered];
  }
  table.clear();
  showViewError("");
}

// A view that has ended, or cannot be shown now, shows the reason in its own place; the others continue.
function showViewError(error) {
  const shown = error ? `${looking.view}: ${error}` : "";
  if ($("view-error").textContent !== shown) $("view-error").textContent = shown;
  $("view-error").hidden = !error;
}

function showStatus(status) {
  const words = { running: "running", paused: "paused", finished: "finished", job: "fed by a running job" };
  const shown = `${words[status.stream] ?? status.stream} · ${status.engine}`;
  if ($("status").textContent !== shown) $("status").textContent = shown;
  document.body.dataset.stream = status.stream;
  $("pause").textContent = status.stream === "paused" ? "Resume" : "Pause";
  $("pause").disabled = !["running", "paused"].includes(status.stream);
  showFigures($("figures"), status.health);
  showDataflow($("dataflow"), status.health.dataflow);
  waiting = status.engine === "Spark" && !status.health.transactions;
  countTables($("tables"), status.table_rows);
  say(status.message);
}

function say(text) {
  $("message").hidden = !text;
  $("message").textContent = text || "";
}

// Views --------------------------------------------------------------------------------------------------------

function drawViews(names, sizes) {
  const key = JSON.stringify([names, looking.view, state?.fixed_views]);
  if (key !== drawnViews) {
    drawnViews = key;
    $("views").replaceChildren(...names.map((name) => {
      const tab = document.createElement("span");
      const open = document.createElement("button");
      open.type = "button";
      open.className = "tab";
      open.dataset.view = name;
      open.setAttribute("aria-pressed", String(name === looking.view));
      open.onclick = () => {
        setExplaining(false);
        follow(state?.views.find((v) => v.name === name));
        look({ view: name, page: 0, sort: null, chart: { ...looking.chart, measure: null } });
      };
      tab.append(open);
      if (!state?.fixed_views) {
        const close = document.createElement("button");
        close.type = "button";
        close.className = "close";
        close.textContent = "×";
        close.setAttribute("aria-label", `close view ${name}`);
        close.onclick = () => {
          if (!confirm(`Close view ${name}? Its answer is no longer kept fresh, for nobody.`)) return;
          ask("DELETE", `/api/views/${encodeURIComponent(name)}`).catch(fail);
        };
        tab.append(close);
      }
      return tab;
    }));
  }
  for (const open of $("views").querySelectorAll(".tab")) {
    const size = sizes?.[open.dataset.view];
    const shown = size === undefined ? open.dataset.view : `${open.dataset.view} · ${size.toLocaleString()}`;
    if (open.textContent !== shown) open.textContent = shown;
  }
}

// Query --------------------------------------------------------------------------------------------------------

function fillExamples(examples) {
  const wanted = ["", ...Object.keys(examples)];
  if ($("example").options.length === wanted.length) return;
  $("example").replaceChildren(...wanted.map((title) => new Option(title || "choose one", title)));
}

$("example").onchange = () => {
  const title = $("example").value;
  if (!title) return;
  editor.set(state.examples[title]);
  $("name").value = title.replace(/\W+/g, "_");
};

// The text in the editor is that of the selected view, unless the user has begun to write something else.
function follow(view) {
  if (!view || !editor.untouched()) return;
  editor.set(view.sql);
  $("name").value = view.name;
  clearError();
  if ($("explained").open) explainQuietly(view.sql);
  else $("explain-text").textContent = "";
}

async function explainQuietly(text) {
  try { $("explain-text").textContent = (await ask("POST", "/api/explain", { text })).text; } catch { /* it was dropped */ }
}

async function keepFresh() {
  if (state?.fixed_views) return; // a job's page makes no views, by no key either
  clearError();
  try {
    const made = await ask("POST", "/api/views", { name: $("name").value.trim(), text: editor.text() });
    state = await ask("GET", "/api/state");
    setExplaining(false);
    editor.keep();
    look({ view: made.name, page: 0, sort: null, filter: "", chart: { ...looking.chart, measure: null } });
    $("filter").value = "";
    drawViews(state.views.map((v) => v.name), state.sizes);
  } catch (refused) { fail(refused); }
}

async function explain() {
  clearError();
  try {
    const found = await ask("POST", "/api/explain", { text: editor.text() });
    $("explain-text").textContent = found.text;
    $("explained").open = true;
    setExplaining(true);
    showPlan("as it would be", found.explain);
    return found;
  } catch (refused) { fail(refused); }
}

// An explained plan is shown until a view is selected.
function setExplaining(on) {
  explaining = on;
  $("live-plan").hidden = !on;
}

function showPlan(title, plan) {
  $("plan-of").textContent = title;
  drawTree($("tree"), plan);
  showGuarantees($("guarantees"), plan);
}

zoomable($("tree"), { larger: $("plan-in"), smaller: $("plan-out"), fit: $("plan-fit") });
$("explained").ontoggle = () => { if ($("explained").open && !$("explain-text").textContent) explainQuietly(editor.text()); };
$("live-plan").onclick = () => { setExplaining(false); send(); };

$("edit-plan").onclick = async () => {
  const found = await explain();
  if (found) editor.set(found.plan);
};

function fail(refused) {
  const where = refused.line ? `line ${refused.line}, column ${refused.column}: ` : "";
  $("error").textContent = where + (refused.error ?? "the server does not answer");
  $("error").hidden = false;
  if (refused.line) editor.mark(refused.line, refused.column);
}

function clearError() {
  $("error").hidden = true;
  editor.unmark();
}

$("run").onclick = keepFresh;
$("explain").onclick = explain;

// Answer, chart, stream ----------------------------------------------------------------------------------------

let typing = 0;
$("filter").oninput = () => {
  clearTimeout(typing);
  typing = setTimeout(() => look({ filter: $("filter").value, page: 0 }), 150);
};
$("previous").onclick = () => look({ page: Math.max(0, looking.page - 1) });
$("next").onclick = () => look({ page: looking.page + 1 });
$("size").onchange = () => look({ size: Number($("size").value), page: 0 });

function fillMeasures(seen) {
  const shown = [...$("measure").options].map((o) => o.value).join("\n");
  if (shown !== seen.measures.join("\n")) $("measure").replaceChildren(...seen.measures.map((m) => new Option(m, m)));
  if (seen.measure && document.activeElement !== $("measure")) $("measure").value = seen.measure;
}

const chartChanged = () => look({ chart: { measure: $("measure").value || null,
  k: Math.min(20, Math.max(1, Number($("k").value) || 1)), largest: $("extreme").value === "top" } });
for (const id of ["measure", "extreme", "k"]) $(id).onchange = chartChanged;

$("pause").onclick = () => {
  const action = document.body.dataset.stream === "paused" ? "resume" : "pause";
  ask("POST", "/api/stream", { action }).then(showStatus).catch(fail);
};

// A text that the user has begun to type is kept until it is sent.
let settingsTouched = false;
$("settings-form").oninput = () => { settingsTouched = true; offerForEngine(); };

// Settings that the chosen engine does not support are hidden.
function offerForEngine() {
  const onSpark = $("settings-form").elements.engine.value === "spark";
  for (const label of $("settings-form").querySelectorAll(".on-spark")) label.hidden = !onSpark;
  for (const label of $("settings-form").querySelectorAll(".in-process")) label.hidden = onSpark;
}

function fillSettings({ settings, sources, masters }) {
  if (settingsTouched) return;
  const form = $("settings-form");
  form.elements.source.replaceChildren(...sources.map((s) => new Option(s, s)));
  form.elements.master.replaceChildren(...masters.map((m) => new Option(m, m)));
  for (const [name, value] of Object.entries(settings)) {
    const field = form.elements[name];
    if (!field) continue;
    if (field.type === "checkbox") field.checked = value; else field.value = value;
  }
  offerForEngine();
}

$("settings-form").onsubmit = async (event) => {
  event.preventDefault();
  settingsTouched = false;
  const settings = {};
  for (const field of event.target.elements) {
    if (!field.name) continue;
    settings[field.name] = field.type === "checkbox" ? field.checked
      : field.type === "number" ? Number(field.value) : field.value;
  }
  $("status").textContent = "preparing the tables";
  $("settings-error").hidden = true;
  try {
    await ask("POST", "/api/stream", { action: "restart", settings });
    editor.set("");
    await load();
  } catch (refused) {
    $("settings-error").textContent = refused.error ?? "the server does not answer";
    $("settings-error").hidden = false;
  }
};

// Light and dark -----------------------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
const themed = () => {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? (dark.matches ? "dark" : "light");
  chart.redraw();
};
$("theme").onclick = () => {
  localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  themed();
};
dark.onchange = themed;
themed();

recall();
load().then(connect, (refused) => { say(refused.error ?? "the server does not answer"); setTimeout(() => location.reload(), 3000); });
