"""Overrides as people and accidents write them, valid and not, and what must hold of each."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from spikelm.cli.command_line import precheck
from spikelm.config.checks import all_keys
from spikelm.config.compose import load_config
from spikelm.config.paths import config_dir
from spikelm.errors import ConfigError, DataError
from spikelm.runs.identity import identity
from spikelm.runs.labels import label
from spikelm.runs.prerequisites import prerequisites
from spikelm.store.hashing import run_id

GROUPS = (
    "task",
    "neuron",
    "weights",
    "attention",
    "norm",
    "backbone",
    "source",
    "distill",
    "trainer",
    "tracker",
    "scale",
    "system",
)
OPTIONS = [
    f"{group}={path.relative_to(config_dir() / group).with_suffix('')}"
    for group in GROUPS
    for path in sorted((config_dir() / group).rglob("*.yaml"))
]
KEYS = [*all_keys(), "neuron.k", "neuron.fire", "neuron._target_", "weights.rows", "hydra.run.dir", "hydra/launcher"]
WORDS = (
    *("true", "false", "null", "''", "[]", "{}", "[1,2]", "{a: 1}", "{a: {b: null}}", "nan", "inf", "-inf", "1e999"),
    *("${k}", "${nothing}", "${oc.env:HOME}", "${oc.env:NO_SUCH_VARIABLE}", "${k", "???", "${T}${T}"),
    *("${by_task:1}", "../../etc/passwd", "/etc/passwd", "a b", "a'b", 'a"b', "a=b", "a,b", "[", "]", "{", "}", "("),
    *("\\", "é", "\U0001f600", "os.system", "subprocess.Popen", "spikelm.cli.main.os.system", "1_000", "0x10", "1e-3"),
    *("9" * 30, "x" * 300, "glob(*)", "range(1,3)", "choice(1,2)", "interval(0,1)", "int(3)", "str([1])"),
    *("shuffle(1,2)", "\t", " ", "#", "@", "~", "!"),
)
VALUES = (
    st.sampled_from(WORDS)
    | st.integers(-(10**6), 10**6).map(str)
    | st.floats().map(str)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12)
)
PREFIXES = st.sampled_from(("", "", "", "", "+", "++", "~"))
ASSIGNMENTS = st.builds("{}{}={}".format, PREFIXES, st.sampled_from(KEYS) | st.text(max_size=8), VALUES)
OVERRIDES = st.lists(ASSIGNMENTS | st.sampled_from(OPTIONS) | VALUES, min_size=1, max_size=3)


def examined(overrides: list[str], multirun: bool = False) -> str:
    """What the command line makes of overrides before anything is trained: `valid`, or the one line it says."""
    try:
        if precheck([*(["-m"] if multirun else []), "--", *overrides]) is None:
            return "help"
        if not multirun:
            config = load_config(overrides)
            assert label(config)
            assert len(run_id(identity(config))) == 16
            assert all(label(needed) for needed in prerequisites(config).values())
    except (ConfigError, DataError) as error:
        said = error
    else:
        return "valid"
    assert said.exit_code == 2
    assert said.what.strip()
    assert "\n" not in said.what, said.what
    return said.what


def nudged(count: int, seed: int = 0) -> list[list[str]]:
    """Overrides of single keys, each with a word: dense where hypothesis is sparse."""
    chosen = random.Random(seed)
    return [[f"{chosen.choice(KEYS)}={chosen.choice(WORDS)}"] for _ in range(count)]
