// How the node is: what it says itself, what its processes take, what it warned of.
import { make, tile, table, number, percent, bytes, seconds, clock, facts, replace, get } from "./tools.js";

export class Health {
  constructor(run) {
    this.run = run;
    this.problems = make("div", {});
    this.tiles = make("dl", { class: "tiles" });
    this.processes = make("section", { class: "card" });
    this.traffic = make("section", { class: "card" });
    this.lines = make("ul", { class: "lines" });
    this.found = make("div", { role: "status" });
    this.ask = make("button", { type: "button", onclick: () => this.doctor() }, "Run doctor");
    const node = run.state.kind === "node";
    this.element = make("div", {}, this.problems, this.tiles, node ? make("div", { class: "grid2" }, this.processes, this.traffic) : null,
      make("h2", {}, "What it said"), make("section", { class: "card", tabindex: "0", role: "region", "aria-label": "Notices and warnings" }, this.lines),
      node ? [make("h2", {}, "Doctor"), make("section", { class: "card" }, make("p", {}, this.ask, " ", make("span", { class: "quiet" }, "looks at clock, disk, sandbox, network and scoring with default options, as it takes none from this folder; swarm-node doctor CONFIG.toml takes yours")), this.found)] : null);
  }

  show(what) {
    if (what === "samples") return;
    const { state, status } = this.run;
    replace(this.problems, (status.problems ?? []).map((each) => make("p", { class: "note" }, each)));
    if (state.kind === "node") this.node(state, status);
    const lines = [...state.lines].reverse().map((line) => make("li", { class: line.level }, make("time", { datetime: new Date(1000 * line.time).toISOString() }, clock(line.time)), line.level === "warning" ? "warning: " : "", line.text));
    replace(this.lines, lines.length ? lines : [make("li", { class: "quiet" }, "nothing")]);
  }

  node(state, status) {
    const network = status.network ?? {}, last = state.last ?? {}, overlap = last.overlap;
    const taken = status.processes ?? [];
    const busy = phases(last);
    const bootstrap = status.role === "bootstrap";
    this.tiles.replaceChildren(...[
      tile("Memory", bytes(taken.length ? taken.reduce((sum, each) => sum + each.memory, 0) : null), `${taken.length} processes`),
      tile("Processor", taken.length ? percent(taken.reduce((sum, each) => sum + each.cpu, 0)) : "–", "of one core"),
      bootstrap ? null : tile("Pool", number(last.pool_size), "external groups wait"),
      bootstrap ? null : overlap ? tile("Generator busy", percent(overlap.generating), `trainer ${percent(overlap.training)}, ${overlap.waiting} rounds wait`) : tile("Longest phase", busy[0], busy[1]),
      tile("Network", network.running ? network.reachability : network.enabled === false ? "off" : "–", network.running ? `up for ${seconds(network.uptime)}` : ""),
      bootstrap ? null : tile("Dropped", number(network.dropped), "messages: training was busy"),
    ].filter(Boolean));
    const rows = taken.map((each) => [each.name, number(each.pid), bytes(each.memory), percent(each.cpu), number(each.threads)]);
    replace(this.processes, make("h3", {}, "Processes"), taken.length ? table("Processes", [["what", ""], ["process", "number"], ["memory", "number"], ["processor", "number"], ["threads", "number"]], rows) : make("p", { class: "empty" }, "the node does not run here"));
    const counters = Object.entries(network.counters ?? {});
    const traffic = {};
    for (const [name, count] of counters) {
      const found = /^(.*) bytes (in|out)$/.exec(name);
      if (found) (traffic[found[1]] ??= {})[found[2]] = count;
    }
    const others = counters.filter(([name]) => !/ bytes (in|out)$/.test(name)).map(([name, count]) => [name, number(count)]);
    replace(this.traffic, make("h3", {}, "Traffic"), Object.keys(traffic).length
      ? table("Traffic", [["protocol", ""], ["in", "number"], ["out", "number"]], Object.entries(traffic).map(([name, each]) => [name, bytes(each.in ?? 0), bytes(each.out ?? 0)]))
      : make("p", { class: "empty" }, "none"), others.length ? facts(others) : null);
  }

  async doctor() {
    this.ask.disabled = true;
    replace(this.found, make("p", { class: "quiet" }, "looking …"));
    try {
      const { lines } = await get("api/doctor");
      const rows = lines.map((line) => /^(ok|note|alone|bad) +([^:]+): (.*)$/.exec(line)).filter(Boolean).map(([, level, subject, text]) => [make("span", { class: `tag ${level === "ok" ? "good" : level === "note" ? "" : "warn"}` }, level), subject, text]);
      replace(this.found, rows.length ? table("Findings of doctor", [["", ""], ["what", ""], ["finding", "text"]], rows) : make("pre", {}, lines.join("\n")), make("p", {}, lines.at(-1) ?? ""));
    } catch (error) {
      replace(this.found, make("p", { class: "note" }, `doctor could not be asked: ${error.message}`));
    }
    this.ask.disabled = false;
  }
}

function phases(last) {
  const found = Object.entries(last.seconds ?? {}).filter(([name]) => !["judge", "share"].includes(name)).sort((a, b) => b[1] - a[1])[0];
  return found ? [found[0], `${seconds(found[1])} of the last round`] : ["–", ""];
}
