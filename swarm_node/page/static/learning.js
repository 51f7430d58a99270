// A node's learning: tiles, and curves over the whole run or its last rounds.
import { make, replace, table, tile, number, percent, seconds, average } from "./tools.js";
import { Chart, HOURS } from "./charts.js";
import { Answers } from "./answers.js";

const WINDOW = 20;
const MOST_TASKS = 10;
const LEARNED = 0.9; // as in rollouts/curriculum.py

export class Learning {
  constructor(run) {
    this.run = run;
    this.range = "whole";
    this.axis = "round";
    this.window = WINDOW;
    this.answers = new Answers(run);
    this.tiles = make("dl", { class: "tiles" });
    this.learned = make("div", { class: "learned", hidden: true });
    this.practised = make("section", { class: "card", hidden: true });
    const chart = (title, note, options = {}) => new Chart({ title, note, ...options });
    const share = { format: percent };
    this.charts = {
      reward: chart("Reward", "", { wide: true, height: 260 }),
      tasks: chart("Reward by task", "moving average"),
      groups: chart("Groups trained on", "informative groups in a round, local and external"),
      phases: chart("Time of a round", "how long each phase takes", { stacked: true, format: seconds }),
      speed: chart("Tokens per second", "generated"),
      informative: chart("Informative local groups", "share with a non-zero advantage", share),
      entropy: chart("Entropy", "nats per trained token"),
      clip: chart("Clipped tokens", "share of trained tokens", share),
      staleness: chart("Staleness", "updates between generation and training"),
      gradient: chart("Gradient norm", "before clipping"),
      busy: chart("Busy", "share of the time in which generator and trainer work", share),
    };
    this.buttons = [["whole", "Whole run"], ["recent", "Last 512 rounds"]].map(([key, text]) =>
      make("button", { type: "button", "aria-pressed": String(key === this.range), onclick: () => this.choose(key) }, text));
    this.buttons[0].key = "whole"; this.buttons[1].key = "recent";
    this.axes = [["round", "By round"], [HOURS, "By hour"]].map(([key, text]) => Object.assign(
      make("button", { type: "button", "aria-pressed": String(key === this.axis), onclick: () => this.along(key) }, text), { key }));
    this.smooth = make("select", { onchange: () => { this.window = Number(this.smooth.value); this.show("state"); } },
      [1, 5, WINDOW, 100].map((points) => make("option", { value: points, selected: points === WINDOW }, points)));
    this.grid = make("div", { class: "charts" }, Object.values(this.charts).map((each) => each.element));
    this.element = make("div", {},
      this.answers.element, this.tiles, this.practised, this.learned,
      make("div", { class: "bar" }, make("div", { class: "switch", role: "group", "aria-label": "Rounds shown" }, this.buttons),
        make("div", { class: "switch", role: "group", "aria-label": "What charts run along" }, this.axes),
        make("label", {}, "Points averaged", this.smooth),
        make("span", { class: "quiet" }, "Drag along a chart to look closer, double-click to go back.")),
      this.grid);
  }

  choose(range) {
    this.range = range;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.key === range));
    this.show("state");
  }

  along(axis) {
    this.axis = axis;
    for (const button of this.axes) button.setAttribute("aria-pressed", String(button.key === axis));
    for (const chart of Object.values(this.charts)) chart.options.unit = axis;
    this.show("state");
  }

  // The values of x: rounds, or minutes since the first one, which never decrease even if the clock was set back.
  across({ rounds, series }) {
    if (this.axis === "round") return rounds;
    let latest = 0;
    return rounds.map((round, i) => (latest = Math.max(latest, 60 * (series.hours?.[i] ?? 0))));
  }

  show(what) {
    if (what === "samples") return;
    this.answers.show();
    this.numbers();
    if (what === "status") return;
    const { state } = this.run;
    const columns = state[this.range];
    const x = this.across(columns), s = columns.series;
    const none = x.map(() => null);
    const of = (key) => s[key] ?? none;
    const smooth = (key) => average(of(key), this.window);
    const each = columns.width > 1 ? `each point is the mean of ${columns.width} rounds` : "every round";
    const { charts } = this;
    charts.reward.show(x, [
      { name: "each point", values: of("reward"), colour: 0, width: 1, alpha: "55", quiet: true },
      { name: "local", values: smooth("reward"), colour: 0, width: 2.5 },
      { name: "external", values: smooth("external_reward"), colour: 1, width: 2, gaps: true },
      { name: "validation", values: this.validation(columns.rounds), colour: 2, points: true },
    ], `moving average of ${this.window} points; ${each}`);
    charts.tasks.show(x, state.tasks.slice(0, MOST_TASKS).map((task, i) => ({ name: task, values: smooth(`task:${task}`), colour: i, width: 1.6 })),
      state.tasks.length > MOST_TASKS ? `moving average; ${MOST_TASKS} of ${state.tasks.length} tasks` : undefined);
    charts.groups.show(x, [
      { name: "local", values: smooth("local_informative"), colour: 0 },
      { name: "external", values: smooth("external_informative"), colour: 1 },
    ]);
    charts.phases.show(x, state.phases.map((phase, i) => ({ name: phase, values: smooth(`phase:${phase}`), colour: i })));
    const single = { speed: "tokens_per_second", informative: "informative_share", entropy: "entropy", clip: "clip_fraction", staleness: "staleness", gradient: "grad_norm" };
    for (const [name, key] of Object.entries(single)) {
      charts[name].show(x, [
        { name: "each point", values: of(key), colour: 0, width: 1, alpha: "44", quiet: true },
        { name: "moving average", values: smooth(key), colour: 0 },
      ]);
    }
    charts.busy.element.hidden = !s.generating;
    if (s.generating) charts.busy.show(x, [
      { name: "generator", values: smooth("generating"), colour: 0 }, { name: "trainer", values: smooth("training"), colour: 1 },
    ]);
  }

  // A validation may belong to a round without a point: it is drawn at the last point that is not after it.
  validation(x) {
    const { rounds, series } = this.run.state.validations;
    const values = x.map(() => null);
    let i = 0;
    rounds.forEach((round, k) => {
      while (i + 1 < x.length && x[i + 1] <= round) i++;
      if (x.length && round >= x[0]) values[i] = series.reward?.[k] ?? null;
    });
    return values;
  }

  numbers() {
    const { state, status } = this.run;
    const last = state.last ?? {};
    const recent = state.recent.series;
    const now = (key) => average(recent[key] ?? [], WINDOW).at(-1);
    const before = (recent.reward ?? []).length > 2 * WINDOW ? average(recent.reward, WINDOW).at(-1 - WINDOW) : null;
    const change = before === null || now("reward") === null ? "" : `${now("reward") >= before ? "▲" : "▼"} ${number(Math.abs(now("reward") - before))} in ${WINDOW} rounds`;
    const tiles = [
      tile("Reward", number(now("reward")), change || `mean of ${WINDOW} rounds`),
      tile("Round", "round" in last ? last.round.toLocaleString() : "–", `${seconds(now("round_seconds"))} each`),
      tile("Tokens per second", number(now("tokens_per_second")), "generated here"),
      tile("External groups", number(now("external_informative"), 1), "trained on in a round"),
      tile("Informative", percent(now("informative_share")), "of local groups"),
      tile("Peers", number(status.network?.connected), status.network?.running ? "connected" : status.network?.resting ? "resting" : status.role ? "network off" : "the node is not running"),
    ];
    this.tiles.replaceChildren(...tiles);
    this.lessons(state.learned ?? {});
    this.tasks(state.chosen ?? {});
  }

  // The tasks that the node has chosen, with their shares of right answers in recent training.
  tasks({ practised = {}, dropped = {}, unasked = 0 }) {
    const said = JSON.stringify([practised, dropped, unasked]);
    if (said === this.choice) return;
    this.choice = said;
    const shares = Object.values(dropped), learned = shares.filter((share) => share >= LEARNED).length;
    const rows = Object.entries(practised).sort((a, b) => b[1] - a[1]).map(([task, share]) => [task, percent(share)]);
    const rest = [[learned, "learned"], [shares.length - learned, "too hard"], [unasked, "not practised yet"]].filter(([count]) => count).map(([count, what]) => `${count} ${what}`);
    this.practised.hidden = !rows.length && !rest.length;
    replace(this.practised, make("h3", {}, "Tasks that this node has chosen"),
      rows.length ? table("Tasks that this node has chosen", [["task", ""], ["right recently", "number"]], rows) : make("p", { class: "empty" }, "None at the moment. It practises tasks whose answers are sometimes right and sometimes wrong."),
      rest.length ? make("p", { class: "quiet" }, `Other tasks: ${rest.join(", ")}.`) : null);
  }

  // Held-out questions: rewards by task before and now, and questions answered wrongly at first and rightly now.
  lessons({ before = {}, now = {}, corrected = [] }) {
    const said = JSON.stringify([before, now, corrected]);
    if (said === this.lesson) return;
    this.lesson = said;
    const rows = Object.keys(now).map((task) => [task, percent(before[task] ?? now[task]), percent(now[task])]);
    const pairs = corrected.map((each) => make("div", { class: "pair" }, make("p", {}, make("b", {}, each.task ?? ""), " ", each.question),
      make("p", {}, make("span", { class: "tag warn" }, "at first"), " ", each.before), make("p", {}, make("span", { class: "tag good" }, "now"), " ", each.now)));
    this.learned.hidden = !rows.length;
    replace(this.learned,
      make("section", { class: "card" }, make("h3", {}, "Held-out questions"), table("Held-out questions", [["task", ""], ["before", "number"], ["now", "number"]], rows)),
      make("section", { class: "card" }, make("h3", {}, "Before and now"), pairs.length ? pairs : make("p", { class: "empty" }, "So far there is no question that was answered wrong at first and is answered correctly now.")));
  }

  close() { for (const chart of Object.values(this.charts)) chart.forget(); }
}
