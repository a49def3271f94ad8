"""The structured config: one dataclass tree, composed by Hydra and checked before anything heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from omegaconf import OmegaConf

from spikelm.catalog.kinds import LM, UNLABELLED, Kind, kind_of
from spikelm.config.paths import default_runs_dir
from spikelm.config.settings.backbone import BackboneConfig, VariantConfig
from spikelm.config.settings.convert import ConvertConfig
from spikelm.config.settings.distill import DistillConfig
from spikelm.config.settings.fields import FINE_TUNING, GENERAL, NO_RUN, PRETRAINING, setting
from spikelm.config.settings.running import MeasureConfig, TrackerConfig, TrainerConfig
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.specs import AttentionSpec, NeuronSpec, NormSpec, OperatorSpec, QuantizerSpec
from spikelm.config.settings.stages import AmplitudeConfig, GeneralConfig, StageConfig, TeacherConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.rules import Rule


@dataclass
class SystemConfig:
    """A named row of a table: the name of its file, and what the paper calls it."""

    name: str = ""
    title: str = ""


@dataclass
class PreviousStudent:
    """A student that another one starts from or imitates: as that one, with these parts of its own."""

    neuron: NeuronSpec
    weights: QuantizerSpec
    variant: VariantConfig
    finetune: StageConfig
    attention: AttentionSpec = field(default_factory=AttentionSpec)
    norm: NormSpec = field(default_factory=NormSpec)


@dataclass
class Composed:
    """One run as Hydra composes it: neuron, quantiser and operators are open mappings, whose keys are their class's."""

    system: SystemConfig = setting(SystemConfig, decides=NO_RUN)
    scale: str = setting("mini", decides=NO_RUN)
    # paper | as_released, where the two disagree, or laptop: minutes on one core; empty: the scale's own
    recipe: str = setting("", Rule(choices=("", "paper", "as_released", "laptop")), NO_RUN)
    task: TaskConfig = setting(TaskConfig)
    backbone: BackboneConfig = setting(BackboneConfig)
    T: int = setting(1, Rule(whole=True, least=1))
    k: float = setting(2.0, Rule(above=0), NO_RUN)  # an argument of neurons that take it
    neuron: dict[str, Any] = setting({})
    weights: dict[str, Any] = setting({"name": "none"})
    attention: dict[str, Any] = setting({"name": "softmax"})
    norm: dict[str, Any] = setting({"name": "layernorm"})
    variant: VariantConfig = setting(VariantConfig)
    previous: dict[str, Any] = setting({})  # neuron, weights, operators, variant, finetune of a student before
    source: SourceConfig = setting(SourceConfig)
    seed: int = setting(42, Rule(whole=True, least=0))
    pretrain: StageConfig = setting(StageConfig)
    general: GeneralConfig = setting(GeneralConfig)
    finetune: StageConfig = setting(StageConfig)
    teacher: TeacherConfig = setting(TeacherConfig)
    distill: DistillConfig = setting(DistillConfig)
    convert: ConvertConfig = setting(ConvertConfig)
    select: str = setting("last", Rule(choices=("last", "best_dev", "released")), {FINE_TUNING})
    measure: MeasureConfig = setting(MeasureConfig)
    trainer: TrainerConfig = setting(TrainerConfig)
    tracker: TrackerConfig = setting(TrackerConfig, decides=NO_RUN)
    force: bool = setting(False, decides=NO_RUN)
    dry_run: bool = setting(False, decides=NO_RUN)  # say what would be done, and stop
    runs_dir: str = field(default_factory=default_runs_dir, metadata={"decides": NO_RUN})


@dataclass
class Config(Composed):
    """One run: task, neuron, backbone, source and how to train and measure it."""

    neuron: NeuronSpec = setting(NeuronSpec)  # type: ignore[assignment]
    weights: QuantizerSpec = setting(QuantizerSpec)  # type: ignore[assignment]
    attention: AttentionSpec = setting(AttentionSpec)  # type: ignore[assignment]
    norm: NormSpec = setting(NormSpec)  # type: ignore[assignment]
    previous: PreviousStudent | None = setting(None, decides=NO_RUN)  # type: ignore[assignment]

    @property
    def kind(self) -> Kind:
        """What its kind of backbone can be asked for."""
        return kind_of(self.backbone)

    @property
    def architecture(self) -> str:
        """What people call its plain model: BERT, mBART, MiniLM."""
        return self.backbone.title or self.kind.title

    @property
    def rows_from(self) -> str:
        """Where its rows or documents come from; a task with files of its own reads them, whatever the source."""
        source = "local" if self.task.files else self.source.name
        return f"{source}-tune" if self.source.tune and self.run == FINE_TUNING else source

    @property
    def run(self) -> str:
        """The kind of run it is, as fields name what they decide: pretraining, general distillation or fine-tuning."""
        return {"pretrain": PRETRAINING, "general": GENERAL}.get(self.task.kind, FINE_TUNING)

    @property
    def pretrains(self) -> bool:
        """Whether its weights come from a pretraining, not as they are from `backbone.path`.

        BiPFT is both: its pretraining starts from the public weights and imitates them.
        """
        given = self.backbone.path
        return not given or (given == self.backbone.public and self.converted and self.distill.pretrain)

    @property
    def skips_pretraining(self) -> bool:
        """Whether its task is trained without a pretrained run: running text, and text pairs of most kinds."""
        return self.task.kind == LM or (self.task.kind == "seq2seq" and not self.kind.starts)

    @property
    def distills(self) -> bool:
        """Whether the run is a fine-tuning whose `distill` says something; a plain model ignores it."""
        asked = self.distill.from_teacher or self.distill.start.weights != "pretrained"
        return self.converted and self.task.kind not in UNLABELLED and asked and not self.only_converts

    @property
    def only_converts(self) -> bool:
        """Whether the run is a conversion: the trained plain model with neurons in it, not trained any further."""
        return self.convert.mode == "only"

    @property
    def measures_weights(self) -> bool:
        """Whether the run trains nothing and takes its weights as they are; a conversion sets amplitudes at least."""
        return self.stage.steps == 0 and not self.only_converts

    @property
    def reads_training_rows(self) -> bool:
        """Whether it looks at the rows to train on; weights as they are do not, nor heights that no data sets."""
        trains = self.neuron.reads_data if self.only_converts else not self.measures_weights
        return self.source.tune or trains

    @property
    def starts_converted(self) -> bool:
        """Whether the run trains on from a conversion of its own task.

        One that starts from a general distillation does not: that distillation started from the conversion.
        """
        general = self.task.kind != "general" and self.distill.start.weights == "general"
        return self.convert.mode == "first" and not general

    @property
    def reads_distill(self) -> bool:
        """Whether the run reads `distill` at all."""
        if self.task.kind == "pretrain":
            return self.converted and self.distill.pretrain
        return self.task.kind == "general" or self.distills

    @property
    def unlabelled_rows(self) -> int:
        """Training rows of each GLUE task that general distillation reads beside its text."""
        return self.general.task_rows if self.task.kind == "general" else 0

    @property
    def stage(self) -> StageConfig:
        """The stage this run trains; that of a conversion has no steps, only the batches that set the amplitudes."""
        own = {"pretrain": self.pretrain, "general": self.general}.get(self.task.kind, self.finetune)
        if not self.only_converts:
            if own.steps == 0 and self.backbone.path:  # how it would have been trained says nothing
                return StageConfig(steps=0, max_length=self.task.window or own.max_length)
            return own
        stage = GeneralConfig(task_rows=own.task_rows) if isinstance(own, GeneralConfig) else StageConfig()
        amplitudes = AmplitudeConfig(calibrate=self.convert.batches)
        return replace(stage, steps=0, batch=self.convert.batch, max_length=own.max_length, amplitudes=amplitudes)

    @property
    def depth(self) -> int:
        """Layers of the model that this run trains."""
        kept = None if self.task.kind == "pretrain" else self.backbone.keep_layers
        return kept or self.backbone.layers

    @property
    def time_steps(self) -> int:
        """T for a spiking model, 1 for the ANN."""
        return self.T if self.spiking else 1

    @property
    def spiking(self) -> bool:
        """Whether there are neurons at the sites; those of a low-bit model round, but are no spikes (`fires`)."""
        return bool(self.neuron)

    @property
    def fires(self) -> bool:
        """Whether the neurons are spikes, so that firing rates and the energy of additions mean something."""
        return self.spiking and self.neuron.spikes

    @property
    def quantized(self) -> bool:
        """Whether the weights have few bits."""
        return bool(self.weights)

    @property
    def converted(self) -> bool:
        """Whether the model is anything but the plain one: a student, where there is a teacher."""
        return self.spiking or self.quantized or bool(self.operators)

    @property
    def operators(self) -> dict[str, OperatorSpec]:
        """The operators that are not as the model has them, by their group: attention, norm."""
        groups: dict[str, OperatorSpec] = {"attention": self.attention, "norm": self.norm}
        return {group: spec for group, spec in groups.items() if spec}

    @property
    def bits(self) -> dict[str, int | str]:
        """Bits of weights and activations as table 4 counts them: a number, or ter; a spike of {0, 1} has one."""
        return {
            "weights": self.weights.bits if self.quantized else 32,
            "activations": self.neuron.bits if self.spiking else 32,
        }


@lru_cache(maxsize=1)
def structured(runs_dir: str) -> Any:
    """The schema as OmegaConf has it, made once for a default store; not to be changed: a merge starts from a copy.

    An argument of a class (a neuron, quantiser or operator) may be set where its file leaves it out: the class says
    what it may be. The keys of a task's mappings are names of splits and columns.
    """
    schema: Any = OmegaConf.structured(Composed)
    classes = (schema.neuron, schema.weights, schema.attention, schema.norm)
    for mapping in (*classes, schema.task.splits, schema.task.official_rows, schema.task.file_columns):
        OmegaConf.set_struct(mapping, False)
    return schema
