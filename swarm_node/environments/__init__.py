"""Questions, and what playing them earns. Five names say what an environment is to whom.

- `Environment` (rollouts/interfaces.py): what the other rooms see. They have questions sampled,
  their prompts built, and episodes played.
- `ScoredEnvironment` (scored.py): the environment of one source. It remembers prompts and rewards,
  and has a scoring process build and play. `ReasoningGym`, and those of data sets and task sets,
  are such environments with a habit of their own.
- `Mixture` (scored.py): the environments of a node behind one interface.
- `EnvironmentKind` (kinds.py): what a name in the options stands for. It starts an environment.
- `Source` (scoring/contract.py): what an environment brings into the scoring process, also one from
  outside. An `ItemSource` gives questions of one turn, each an `Item` that scores a text; the
  scoring process lifts them to episodes.
"""
