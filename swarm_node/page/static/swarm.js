// The peers: a picture for an overview, and a table with all figures.
import { make, draw, tile, table, number, percent, seconds, replace, copied } from "./tools.js";
import { colour } from "./charts.js";
import { friendly, named } from "./names.js";

const MOST_DRAWN = 40;

export class Swarm {
  constructor(run) {
    this.run = run;
    this.tiles = make("dl", { class: "tiles" });
    this.invite = make("section", { class: "card", hidden: true, style: { marginBottom: "16px" } });
    this.picture = make("div", {});
    this.legend = make("ul", { class: "legend" });
    this.peers = make("div", { class: "card" });
    this.element = make("div", {}, this.tiles, this.invite,
      make("figure", { class: "card" }, make("figcaption", {}, make("h3", {}, "Peers around this node"),
        make("span", { class: "quiet" }, "A peer is drawn nearer if it answers sooner, and larger if it sent more informative groups.")), this.picture, this.legend),
      make("h2", {}, "Peers"), this.peers);
  }

  show(what) {
    if (what === "samples") return;
    const network = this.run.status.network ?? {};
    const authors = this.run.state.authors ?? {};
    const peers = (network.peers ?? []).map((peer) => ({ ...peer, link: network.connections?.[peer.peer] ?? "", came: authors[peer.peer] ?? {} }));
    const counters = network.counters ?? {};
    const came = (key) => Object.values(authors).reduce((sum, each) => sum + (each[key] ?? 0), 0);
    const tiles = [
      tile("Connected", number(network.connected), this.run.status.role ? `${number(network.relayed ?? 0)} through a relay` : "the node is not running"),
      tile("Known", number(peers.length), network.reachability ?? (network.resting ? "resting" : this.run.status.role ? "network off" : "the node is not running")),
      tile("External groups", number(came("scored")), `${number(came("informative"))} informative, used ${number(came("trained"))} times`),
      tile("Refused", number(came("refused")), "by the defence"),
      tile("Given", number(counters["groups served"] ?? 0), "groups served to peers"),
    ];
    this.tiles.replaceChildren(...(this.run.status.role === "bootstrap" ? [tiles[0], tiles[1], tile("Announcements", number(counters["announcements received"] ?? 0), "new ones so far")] : tiles));
    this.invitation(this.run.status.invitation, network.addresses?.[0]);
    this.paint(peers);
    this.list([...peers].sort((a, b) => gave(b) - gave(a)));
  }

  // Drawn again only when the code or the address changes, so that a reader's selection is not lost.
  invitation(code, address) {
    if (code === this.code && address === this.address) return;
    Object.assign(this, { code, address });
    this.invite.hidden = !code;
    const row = (label, text) => {
      const line = make("code", { style: { overflowWrap: "anywhere" } }, text);
      const copy = make("button", { type: "button", onclick: () => copied(copy, line) }, "Copy");
      return make("p", {}, label, line, " ", copy);
    };
    replace(this.invite, make("h3", {}, "Invite others"), row("On another computer: ", `swarm-node join ${code}`),
      address ? row("This node's address: ", address) : null);
  }

  paint(peers) {
    const drawn = [...peers].sort((a, b) => (b.link !== "") - (a.link !== "") || (a.last_seen ?? 1e9) - (b.last_seen ?? 1e9)).slice(0, MOST_DRAWN);
    if (!drawn.length) {
      replace(this.picture, make("p", { class: "empty" }, this.run.status.role ? "This node knows no peers yet. It trains, and keeps looking for them." : "The node is not running, so its peers cannot be shown."));
      replace(this.legend);
      return;
    }
    const narrow = this.element.clientWidth && this.element.clientWidth < 520;
    const [wide, high] = narrow ? [380, 380] : [900, 400];
    const far = [wide / 2 - (narrow ? 45 : 110), high / 2 - 40];
    const lines = [], dots = [];
    drawn.forEach((peer, i) => {
      const angle = (2 * Math.PI * i) / drawn.length - Math.PI / 2 + 0.3;
      const reach = peer.latency === null || peer.latency === undefined ? 1 : 0.5 + 0.5 * Math.min(1, Math.log10(1 + 1000 * peer.latency) / 3.3);
      const x = wide / 2 + far[0] * reach * Math.cos(angle), y = high / 2 + far[1] * reach * Math.sin(angle);
      if (peer.link) lines.push(draw("line", { x1: wide / 2, y1: high / 2, x2: x, y2: y, stroke: tint(peer), "stroke-width": 1.6, "stroke-dasharray": peer.link === "relayed" ? "5 4" : "none", opacity: 0.75 }));
      const size = 6 + Math.min(10, Math.sqrt(peer.came.informative ?? 0));
      dots.push(draw("g", {}, draw("title", {}, describe(peer)),
        draw("circle", { cx: x, cy: y, r: size, fill: tint(peer) }),
        draw("text", { x, y: y + size + 13, "text-anchor": "middle", class: "name" }, friendly(peer.peer))));
    });
    const here = draw("g", {}, draw("circle", { cx: wide / 2, cy: high / 2, r: 15, fill: colour(0) }), draw("text", { x: wide / 2, y: high / 2 + 30, "text-anchor": "middle" }, "this node"));
    replace(this.picture, draw("svg", { class: "swarm", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${peers.length} peers, ${peers.filter((each) => each.link).length} of them connected; the table below says the same` }, lines, dots, here));
    const kinds = [["direct", 2, "none"], ["relayed", 2, "5 4"], ["not connected", 9, ""], ["quarantined or banned", 7, ""]];
    replace(this.legend, kinds.map(([name, index, dash]) => make("li", {}, draw("svg", { width: 18, height: 10, "aria-hidden": "true" }, dash
      ? draw("line", { x1: 0, y1: 5, x2: 18, y2: 5, stroke: colour(index), "stroke-width": 2, "stroke-dasharray": dash })
      : draw("circle", { cx: 9, cy: 5, r: 4.5, fill: colour(index) })), name)),
      peers.length > drawn.length ? [make("li", { class: "quiet" }, `${drawn.length} of ${peers.length} drawn`)] : []);
  }

  list(peers) {
    if (!peers.length) return replace(this.peers, make("p", { class: "empty" }, "There are none yet."));
    const columns = [["peer", ""], ["state", ""], ["connection", ""], ["latency", "number"], ["last seen", "number"], ["round", "number"], ["downloads from it", "number"], ["share completed", "number"], ["downloads from here", "number"], ["scored", "number"], ["informative", "number"], ["trained on", "number"], ["refused", "number"]];
    const rows = peers.map((peer) => [
      named(peer.peer), `${peer.state}${peer.note ? `: ${peer.note}` : ""}`, peer.link || "–", seconds(peer.latency),
      peer.last_seen === null ? "never" : seconds(peer.last_seen), number(peer.round), number(peer.pulls), peer.pulls ? percent(peer.success) : "–", number(peer.served),
      ...["scored", "informative", "trained", "refused"].map((key) => number(peer.came[key] ?? 0)),
    ]);
    replace(this.peers, table("Peers", columns, rows));
  }
}

// The key by which peers are sorted: groups of theirs that were trained on, then groups of theirs that were scored.
const gave = ({ came }) => 1e6 * (came.trained ?? 0) + (came.scored ?? 0);

function tint(peer) {
  if (peer.state !== "ok") return colour(7);
  return peer.link ? colour(2) : colour(9);
}

function describe(peer) {
  return `${friendly(peer.peer)}, ${peer.peer}, ${peer.link || "not connected"}, ${peer.state}, latency ${seconds(peer.latency)}, ${number(peer.came.informative ?? 0)} informative groups`;
}

