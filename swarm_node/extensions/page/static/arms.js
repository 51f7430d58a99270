// A simulation: its arms side by side, each the mean of its seeds, every seed faint behind it.
import { make, tile, table, number, percent, average, replace } from "./tools.js";
import { Chart } from "./charts.js";

const CURVES = [
  ["reward", "Reward of a completion", "mean over nodes"], ["informative_share", "Informative groups", "share of local groups", percent],
  ["external_groups", "External groups trained on", "per node"], ["entropy", "Entropy", "nats per trained token"],
  ["grad_norm", "Gradient norm", "before clipping"], ["round_seconds", "Seconds of a round", "all nodes"],
];

export class Arms {
  constructor(run) {
    this.run = run;
    this.tiles = make("dl", { class: "tiles" });
    this.charts = CURVES.map(([, title, note, format], i) => new Chart({ title, note, wide: i === 0, height: i === 0 ? 280 : 190, ...(format ? { format } : {}) }));
    this.tasks = make("div", {});
    this.cells = make("div", { class: "card" });
    this.element = make("div", {}, this.tiles, make("div", { class: "charts" }, this.charts.map((each) => each.element)), this.tasks,
      make("h2", {}, "Arms and seeds"), this.cells);
  }

  show(what) {
    if (what === "status" || what === "samples") return;
    const { cells } = this.run.state;
    const arms = [...new Set(cells.map((cell) => cell.arm))];
    const rounds = [...new Set(cells.flatMap((cell) => cell.history.rounds))].sort((a, b) => a - b);
    const place = new Map(rounds.map((round, i) => [round, i]));
    const window = Math.max(1, Math.min(20, Math.floor(rounds.length / 10)));
    CURVES.forEach(([key, , note], i) => {
      const series = [];
      arms.forEach((arm, colour) => {
        const seeds = cells.filter((cell) => cell.arm === arm).map((cell) => average(spread(cell, key, rounds, place), window));
        if (seeds.length > 1) for (const values of seeds) series.push({ name: `${arm} seed`, values, colour, width: 1, alpha: "55", quiet: true });
        series.push({ name: arm, values: mean(seeds, rounds.length), colour, width: 2.5 });
      });
      this.charts[i].show(rounds, series, window > 1 ? `${note}; moving average of ${window} rounds` : note);
    });
    this.numbers(arms, cells);
    const rows = cells.map((cell) => [cell.arm, number(cell.seed), cell.state, number(cell.round + 1), number(cell.history.rounds.length ? average(cell.history.series.reward, window).at(-1) : null)]);
    replace(this.cells, table("Arms and seeds", [["arm", ""], ["seed", "number"], ["state", ""], ["rounds", "number"], ["reward now", "number"]], rows));
  }

  numbers(arms, cells) {
    const earned = (arm) => {
      const all = cells.filter((cell) => cell.arm === arm).map((cell) => average(cell.history.series.reward ?? [], 10).at(-1)).filter((value) => value !== undefined && value !== null);
      return all.length ? all.reduce((sum, value) => sum + value, 0) / all.length : null;
    };
    const first = earned(arms[0]);
    const tiles = arms.map((arm, i) => {
      const value = earned(arm);
      const note = i && first && value !== null ? `${number(value / first, 2)} times ${arms[0]}` : "last 10 rounds";
      return tile(`${arm}${arm.endsWith("/0") ? " alone" : ""}`, number(value), note);
    });
    this.tiles.replaceChildren(...tiles);
  }

  close() { for (const chart of this.charts) chart.forget(); }
}

function spread(cell, key, rounds, place) {
  const values = rounds.map(() => null);
  cell.history.rounds.forEach((round, i) => { values[place.get(round)] = cell.history.series[key]?.[i] ?? null; });
  return values;
}

function mean(lists, length) {
  return Array.from({ length }, (_, i) => {
    const there = lists.map((values) => values[i]).filter((value) => value !== null && value !== undefined);
    return there.length ? there.reduce((sum, value) => sum + value, 0) / there.length : null;
  });
}
