"""result.json: the one typed record of a finished run, its schema, and what readers compute from it.

`python -m spikelm.store.result > docs/internals/result_schema.json` publishes the JSON Schema;
docs/internals/result.md explains the keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, ValidationError, WithJsonSchema

from spikelm.catalog.counts import ModelCounts, NeuronCount, OperatorCount, ProductCount, from_lines, to_lines
from spikelm.catalog.estimators import Estimate, estimates
from spikelm.config.recorded import from_record, to_record
from spikelm.config.settings.schema import Config
from spikelm.store.atomic import plain
from spikelm.store.hashing import digest

SCHEMA: Literal[2] = 2  # raise when a reader of the old record could not read the new one
#: the metric that table 3 prints for a GLUE task, where it is not the task's first one
PRINTED = {"mrpc": "f1", "qqp": "f1", "stsb": "spearman"}
#: number formats whose energy is modelled
PRECISIONS = ("fp32", "fp16")

Extent = Literal["fully", "partly", "none"]
Metrics = dict[str, float | None]  # null where the metric is not a number, as a correlation with a constant
Rates = dict[str, float]  # site -> share of its values that fire


def _typed_config(value: Config | Mapping[str, Any]) -> Config:
    if isinstance(value, Config):
        return value
    try:
        return from_record(value)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"is not a config of this version: {error}") from error


def _recorded_config(config: Config) -> Any:
    return plain(to_record(config))


RecordedConfig = Annotated[
    Config,
    PlainValidator(_typed_config),
    PlainSerializer(_recorded_config),
    WithJsonSchema({"type": "object", "title": "Config"}),
]


class ResultPart(BaseModel):
    """A part of result.json: nothing is missing, nothing is unknown, and nothing changes after it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Source(ResultPart):
    """The data of a run."""

    name: str = Field(description="embedded, local (files of one's own) or hub")
    rows: dict[str, int] = Field(description="rows (documents, of pretraining) of each split that were used")
    content_hash: str = Field(description="sha256 of the rows themselves")
    commits: dict[str, str] = Field(default={}, description="of the hub's repositories that were read, where known")
    available: dict[str, int] = Field(default={}, description="rows of the splits of which only the first were used")


class EnergyMj(ResultPart):
    """Modelled energy of one inference by the paper's rule, in millijoules; null where none is claimed (low bits)."""

    fp32: float | None
    fp16: float | None

    def items(self) -> Iterator[tuple[str, float | None]]:
        """Number format and energy."""
        return ((precision, getattr(self, precision)) for precision in PRECISIONS)


class FiringRate(ResultPart):
    """Shares of values that fire, measured on the run's own samples without dropout."""

    mean: float | None = Field(description="weighted by the MACs that each site feeds; null where nothing fires")
    per_site: Rates
    initial_per_site: Rates = Field(default={}, description="the same before training")
    virtual_steps: int | None = Field(
        default=None, description="the most virtual steps that a neuron took inside a time step; null where not counted"
    )

    @property
    def unfolds(self) -> bool:
        """Whether a value may take several spikes: then the rates are spikes a value."""
        return (self.virtual_steps or 1) > 1

    @property
    def mean_over_sites(self) -> float | None:
        """Every site counts once; None where there are none."""
        return fmean(self.per_site.values()) if self.per_site else None

    @property
    def initial_mean_over_sites(self) -> float | None:
        """The same before training."""
        return fmean(self.initial_per_site.values()) if self.initial_per_site else None


class OperatorUse(ResultPart):
    """Something that a model computes besides matrix multiplications: softmax, norms, activations."""

    name: str
    part: Literal["encoder", "outside"] = Field(description="inside the encoder (and decoder), or outside")
    arithmetic: Literal["real-valued", "partly", "shifts and additions"] = Field(
        description="what it needs at inference; partly: shifts and additions, with some real multiplications"
    )
    does: str = Field(description="the same in a few words")
    modules: list[str] = Field(description="that use it, with * for the number of a layer")


class SpikeDriven(ResultPart):
    """What the audit saw: which matrix multiplications of a real forward pass read spikes."""

    verdict: Extent = Field(description="whether all, some or none of the encoder's (and decoder's) matmuls do")
    operations: Literal["ACs", "MACs"] = Field(description="additions alone, or multiplications too (table 1)")
    spike_driven: bool = Field(description="whether the verdict is `fully`")
    real_valued: list[str] = Field(description="modules with a real-valued matmul")
    silent: list[str] = Field(description="modules whose spikes never fired")
    decoding: Extent | None = Field(default=None, description="the verdict while texts are generated from the cache")
    operators: list[OperatorUse] | None = Field(
        default=None,
        description="what is computed besides matmuls, no part of the verdict; null in records from before it was kept",
    )


class Bits(ResultPart):
    """Bits as table 4 counts them: a number, or ter for ternary values."""

    weights: int | float | str
    activations: int | float | str


class Lengths(ResultPart):
    """Tokens of the source and of the target that the energy of a teacher-forced inference is counted for."""

    source: int
    target: int


class Generated(ResultPart):
    """Energy of the texts that were really generated, on average, in millijoules fp32."""

    fp32: float
    ann_fp32: float = Field(description="of the ANN on the same lengths")
    beams: int
    mean_source: float = Field(description="tokens read")
    mean_target: float = Field(description="tokens written")
    firing_rate_per_site: Rates = Field(description="while generating; empty where nothing fires")


class EnergyDetail(ResultPart):
    """What a task with texts to generate has beside `energy_mj`."""

    lengths: Lengths
    generated: Generated
    lm_head_fp32: float = Field(description="of the LM head, real-valued, which `energy_mj` leaves out")


class TokenEnergy(ResultPart):
    """What a decoder has beside `energy_mj`: the mean energy of a token, in millijoules fp32."""

    tokens: int = Field(description="read one by one, over which the mean is taken")
    fp32: float | None = Field(description="null where none is claimed, as of a low-bit model")
    ann_fp32: float = Field(description="of the ANN")
    lm_head_fp32: float = Field(description="of the LM head, real-valued, which the others leave out")


class Sample(ResultPart):
    """A generated text."""

    source: str
    reference: str
    generated: str


class Weights(ResultPart):
    """The public weights that a run started from."""

    path: str
    sha256: str
    commit: str | None = Field(default=None, description="of the hub that the path stood for, where known")


class BlockError(ResultPart):
    """The hidden state that leaves a block of a converted model, beside the plain model's on the same rows."""

    name: str
    cosine: float | None = Field(description="of all values together; null where one side is zero")
    relative_error: float | None = Field(description="|converted - plain| / |plain|")


class SiteError(ResultPart):
    """What a neuron of a converted model gives, beside what it reads."""

    site: str
    cosine: float | None = Field(description="of all values together; null where one side is zero")
    relative_error: float | None = Field(description="|given - read| / |read|")
    saturated: float | None = Field(description="share of the values beyond what it can give; null: it has no end")


class Settled(ResultPart):
    """The network over time that a model of ST-BIF neurons stands for, in double precision."""

    steps: int = Field(description="in which some neuron fired")
    settled: bool = Field(description="whether a step without a spike was reached")
    spikes_per_value: float = Field(description="that happened, corrections included")
    levels_per_value: float = Field(description="spikes that are left when opposite ones are taken from each other")
    differing: int = Field(description="values whose level is not that of the quantised network")
    difference: float = Field(description="the largest of the output, to that of the quantised network")

    @property
    def sentence(self) -> str:
        """In words."""
        if not self.settled:
            return f"not settled after {self.steps} steps; the output differs by {self.difference:.2g}"
        if not self.differing:
            within = f"within {self.difference:.2g}" if self.difference else "to the last digit"
            return f"settled after {self.steps} steps; equal to the quantised network {within}"
        values = "1 value is" if self.differing == 1 else f"{self.differing} values are"
        return (
            f"settled after {self.steps} steps; {values} on another level, the output differs by {self.difference:.2g}"
        )


class Conversion(ResultPart):
    """A conversion without training: how it was made, and what it lost."""

    batches: int = Field(description="of training rows that set the amplitudes; 0 where data sets none")
    rows: int = Field(description="in these batches")
    rotation: str = Field(description="in front of the neurons: none or hadamard")
    rotation_additions: int = Field(description="at run time, for one token in all blocks; no part of energy_mj")
    plain_metrics: Metrics = Field(default={}, description="scores of the plain model, before the conversion")
    blocks: list[BlockError]
    sites: list[SiteError]
    settled: Settled | None = Field(default=None, description="of ST-BIF neurons, where it was asked for")


class TrainedOn(ResultPart):
    """What a run was trained on, and how; another answer may change the last digits."""

    device: str = Field(description="name of the GPU, or cpu")
    devices: int = Field(description="that shared each batch")
    micro_batch: int | None = Field(description="rows computed at a time on one device; null: all of its rows")
    activation_checkpointing: bool = Field(description="whether activations were computed again instead of kept")
    compiled: str = Field(description="what torch.compile made: off, neurons or model")


class CardLine(ResultPart):
    """What one estimator makes of the counts of a card: modelled millijoules an inference, for three networks."""

    estimator: str
    arithmetic: str
    network: float
    plain: float = Field(description="of the plain model of its size")
    twin: float = Field(description="of its quantised twin, with as many levels as its spikes add up to")
    break_even: float | None = Field(description="spikes a value and time step at which it costs what its twin costs")
    cheaper: Literal["", "below", "always", "never"] = Field(description="than its twin; empty where nothing fires")

    @property
    def key(self) -> str:
        """Its name as a column of tables and on W&B."""
        return f"{self.estimator}_{self.arithmetic}".replace("-", "_")

    @property
    def sentence(self) -> str:
        """The break-even in words."""
        return Estimate(**dict(self)).sentence


class EnergyCard(ResultPart):
    """What was counted while the first measurement samples ran, and what estimators of energy make of it."""

    rows: int = Field(description="inputs that ran; all counts are their sums")
    passes: int = Field(description="batches in which they ran")
    time_steps: int
    parameters: int
    footprint: int = Field(description="bytes of parameters and buffers")
    looked_up: int = Field(description="values of embeddings that were read")
    products: list[str] = Field(description="matrix products, one a line with commas; the first line names the columns")
    neurons: list[str] = Field(description="neurons by site, in the same way")
    operators: list[str] = Field(description="what is computed besides, in the same way")
    modelled: list[CardLine]

    @classmethod
    def of(cls, counts: ModelCounts) -> EnergyCard:
        """The record of counts, with what the estimators say of them."""
        return cls(
            rows=counts.rows,
            passes=counts.passes,
            time_steps=counts.T,
            parameters=counts.parameters,
            footprint=counts.footprint,
            looked_up=counts.looked_up,
            products=to_lines(counts.products),
            neurons=to_lines(counts.neurons),
            operators=to_lines(counts.operators),
            modelled=[CardLine(**asdict(one)) for one in estimates(counts)],
        )

    @property
    def counts(self) -> ModelCounts:
        """The counts again."""
        products = from_lines(ProductCount, self.products)
        return ModelCounts(
            rows=self.rows,
            passes=self.passes,
            T=self.time_steps,
            products=products,
            neurons=from_lines(NeuronCount, self.neurons),
            operators=from_lines(OperatorCount, self.operators),
            looked_up=self.looked_up,
            spiking=any(one.spike_driven for one in products),
            weights=sum({one.module: one.weights for one in products}.values()),
            parameters=self.parameters,
            footprint=self.footprint,
        )


class Result(ResultPart):
    """A finished run, written last and atomically. What does not apply is null or empty."""

    model_config = ConfigDict(title="result.json of spikelm", serialize_by_alias=True)

    version: Literal[2] = Field(default=SCHEMA, alias="schema", description="version of this schema")
    run_id: str = Field(pattern="^[0-9a-f]{16}$", description="hash of everything that decides the result")
    status: Literal["finished"] = "finished"
    finished_at: str = Field(description="time in ISO 8601, UTC")
    task: str
    system: str = Field(description="name of the table row, or a label made of the settings")
    scale: str
    recipe: str = Field(description="paper, as_released or laptop (conf/recipe); empty: the scale's own")
    seed: int
    select: str = Field(description="which evaluation is reported: last, best_dev or released")
    source: Source
    metrics: Metrics = Field(description="scores on the evaluated splits, in percent where they are shares")
    constant_predictor: Metrics = Field(description="the same metrics of the best constant answer")
    energy_mj: EnergyMj
    energy_ann_mj: EnergyMj = Field(description="of the ANN of the same size")
    energy_detail: EnergyDetail | None = None
    energy_token: TokenEnergy | None = None
    energy_card: EnergyCard | None = Field(
        default=None, description="null in records from before it was kept, and where nothing was run to be measured"
    )
    firing_rate: FiringRate
    spike_driven: SpikeDriven
    bits: Bits
    parameters: int
    steps: int = Field(description="optimiser steps")
    threads: int = Field(description="threads of torch; another number may change the last digits")
    trained_on: TrainedOn | None = Field(default=None, description="null in records from before it was kept")
    seconds: float
    peak_memory_mb: float
    pretrained: str | None = Field(description="id of the run whose weights it started from")
    teacher: str | None = Field(description="id of the run that it imitated")
    teacher_metrics: Metrics
    converted: str | None = Field(default=None, description="id of the conversion that it started from")
    conversion: Conversion | None = Field(default=None, description="of a run that is a conversion without training")
    weights: Weights | None = None
    samples: list[Sample] = Field(default=[], description="the first generated texts")
    metric_notes: dict[str, str] = Field(default={}, description="versions and settings of text metrics")
    git_commit: str | None
    versions: dict[str, str] = Field(description="of the libraries that decide digits")
    config: RecordedConfig = Field(description="the whole config, as composed")
    files: dict[str, str] = Field(description="sha256 of the other files of the run, by path")
    checksum: str = Field(default="", description="sha256 of all the rest as canonical JSON")

    @property
    def score_name(self) -> str:
        """The metric that table 3 prints for the task; empty where there are no metrics."""
        printed = PRINTED.get(self.task.removeprefix("glue/"), "")
        return printed if printed in self.metrics else next(iter(self.metrics), "")

    @property
    def score(self) -> float | None:
        """The number that stands for the run: the one that table 3 prints for its task."""
        return self.metrics.get(self.score_name)

    @property
    def first_metric(self) -> str:
        """The first metric of the task with its value, for lists."""
        name, value = next(iter(self.metrics.items()))
        return f"{name} {number_text(value)}"

    @property
    def spikes(self) -> bool:
        """Whether something fires, so that rates and the energy of additions mean something."""
        return self.firing_rate.mean is not None

    @property
    def energy_of_ann(self) -> float | None:
        """Its energy as a share of the ANN's, in fp32."""
        ours, ann = self.energy_mj.fp32, self.energy_ann_mj.fp32
        return ours / ann if ours is not None and ann else None

    @property
    def needs(self) -> dict[str, str]:
        """The runs that it was made from, by role."""
        ids = {"pretrained": self.pretrained, "converted": self.converted, "teacher": self.teacher}
        return {role: id for role, id in ids.items() if id}

    def to_record(self) -> dict[str, Any]:
        """What result.json holds, with the checksum of all the rest."""
        body = self.model_dump(mode="json", exclude={"checksum"})
        return {**body, "checksum": digest(body)}


def number_text(value: float | None) -> str:
    """A score with two digits."""
    return "not a number" if value is None else f"{value:.2f}"


def read_result(record: Mapping[str, Any]) -> Result:
    """A result from what result.json holds; raises ValueError saying what is wrong with it."""
    body = {key: value for key, value in record.items() if key != "checksum"}
    if digest(body) != record.get("checksum"):
        raise ValueError("does not match its checksum")
    try:
        return Result.model_validate(record)
    except ValidationError as error:
        raise ValueError(f"is not a result of this version: {problems(error)}") from error


def problems(error: ValidationError) -> str:
    """Every field that is wrong, by name."""
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())


def json_schema() -> str:
    """The published schema, as text."""
    return json.dumps(Result.model_json_schema(by_alias=True), indent=2) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
