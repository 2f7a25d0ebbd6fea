// A number over time, one line a group. Dragging zooms; while it is zoomed or held, new points wait.
import uPlot from "./vendor/uPlot.esm.js";

const COLOURS = ["#1971c2", "#e8590c", "#2f9e44", "#9c36b5", "#c92a2a", "#0b7285", "#f08c00", "#5f3dc4", "#66a80f",
  "#a61e4d", "#1098ad", "#862e9c", "#d9480f", "#364fc7", "#087f5b", "#b02525", "#3b5bdb", "#74b816", "#e64980", "#495057"];

export class Chart {
  constructor(host, hold, unzoom) {
    Object.assign(this, { host, hold, unzoom, held: false, plot: null, shown: "", last: null });
    this.zoom(false);
    hold.onclick = () => {
      this.held = !this.held;
      hold.setAttribute("aria-pressed", String(this.held));
      hold.textContent = this.held ? "Go on" : "Hold";
      if (!this.held && this.last) this.show(...this.last);
    };
    unzoom.onclick = () => this.zoom(false);
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
    const data = [found.times, ...found.series.map((s) => s.values)];
    const key = JSON.stringify([name, found.series.map((s) => s.group)]);
    if (key !== this.shown || !this.plot) {
      this.shown = key;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(found), data, this.host);
    } else {
      this.plot.setData(data);
    }
  }

  options(found) {
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    const faint = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
    const axis = { stroke: ink, grid: { stroke: faint, width: 1 }, ticks: { stroke: faint } };
    return {
      ...this.size(),
      scales: { x: { time: true } },
      axes: [axis, { ...axis, size: 84 }],
      cursor: { drag: { x: true, y: false } },
      hooks: { setSelect: [(plot) => { if (plot.select.width > 4) this.zoom(true); }],
        ready: [(plot) => plot.over.addEventListener("dblclick", () => this.zoom(false))] },
      series: [{}, ...found.series.map((s, i) => ({ label: s.group, stroke: COLOURS[i % COLOURS.length], width: 2,
        points: { show: false }, spanGaps: false }))],
    };
  }
}
