"""Rules and clues as a CP-SAT model, to find worlds that they allow.

The generator uses only whether there is another world, never which one the solver found. So puzzles
do not depend on the version, the machine or the search of the solver.
"""

from collections.abc import Iterable, Sequence
from itertools import product

from ortools.sat.python import cp_model

from swarm_node.environments.temporal_clue import clues as c
from swarm_node.environments.temporal_clue.worlds import Fact, Setting, World

Literal = cp_model.LiteralT
WORK_LIMIT = 60.0  # deterministic seconds of one search; the hardest published puzzle takes 0.1


class Undecided(Exception):
    """The limit on the solver's work was reached."""


class ConstraintModel:
    """The variables of a setting and the rules between them, built once. Each search adds its
    clues.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._model = model = cp_model.CpModel()
        rooms = range(len(setting.rooms))
        times = range(len(setting.times))
        suspects = range(setting.victim)
        # Groups of facts: exactly one fact of each group is true
        one_of: list[Sequence[Fact]] = []
        for piece in range(setting.pieces):
            for time in times:
                one_of.append([("at", piece, room, time) for room in rooms])
        if setting.motives:
            motives = range(len(setting.motives))
            for suspect in suspects:
                one_of.append([("motive", suspect, motive) for motive in motives])
        one_of.append([("murderer", suspect) for suspect in suspects])
        one_of.append([("weapon", piece) for piece in setting.weapon_pieces])
        one_of.append([("room", room) for room in rooms])
        one_of.append([("time", time) for time in times])
        self._literal = {fact: model.new_bool_var("") for facts in one_of for fact in facts}
        for facts in one_of:
            model.add_exactly_one(self._literal[fact] for fact in facts)
        self._steps()
        self._murder()
        for motive, count in enumerate(setting.motive_counts):
            model.add(sum(self._literal["motive", s, motive] for s in suspects) == count)
        self._rules = type(model.proto)()
        self._rules.copy_from(model.proto)

    def _at(self, piece: int, room: int, time: int) -> cp_model.IntVar:
        return self._literal["at", piece, room, time]

    def _steps(self) -> None:
        """People walk to neighbouring rooms; a weapon goes where a suspect takes it."""
        setting, at, model = self.setting, self._at, self._model
        suspects = range(setting.victim)
        for time, room in product(range(1, len(setting.times)), range(len(setting.rooms))):
            for piece in range(setting.pieces):
                within_reach = [at(piece, near, time) for near in setting.reach[room]]
                model.add_bool_or([~at(piece, room, time - 1), *within_reach])
            for end in setting.reach[room] - {room}:
                goes = [
                    self._all(("at", suspect, room, time - 1), ("at", suspect, end, time))
                    for suspect in suspects
                ]
                for weapon in setting.weapon_pieces:
                    was_here, is_there = at(weapon, room, time - 1), at(weapon, end, time)
                    model.add_bool_or([~was_here, ~is_there, *goes])

    def _murder(self) -> None:
        """Murderer, victim and weapon were in one room, and no other suspect. From then on the
        victim stays.
        """
        setting, at, model, literal = self.setting, self._at, self._model, self._literal
        for time, room in product(range(len(setting.times)), range(len(setting.rooms))):
            elsewhere = [~literal["time", time], ~literal["room", room]]
            for later in range(time, len(setting.times)):
                model.add_bool_or([*elsewhere, at(setting.victim, room, later)])
            for suspect in range(setting.victim):
                guilty = literal["murderer", suspect]
                model.add_bool_or([*elsewhere, ~guilty, at(suspect, room, time)])
                model.add_bool_or([*elsewhere, guilty, ~at(suspect, room, time)])
            for piece in setting.weapon_pieces:
                model.add_bool_or([*elsewhere, ~literal["weapon", piece], at(piece, room, time)])

    def another(
        self, clues: Iterable[c.Clue], known: Iterable[World] = (), work_limit: float = WORK_LIMIT
    ) -> World | None:
        """A world in which all clues hold and that is not among the `known` ones. None if there is
        no such world.

        `work_limit`: the solver's deterministic seconds, which count work, not time. Raises
        Undecided beyond it.
        """
        model = self._model
        for clue in clues:
            self._add(clue)
        for world in known:
            true_here = [fact for fact in self._literal if fact in world.facts]
            model.add_bool_or([~self._literal[fact] for fact in true_here])
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        # Costs more than the search in models as small as these
        solver.parameters.cp_model_presolve = False
        solver.parameters.linearization_level = 0  # the model has only Booleans
        solver.parameters.symmetry_level = 0
        solver.parameters.max_deterministic_time = work_limit
        status = solver.solve(model)
        # A new model object, or a clone, would cost as much as the search
        model.proto.copy_from(self._rules)
        if status == cp_model.INFEASIBLE:
            return None
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            raise Undecided(solver.status_name(status))
        literals = self._literal.items()
        return self._world({fact for fact, literal in literals if solver.boolean_value(literal)})

    def _world(self, facts: set[Fact]) -> World:
        setting = self.setting
        rooms = range(len(setting.rooms))
        times = range(len(setting.times))
        suspects = range(setting.victim)

        def room_of(piece: int, time: int) -> int:
            return next(room for room in rooms if ("at", piece, room, time) in facts)

        paths = []
        for piece in range(setting.pieces):
            paths.append(tuple(room_of(piece, time) for time in times))
        pairs = product(suspects, range(len(setting.motives)))
        motives = tuple(motive for suspect, motive in pairs if ("motive", suspect, motive) in facts)
        murderer = next(suspect for suspect in suspects if ("murderer", suspect) in facts)
        weapon = next(piece for piece in setting.weapon_pieces if ("weapon", piece) in facts)
        time = next(time for time in times if ("time", time) in facts)
        return World(tuple(paths), motives, murderer, weapon, time)

    def _add(self, clue: c.Clue) -> None:
        model = self._model
        match clue:
            case c.Either(one, other):
                left, right = self._is(one), self._is(other)
                model.add_bool_or([left, right])
                model.add_bool_or([~left, ~right])
            case c.Equivalent(one, other):
                left, right = self._is(one), self._is(other)
                model.add_bool_or([left, ~right])
                model.add_bool_or([~left, right])
            case _:
                for ways in c.demands(clue, self.setting):
                    model.add_bool_or([self._all(*way) for way in ways])

    def _all(self, *facts: Fact) -> Literal:
        """A literal that implies all of these facts. Its negation implies nothing."""
        if len(facts) == 1:
            return self._literal[facts[0]]
        literal = self._model.new_bool_var("")
        self._model.add_bool_and(self._literal[fact] for fact in facts).only_enforce_if(literal)
        return literal

    def _is(self, clue: c.At) -> Literal:
        """A literal that is true exactly where the clue is."""
        (ways,) = c.demands(clue, self.setting)
        if len(ways) == 1 and len(ways[0]) == 1:
            return self._all(*ways[0])
        literal = self._model.new_bool_var("")
        self._model.add_bool_or([~literal, *(self._all(*way) for way in ways)])
        for way in ways:
            self._model.add_bool_or([literal, *(~self._literal[fact] for fact in way)])
        return literal
