// A number over time, one line for each group. Dragging zooms; while the chart is zoomed or held, new points wait.
import uPlot from "./vendor/uPlot.esm.js";

const COLOURS = ["#1971c2", "#e8590c", "#2f9e44", "#9c36b5", "#c92a2a", "#0b7285", "#f08c00", "#5f3dc4", "#66a80f",
  "#a61e4d", "#1098ad", "#862e9c", "#d9480f", "#364fc7", "#087f5b", "#b02525", "#3b5bdb", "#74b816", "#e64980", "#495057"];

const clock = (time) => new Date(time * 1000).toLocaleTimeString([], { hour12: false });
const short = (name) => (name.length > 36 ? `${name.slice(0, 35)}…` : name);

export class Chart {
  constructor(host, hold, unzoom) {
    Object.assign(this, { host, hold, unzoom, held: false, plot: null, shown: "", last: null, colours: new Map() });
    this.zoom(false);
    hold.onclick = () => {
      this.held = !this.held;
      hold.setAttribute("aria-pressed", String(this.held));
      hold.textContent = this.held ? "Go on" : "Hold";
      if (!this.held && this.last) this.show(...this.last);
    };
    unzoom.onclick = () => this.zoom(false);
    host.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(host);
  }

  zoom(zoomed) {
    this.zoomed = zoomed;
    this.unzoom.disabled = !zoomed;
    if (!zoomed && this.last) this.show(...this.last);
  }

  size() { return { width: Math.max(260, this.host.clientWidth), height: 260 }; }

  redraw() {
    this.shown = "";
    if (this.last) this.show(...this.last);
  }

  show(found, name) {
    this.last = [found, name];
    this.host.dataset.name = name;
    this.host.dataset.groups = found.series.map((s) => s.group).join("|");
    this.host.dataset.last = found.series.map((s) => s.values[s.values.length - 1]).join("|");
    if (this.held || this.zoomed) return;
    if (!found.series.length) {
      this.plot?.destroy();
      this.plot = null;
      return;
    }
    const data = [found.times, ...found.series.map((s) => s.values)];
    const key = JSON.stringify([name, found.series.map((s) => s.group)]);
    if (key !== this.shown || !this.plot) {
      this.shown = key;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(found), data, this.host);
      this.names(found);
    } else {
      this.plot.setData(data);
    }
  }

  // Names in the legend are buttons, also for the keyboard, with the full name as a tooltip.
  names(found) {
    [...this.host.querySelectorAll(".u-legend .u-series")].slice(1).forEach((row, i) => {
      const name = row.querySelector("th");
      Object.assign(name, { tabIndex: 0, title: found.series[i].group });
      name.setAttribute("role", "button");
      name.onkeydown = (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); name.click(); } };
    });
  }

  key(event) {
    const data = this.plot?.data[0] ?? [];
    if (event.target !== this.host || data.length < 2) return;
    if (event.key === "0") { this.zoom(false); return; }
    const { min, max } = this.plot.scales.x;
    const [from, to] = { "+": [0.25, 0.75], "=": [0.25, 0.75], "-": [-0.5, 1.5], ArrowLeft: [-0.25, 0.75],
      ArrowRight: [0.25, 1.25] }[event.key] ?? [];
    if (from === undefined) return;
    event.preventDefault();
    const wide = { min: Math.max(data[0], min + from * (max - min)), max: Math.min(data[data.length - 1], min + to * (max - min)) };
    if (wide.max <= wide.min) return;
    this.zoom(true);
    this.plot.setScale("x", wide);
  }

  // A group keeps its colour while its view and number are shown, whatever its rank.
  coloured(name, groups) {
    if (this.colouredOf !== name) { this.colouredOf = name; this.colours.clear(); }
    for (const group of groups) {
      if (this.colours.has(group)) continue;
      const taken = new Set([...this.colours].filter(([known]) => groups.includes(known)).map(([, colour]) => colour));
      const ever = new Set(this.colours.values());
      this.colours.set(group, COLOURS.find((c) => !ever.has(c)) ?? COLOURS.find((c) => !taken.has(c)) ?? COLOURS[0]);
    }
    return groups.map((group) => this.colours.get(group));
  }

  options(found) {
    const colours = this.coloured(this.host.dataset.name, found.series.map((s) => s.group));
    this.host.dataset.colours = colours.join("|");
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    const faint = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
    const axis = { stroke: ink, grid: { stroke: faint, width: 1 }, ticks: { stroke: faint } };
    return {
      ...this.size(),
      scales: { x: { time: true } },
      axes: [{ ...axis, space: 80, values: (_, times) => times.map(clock) }, { ...axis, size: 84 }],
      cursor: { drag: { x: true, y: false } },
      hooks: { setSelect: [(plot) => { if (plot.select.width > 4) this.zoom(true); }],
        ready: [(plot) => plot.over.addEventListener("dblclick", () => this.zoom(false))] },
      series: [{ value: (_, time) => (time == null ? "--" : clock(time)) }, ...found.series.map((s, i) => ({ label: short(s.group), stroke: colours[i], width: 2,
        points: { show: false }, spanGaps: false }))],
    };
  }
}
