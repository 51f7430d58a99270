// The node's health: its problems, load and traffic, and the notices and warnings that it gave.
import { Chart, HOURS } from "./charts.js";
import { make, tile, table, number, percent, bytes, seconds, clock, facts, replace } from "./tools.js";

export class Health {
  constructor(run) {
    this.run = run;
    this.problems = make("div", {});
    this.tiles = make("dl", { class: "tiles" });
    this.traffic = make("section", { class: "card" });
    this.started = make("section", { class: "card" });
    this.lines = make("ul", { class: "lines" });
    const chart = (title, note, options) => new Chart({ title, note, unit: HOURS, height: 150, empty: "measured every ten seconds while the node runs and this page is open", ...options });
    this.charts = {
      cpu: chart("CPU", "cores that the node uses", {}),
      memory: chart("Memory", "of the node's processes", { format: bytes }),
      gpu: chart("GPU", "share of the time in use, all GPUs of this machine", { format: percent }),
      gpu_memory: chart("GPU memory", "in use, all GPUs of this machine", { format: bytes }),
    };
    this.element = make("div", {}, this.problems, this.tiles, make("div", { class: "charts" }, Object.values(this.charts).map((each) => each.element)), make("h2", {}, "Network"), this.traffic, make("h2", {}, "What runs here"), this.started,
      make("h2", {}, "What the node said"), make("section", { class: "card", tabindex: "0", role: "region", "aria-label": "Notices and warnings" }, this.lines));
  }

  show(what) {
    if (what === "samples") return;
    const { state, status } = this.run;
    replace(this.problems, (status.problems ?? []).map((each) => make("p", { class: "note" }, each)));
    this.node(state, status);
    const known = Object.entries(state.facts ?? {});
    replace(this.started, known.length ? facts(known) : make("p", { class: "empty" }, "The node has not started yet."));
    const { rounds, series } = state.machine ?? { rounds: [], series: {} };
    for (const [name, chart] of Object.entries(this.charts)) {
      chart.element.hidden = name.startsWith("gpu") && !series[name];
      chart.show(rounds.map((each) => (each - rounds[0]) / 6), [{ name: chart.options.title, values: series[name] ?? [], colour: 0 }]);
    }
    const lines = [...state.lines].reverse().map((line) => make("li", { class: line.level }, make("time", { datetime: new Date(1000 * line.time).toISOString() }, clock(line.time)), line.level === "warning" ? "warning: " : "", line.text));
    replace(this.lines, lines.length ? lines : [make("li", { class: "quiet" }, "Nothing yet.")]);
  }

  close() { for (const chart of Object.values(this.charts)) chart.forget(); }

  node(state, status) {
    const network = status.network ?? {}, last = state.last ?? {}, overlap = last.overlap;
    const busy = phases(last);
    const bootstrap = status.role === "bootstrap";
    this.tiles.replaceChildren(...[
      bootstrap ? null : tile("Waiting", number(last.pool_size), "external groups in the inbox"),
      bootstrap ? null : overlap ? tile("Generator busy", percent(overlap.generating), `trainer ${percent(overlap.training)}, ${overlap.waiting} rounds wait`) : tile("Longest phase", busy[0], busy[1]),
      tile("Network", network.running ? network.reachability : network.enabled === false ? "off" : network.resting ? "resting" : "–", network.running ? `up for ${seconds(network.uptime)}` : ""),
      tile("Process", status.pid ? String(status.pid) : "–", status.pid ? "id of the node's process" : "the node is not running"),
      bootstrap ? null : tile("Dropped", number(network.dropped), "messages that came while training was busy"),
    ].filter(Boolean));
    const counters = Object.entries(network.counters ?? {});
    const traffic = {};
    for (const [name, count] of counters) {
      const found = /^(.*) bytes (in|out)$/.exec(name);
      if (found) (traffic[found[1]] ??= {})[found[2]] = count;
    }
    const others = counters.filter(([name]) => !/ bytes (in|out)$/.test(name)).map(([name, count]) => [name, number(count)]);
    replace(this.traffic, make("h3", {}, "Traffic"), Object.keys(traffic).length
      ? table("Traffic", [["protocol", ""], ["in", "number"], ["out", "number"]], Object.entries(traffic).map(([name, each]) => [name, bytes(each.in ?? 0), bytes(each.out ?? 0)]))
      : make("p", { class: "empty" }, "There was no traffic yet."), others.length ? facts(others) : null);
  }
}

function phases(last) {
  const found = Object.entries(last.seconds ?? {}).filter(([name]) => !["judge", "share"].includes(name)).sort((a, b) => b[1] - a[1])[0];
  return found ? [found[0], `${seconds(found[1])} of the last round`] : ["–", ""];
}
