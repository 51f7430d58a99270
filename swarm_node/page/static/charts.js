// Curves by uPlot, each with a legend in HTML that shows the values at the cursor, or else the last values.
import { make, draw, number, seconds, replace } from "./tools.js";

const LIGHT = ["#0b63b8", "#c4500a", "#0a8063", "#a8438f", "#8a6d00", "#2f8fb8", "#6b5bd2", "#a03a3a", "#4f7a1d", "#59626d"];
const DARK = ["#6cb5ff", "#ff9b5c", "#4fd6ae", "#ef93d4", "#e3c24d", "#7fd3ee", "#b0a4ff", "#ff9a94", "#a8d66a", "#a5afba"];
const ALL = new Set();
export const HOURS = "hours"; // a unit of the x axis; the values of x are then in minutes
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720, 1440, 2880, 7200, 14400, 28800]; // minutes between two ticks

export const dark = () => document.documentElement.dataset.theme === "dark";
export const colour = (index) => (dark() ? DARK : LIGHT)[index % LIGHT.length];
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  // Options: title, note, stacked, format, range. Series: name, values, colour, width, dash, points, alpha, quiet, gaps
  constructor(options) {
    this.options = { height: 190, format: number, ...options };
    this.plot = make("div", { class: "plot", "aria-hidden": "true" });
    this.legend = make("ul", { class: "legend" });
    this.note = make("span", { class: "quiet" }, this.options.note ?? "");
    const about = { class: "stage", tabindex: "0", role: "group", "aria-label": `${this.options.title}, a chart: arrow keys move along it`, onkeydown: (event) => this.key(event) };
    this.element = make("figure", { class: `card ${this.options.wide ? "wide" : ""}` },
      make("figcaption", {}, make("h3", {}, this.options.title), this.note), make("div", about, this.plot, this.legend));
    this.at = null;
    this.shape = "";
    new ResizeObserver(() => this.resize()).observe(this.plot);
    ALL.add(this);
  }

  show(x, series, note) {
    this.x = x;
    this.series = series.filter((each) => each.values.some((value) => value !== null && value !== undefined));
    if (note !== undefined) replace(this.note, document.createTextNode(note));
    if (!this.x.length || !this.series.length) {
      this.drop();
      replace(this.plot, make("p", { class: "empty" }, this.options.empty ?? "nothing yet"));
      replace(this.legend);
      return;
    }
    const shape = [this.options.unit, ...this.series.map((each) => each.name)].join("|");
    if (this.uplot && this.shape === shape) this.uplot.setData(this.data(), true);
    else this.build(shape);
    this.say();
  }

  data() {
    if (!this.options.stacked) return [this.x, ...this.series.map((each) => each.values)];
    const sums = [];
    let below = this.x.map(() => 0);
    for (const each of this.series) {
      below = below.map((sum, i) => sum + (each.values[i] ?? 0));
      sums.push(below);
    }
    return [this.x, ...sums.reverse()];
  }

  build(shape) {
    this.drop();
    replace(this.plot);
    this.shape = shape;
    const order = this.options.stacked ? [...this.series].reverse() : this.series;
    const axis = { stroke: style("--quiet"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    this.uplot = new uPlot(
      {
        width: this.width(), height: this.options.height, legend: { show: false }, padding: [8, 18, 0, 0],
        cursor: { y: false, drag: { x: true, y: false }, points: { size: 7 } },
        scales: { x: { time: false }, y: { range: this.options.range ?? ((u, low, high) => [Math.min(0, low), high > Math.max(0, low) ? high * 1.06 : Math.max(0, low) + 1]) } },
        axes: [
          { ...axis, size: 28, gap: 4, ...this.across(), ...(this.options.xaxis ?? {}) },
          { ...axis, size: this.options.format === number ? 46 : 66, gap: 4, values: (u, ticks) => ticks.map((tick) => this.tick(tick)) },
        ],
        series: [{}, ...order.map((each) => this.line(each))],
        hooks: { setCursor: [(u) => { this.at = u.cursor.idx; this.say(); }] },
      },
      this.data(), this.plot,
    );
  }

  across() {
    if (this.options.unit === HOURS) return { incrs: STEPS, values: (u, ticks) => ticks.map((tick) => (tick ? seconds(60 * tick) : "start")) };
    return { values: (u, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? number(tick) : "")) };
  }

  tick(value) {
    return this.options.format === number && Math.abs(value) < 10000 ? String(Number(value.toPrecision(6))) : this.options.format(value);
  }

  line(each) {
    const stroke = colour(each.colour);
    const alone = this.x.length === 1;
    return {
      stroke: each.alpha ? stroke + each.alpha : stroke, width: each.points ? 0 : each.width ?? 2, dash: each.dash,
      fill: this.options.stacked ? stroke : undefined, spanGaps: !each.gaps,
      points: { show: Boolean(each.points) || alone, size: each.points ? 8 : 6, fill: stroke, stroke },
    };
  }

  say() {
    const last = this.x.length - 1;
    const at = this.at === null || this.at === undefined || this.at > last ? null : this.at;
    const rows = this.series.filter((each) => !each.quiet).map((each) => {
      let i = at ?? last;
      while (at === null && i > 0 && (each.values[i] === null || each.values[i] === undefined)) i--;
      const mark = draw("svg", { width: 16, height: 10, "aria-hidden": "true" }, each.points
        ? draw("circle", { cx: 8, cy: 5, r: 4, fill: colour(each.colour) })
        : draw("line", { x1: 0, y1: 5, x2: 16, y2: 5, stroke: colour(each.colour), "stroke-width": this.options.stacked ? 9 : 3, "stroke-dasharray": each.dash?.join(" ") ?? "none" }));
      return make("li", {}, mark, each.name, make("b", {}, this.options.format(each.values[i])));
    });
    const where = at === null ? [] : [make("li", { class: "quiet" }, this.options.unit === HOURS ? `after ${seconds(60 * this.x[at])}` : `${this.options.unit ?? "round"} ${number(this.x[at])}`)];
    replace(this.legend, rows, where);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !this.uplot) return;
    event.preventDefault();
    const last = this.x.length - 1;
    const next = Math.max(0, Math.min(last, (this.at ?? last + (step < 0 ? 1 : 0)) + step * (event.shiftKey ? 10 : 1)));
    this.uplot.setCursor({ left: this.uplot.valToPos(this.x[next], "x"), top: 10 });
    this.at = next;
    this.say();
  }

  width() { return Math.max(160, this.plot.clientWidth || 320); }
  resize() { if (this.uplot && Math.abs(this.uplot.width - this.width()) > 1) this.uplot.setSize({ width: this.width(), height: this.options.height }); }
  drop() { if (this.uplot) { this.uplot.destroy(); this.uplot = null; } this.shape = ""; }
  repaint() { if (this.uplot) { this.build(this.shape); this.say(); } }
  forget() { this.drop(); ALL.delete(this); }
}

export function repaint() { for (const chart of ALL) chart.repaint(); }

export function theme(button) {
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const apply = (name) => { document.documentElement.dataset.theme = name; repaint(); };
  apply(kept() ?? (preferred.matches ? "dark" : "light"));
  preferred.addEventListener("change", () => { if (!kept()) apply(preferred.matches ? "dark" : "light"); });
  button?.addEventListener("click", () => {
    const name = dark() ? "light" : "dark";
    try { localStorage.setItem("theme", name); } catch { /* private mode: the choice lasts for this visit alone */ }
    apply(name);
  });
}
