// The public view: polls every ten seconds, so that many visitors do not each keep a connection open.
import { make, tile, table, number, percent, seconds, replace, get } from "./tools.js";
import { Chart, theme } from "./charts.js";

const EVERY = 10000;
const tiles = make("dl", { class: "tiles" });
const minutes = (value) => (Math.abs(value) < 3 ? `${Math.round(60 * Math.abs(value))} s` : `${Math.round(Math.abs(value))} min`);
const options = { unit: "minutes ago", xaxis: { values: (u, ticks) => ticks.map((tick) => (tick ? minutes(tick) : "now")) } };
const charts = { nodes: new Chart({ title: "≈ Nodes seen", ...options }), announcements: new Chart({ title: "≈ Announcements a minute", ...options }) };
const versions = make("section", { class: "card" }), tasks = make("section", { class: "card" });

function show(view) {
  replace(document.getElementById("subtitle"), document.createTextNode(view.swarm));
  const pill = document.getElementById("pill");
  pill.textContent = view.running ? "alive" : "this node's network is down";
  pill.className = `pill ${view.running ? "good" : "warn"}`;
  tiles.replaceChildren(
    tile("≈ Nodes", number(view.nodes), "seen in the last three minutes"),
    tile("Connected", number(view.connected), "to this node"),
    tile("Direct", percent(view.direct), "of the connected nodes"),
    tile("Relayed", percent(view.relayed), "of the connected nodes"),
    tile("≈ Announcements", number(view.announcements, 1), "new ones a minute"),
    tile("Up", seconds(view.uptime), "since this node's network started"),
  );
  const x = view.ages.map((age) => age / 60);
  charts.nodes.show(x, [{ name: "nodes", values: view.history.nodes, colour: 0 }]);
  charts.announcements.show(x, [{ name: "a minute", values: view.history.announcements, colour: 1 }]);
  replace(versions, make("h3", {}, "≈ Protocol versions"), table("Protocol versions", [["version", ""], ["nodes", "number"]], Object.entries(view.versions).map(([name, count]) => [name, number(count)])));
  const rows = Object.entries(view.tasks).map(([name, share]) => [name, percent(share)]);
  replace(tasks, make("h3", {}, "≈ Tasks"), rows.length ? table("Tasks", [["task", ""], ["share of sampled groups", "number"]], rows) : make("p", { class: "empty" }, "no group was sampled yet"));
}

async function ask() {
  try { show(await get("api/public")); } catch {
    const pill = document.getElementById("pill");
    pill.textContent = "the dashboard has stopped"; pill.className = "pill bad";
  }
  setTimeout(ask, document.hidden ? 6 * EVERY : EVERY);
}

replace(document.getElementById("main"), make("h2", { class: "sr" }, "The swarm now"), tiles, make("div", { class: "charts" }, charts.nodes.element, charts.announcements.element, versions, tasks));
theme(document.getElementById("theme"));
ask();
