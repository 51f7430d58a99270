"""Rules and clues as a CP-SAT model, to find worlds that they allow.

The generator uses only whether there is another world, never which one the solver found. So puzzles do not depend on
the version, the machine or the search of the solver.
"""

from collections.abc import Iterable
from itertools import product

from ortools.sat.python import cp_model

from swarm_node.extensions.temporal_clue import clues as c
from swarm_node.extensions.temporal_clue.worlds import Setting, World

Literal = cp_model.LiteralT
WORK_LIMIT = 60.0  # deterministic seconds of one search; the hardest published puzzle takes 0.1


class Undecided(Exception):
    """The limit on the solver's work was reached."""


class Rules:
    """The variables of a setting and the rules between them, built once. Each search adds its clues."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.model = model = cp_model.CpModel()
        rooms, times = range(len(setting.rooms)), range(len(setting.times))
        new = model.new_bool_var
        self.at = {key: new("") for key in product(range(setting.pieces), rooms, times)}  # piece, room, time
        self.murderer = [new("") for _ in setting.suspects]
        self.weapon = {piece: new("") for piece in setting.weapon_pieces}
        self.scene = [new("") for _ in rooms]
        self.time = [new("") for _ in times]
        self.motive = {key: new("") for key in product(range(setting.victim), range(len(setting.motives)))}
        for piece, time in product(range(setting.pieces), times):
            model.add_exactly_one(self.at[piece, room, time] for room in rooms)
        for one_of in (self.murderer, self.weapon.values(), self.scene, self.time):
            model.add_exactly_one(one_of)
        self._steps()
        self._murder()
        self._motives()
        self._rules = type(model.proto)()
        self._rules.copy_from(model.proto)

    def _steps(self) -> None:
        """People walk to neighbouring rooms; a weapon goes where a suspect takes it."""
        setting, at, model = self.setting, self.at, self.model
        for time, room in product(range(1, len(setting.times)), range(len(setting.rooms))):
            for person in range(setting.victim + 1):
                model.add_bool_or([~at[person, room, time - 1], *(at[person, r, time] for r in setting.reach[room])])
            for end in setting.reach[room] - {room}:
                goes = [self._both(at[s, room, time - 1], at[s, end, time]) for s in range(setting.victim)]
                for weapon in setting.weapon_pieces:
                    model.add_bool_or([~at[weapon, room, time - 1], ~at[weapon, end, time], *goes])
            for weapon in setting.weapon_pieces:
                model.add_bool_or([~at[weapon, room, time - 1], *(at[weapon, r, time] for r in setting.reach[room])])

    def _murder(self) -> None:
        """Murderer, victim and weapon were in one room, and no other suspect. From then on the victim stays."""
        setting, at, model = self.setting, self.at, self.model
        for time, room in product(range(len(setting.times)), range(len(setting.rooms))):
            here = [~self.time[time], ~self.scene[room]]
            for later in range(time, len(setting.times)):
                model.add_bool_or([*here, at[setting.victim, room, later]])
            for suspect, guilty in enumerate(self.murderer):
                model.add_bool_or([*here, ~guilty, at[suspect, room, time]])
                model.add_bool_or([*here, guilty, ~at[suspect, room, time]])
            for piece, used in self.weapon.items():
                model.add_bool_or([*here, ~used, at[piece, room, time]])

    def _motives(self) -> None:
        for suspect in range(self.setting.victim if self.setting.motives else 0):
            self.model.add_exactly_one(self.motive[suspect, m] for m in range(len(self.setting.motives)))
        for motive, count in enumerate(self.setting.motive_counts):
            self.model.add(sum(self.motive[s, motive] for s in range(self.setting.victim)) == count)

    def another(
        self, clues: Iterable[c.Clue], known: Iterable[World] = (), work_limit: float = WORK_LIMIT
    ) -> World | None:
        """A world in which all clues hold and that is not among the `known` ones. None if there is none.

        `work_limit`: the solver's deterministic seconds, which count work, not time. Raises Undecided beyond it.
        """
        model = self.model
        for clue in clues:
            for ways in self._demands(clue):
                model.add_bool_or(ways)
        for world in known:
            model.add_bool_or([~literal for literal in self._literals(world)])
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.cp_model_presolve = False  # costs more than the search in models as small as these
        solver.parameters.linearization_level = 0  # the model has only Booleans
        solver.parameters.symmetry_level = 0
        solver.parameters.max_deterministic_time = work_limit
        status = solver.solve(model)
        model.proto.copy_from(self._rules)  # a new model object, or a clone, would cost as much as the search
        if status == cp_model.INFEASIBLE:
            return None
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            raise Undecided(solver.status_name(status))
        return self._world(solver)

    def _literals(self, world: World) -> list[cp_model.IntVar]:
        """The variables that are true in this world and in no other."""
        true = [self.at[p, room, t] for p, path in enumerate(world.paths) for t, room in enumerate(path)]
        true += [self.motive[s, m] for s, m in enumerate(world.motives)]
        return [*true, self.murderer[world.murderer], self.weapon[world.weapon], self.time[world.time]]

    def _world(self, solver: cp_model.CpSolver) -> World:
        setting = self.setting
        rooms, times = range(len(setting.rooms)), range(len(setting.times))
        is_true = solver.boolean_value
        return World(
            tuple(
                tuple(next(r for r in rooms if is_true(self.at[p, r, t])) for t in times) for p in range(setting.pieces)
            ),
            tuple(
                next(m for m in range(len(setting.motives)) if is_true(self.motive[s, m]))
                for s in range(setting.victim)
            )
            if setting.motives
            else (),
            next(s for s, guilty in enumerate(self.murderer) if is_true(guilty)),
            next(piece for piece, used in self.weapon.items() if is_true(used)),
            next(t for t in times if is_true(self.time[t])),
        )

    def _both(self, *needed: Literal) -> Literal:
        """A literal that implies all of these. It can demand them; its negation means nothing."""
        if len(needed) == 1:
            return needed[0]
        literal = self.model.new_bool_var("")
        self.model.add_bool_and(needed).only_enforce_if(literal)
        return literal

    def _demands(self, clue: c.Clue) -> list[list[Literal]]:  # noqa: PLR0911  (a case per kind of clue)
        """The clue as a conjunction of disjunctions: the ways in which it, or each half of it, can be true."""
        setting, at = self.setting, self.at
        rooms, times = range(len(setting.rooms)), range(len(setting.times))
        match clue:
            case c.At():
                return [self._ways_at(clue)]
            case c.Same(who, other, time):
                return [[self._both(*x, *y, at[p, room, time], at[q, room, time])
                         for p, x in self._pieces(who) for q, y in self._pieces(other) for room in rooms]]  # fmt: skip
            case c.Beside(who, direction, other, time):
                return [[self._both(*x, *y, at[p, beside, time], at[q, room, time])
                         for p, x in self._pieces(who) for q, y in self._pieces(other) for room in rooms
                         if (beside := setting.beside(room, direction)) is not None]]  # fmt: skip
            case c.Together(who, other, room):
                return [[self._both(*x, *y, at[p, room, time], at[q, room, time])
                         for p, x in self._pieces(who) for q, y in self._pieces(other) for time in times]]  # fmt: skip
            case c.Moved(who, begin, end, time, weapon):
                return [[self._both(*x, at[p, begin, time - 1], at[p, end, time]) for p, x in self._pieces(mover)]
                        for mover in ([who] if weapon is None else [who, weapon])]  # fmt: skip
            case c.Either(one, other):
                left, right = self._is_at(one), self._is_at(other)
                return [[left, right], [~left, ~right]]
            case c.Equivalent(one, other):
                left, right = self._is_at(one), self._is_at(other)
                return [[left, ~right], [~left, right]]
            case c.HasMotive(suspect, motive):
                return [[self.motive[suspect, motive]]]
            case c.Solution(part, value):
                return [self._ways_solved(part, value)]

    def _pieces(self, term: c.Term) -> list[tuple[int, list[Literal]]]:
        """The pieces that a term may stand for, each with what has to be true for it."""
        match term:
            case c.Named(piece):
                return [(piece, [])]
            case c.Murderer():
                return [(suspect, [guilty]) for suspect, guilty in enumerate(self.murderer)]
            case c.MurderWeapon():
                return [(piece, [used]) for piece, used in self.weapon.items()]
            case c.Motivated(motive):
                return [(suspect, [self.motive[suspect, motive]]) for suspect in range(self.setting.victim)]

    def _ways_at(self, clue: c.At) -> list[Literal]:
        return [self._both(*needed, self.at[p, clue.room, clue.time]) for p, needed in self._pieces(clue.who)]

    def _is_at(self, clue: c.At) -> Literal:
        """A literal that is true exactly where the clue is."""
        if isinstance(clue.who, c.Named):
            return self.at[clue.who.piece, clue.room, clue.time]
        literal = self.model.new_bool_var("")
        self.model.add_bool_or([~literal, *self._ways_at(clue)])
        for piece, needed in self._pieces(clue.who):
            self.model.add_bool_or([literal, ~self.at[piece, clue.room, clue.time], *(~n for n in needed)])
        return literal

    def _ways_solved(self, part: str, value: int) -> list[Literal]:
        match part:
            case "murderer":
                return [self.murderer[value]]
            case "weapon":
                return [self.weapon[value]]
            case "room":
                return [self.scene[value]]
            case "time":
                return [self.time[value]]
            case _:
                return [self._both(guilty, self.motive[s, value]) for s, guilty in enumerate(self.murderer)]
