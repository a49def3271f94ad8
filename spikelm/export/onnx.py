"""Exported classifiers as ONNX files, and whether a runtime computes from the file what torch computes.

torch.onnx writes the graph, of operators of the standard alone. In int8 the product of a linear is MatMulInteger.
onnxruntime has a quick one for bytes without a sign on the left: so n + z is what is multiplied, z the largest n there
is, and the operator takes the zero point z off again. All of it is exact.

Three checks, because spikes jump (see compare.py):

    the graph     in double precision, by the operators' own definitions (onnx.reference), it gives the model's logits
    the file      it is that graph, its constants rounded to single precision
    the runtime   it is not further from double precision than torch is in single precision
"""

from __future__ import annotations

import copy
import logging
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from spikelm.data.batches.by_step import Batch
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.export.compare import INPUTS, logits_of
from spikelm.export.exported_model import ExportedBertForSequenceClassification
from spikelm.neurons.amplitude import AmplitudeNeuron
from spikelm.neurons.unfolding.coded import CodedNeuron
from spikelm.spiking import neurons

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
OPSET = 20  # the first with GELU
#: of logits in double precision; torch.onnx writes scalars, such as 1/13, in single precision whatever their type
EXACT = 1e-6
REFERENCE_ROWS = 2  # of the check in double precision: onnx.reference is not made for speed
CONTROL_ROWS = 256  # of the check of the runtime
FAR = 1e-3  # of the largest logit: a row that is further off has lost or won a spike
MANY_SIGMA = 4.0


@dataclass(frozen=True)
class Rounding:
    """How far a row's logits are from double precision, in torch and in the runtime, both in single precision."""

    rows: int
    median_torch: float
    median_runtime: float
    moved_torch: int  # rows further off than FAR
    moved_runtime: int


@dataclass(frozen=True)
class Graph:
    """What is in a file, and how exact it is."""

    opset: int
    operators: dict[str, int]  # how many nodes there are of each
    onnxruntime: str  # the version that computed the figures below
    double_precision_difference: float  # of logits, the graph's from the exported model's
    rounding: Rounding


def need_packages() -> None:
    """Raise where a package that ONNX needs is missing or broken."""
    for name in PACKAGES:
        try:
            import_module(name)
        except ImportError as error:
            raise ConfigError(
                f"format=onnx needs the package {name}, which cannot be imported: {error}",
                'pip install "spikelm[onnx]"',
            ) from error


class _Logits(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.model(
            input_ids=input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask
        ).logits
        return logits


def largest_number(trained: Any) -> int:
    """The largest magnitude among the whole numbers that linears read as bytes; 1 where they read spikes."""
    codes = (neuron.rule for neuron in neurons(trained) if isinstance(neuron, CodedNeuron) and neuron.whole)
    return max((rule.largest for rule in codes if rule.dtype == torch.int8), default=1)


def onnx_model(model: Any, largest: int = 1) -> Any:
    """An exported classifier as a graph (an onnx.ModelProto) whose batch and length are free."""
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    # one tensor each: what is the same object here would be the same input for ever
    example = {name: torch.ones(2, 3, dtype=torch.long) for name in INPUTS}
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    for neuron in model.modules():
        if isinstance(neuron, AmplitudeNeuron):
            assert neuron.ready, "no graph can ask a tensor whether it is"
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                _Logits(model),
                kwargs=example,
                dynamic_shapes=dict.fromkeys(INPUTS, axes),
                output_names=["logits"],
                opset_version=OPSET,
                custom_translation_table=_translations(largest),
                dynamo=True,
                verbose=False,
            )
    finally:
        log.setLevel(before)
    assert program is not None, "it writes no file"
    ClearMetadataAndDocStringPass()(program.model)  # it has the paths of our source
    return program.model_proto


def _translations(largest: int) -> dict[Any, Any]:
    """What torch.onnx cannot write; |n| <= largest for whole numbers n that linears read."""
    import numpy as np
    import onnx_ir
    import onnxscript

    operators: Any = onnxscript.opset20

    def product(numbers: Any, weight: Any) -> Any:
        cast = numbers.producer()
        if cast is None or cast.op_type != "Cast":
            raise TypeError("the bytes of _int_mm are no floats that were cast")
        zero = operators.Constant(value=onnx_ir.tensor(np.array(largest, dtype=np.uint8)))
        unsigned = operators.Cast(operators.Add(cast.inputs[0], float(largest)), to=onnx_ir.DataType.UINT8)
        return operators.MatMulInteger(unsigned, weight, zero)

    def signbit(x: Any) -> Any:  # of copysign; a zero has no size that a sign could matter to
        return operators.Less(x, operators.CastLike(operators.Constant(value_float=0.0), x))

    return {torch.ops.aten._int_mm.default: product, torch.ops.prims.signbit.default: signbit}


def onnx_file(folder: Path) -> Path:
    """Where a folder has its graph."""
    return folder / "model.onnx"


class OnnxClassifier:
    """A file in onnxruntime, called as a model of transformers is."""

    def __init__(self, file: Path, threads: int = 0) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or torch.get_num_threads()
        self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def __call__(self, **inputs: Tensor) -> SequenceClassifierOutput:
        (logits,) = self.session.run(None, {name: value.numpy() for name, value in inputs.items()})
        return SequenceClassifierOutput(logits=torch.from_numpy(logits))  # type: ignore[arg-type]


def save_onnx(model: Any, largest: int, batches: Sequence[Batch], out: Path) -> Graph:
    """Write an exported model's config and graph into a folder, and check what was written."""
    import onnx
    import onnxruntime

    if not isinstance(model, ExportedBertForSequenceClassification):
        raise ConfigError(
            f"{type(model).__name__.removeprefix('Merged')} with these neurons or weights cannot be written as ONNX",
            "format=torch, or a classifier of BERT or RoBERTa with full weights",
        )
    out.mkdir(parents=True, exist_ok=True)
    if left := sorted(path.name for path in out.glob("*.safetensors")):
        raise ConfigError(f"{out} has another export in it: {left[0]}", "--out FOLDER, or remove it")
    file = onnx_file(out)
    written = onnx_model(model, largest)
    onnx.save(written, file)
    model.config.save_pretrained(out)
    onnx.checker.check_model(file, full_check=True)
    exact = copy.deepcopy(model).double()
    difference = check_graph(exact, onnx_model(exact, largest), onnx.load(file), batches[-1])
    control = batches[: max(1, CONTROL_ROWS // len(batches[0]["input_ids"]))]
    computed = [logits_of(each, control) for each in (exact, model, OnnxClassifier(file))]
    return Graph(
        opset=next(each.version for each in written.opset_import if each.domain in ("", "ai.onnx")),
        operators=dict(sorted(Counter(node.op_type for node in written.graph.node).items())),
        onnxruntime=onnxruntime.__version__,
        double_precision_difference=difference,
        rounding=check_runtime(*computed),
    )


def check_graph(exact: Any, graph: Any, written: Any, batch: Batch) -> float:
    """The largest difference of logits in double precision; raises where it, or the file, is another model."""
    from onnx.reference import ReferenceEvaluator

    rows = {name: batch[name][:REFERENCE_ROWS] for name in INPUTS}
    (found,) = ReferenceEvaluator(graph, new_ops=[_erf()]).run(None, {name: row.numpy() for name, row in rows.items()})
    difference = float((logits_of(exact, [rows]) - torch.from_numpy(found)).abs().max())
    if not difference <= EXACT:
        raise SpikeLMError(
            f"the ONNX graph is another model: its logits differ by {difference:.1e} in double precision",
            "please report it with the run's config.yaml",
        )
    if other := _other_part(graph.graph, written.graph):
        raise SpikeLMError(f"the file is not the graph that was checked: {other} differs", "export the run again")
    return difference


def _erf() -> type:
    """The error function in the type of its input: onnx.reference has it in single precision."""
    from onnx.reference.op_run import OpRun

    class Erf(OpRun):
        op_domain = ""

        def _run(self, x: Any) -> tuple[Any]:
            return (torch.special.erf(torch.from_numpy(x)).numpy(),)

    return Erf


def _other_part(exact: Any, written: Any) -> str:
    """The first operator or constant that two graphs do not share, but for its rounding; empty where there is none."""
    from onnx.numpy_helper import to_array

    constants = [{each.name: to_array(each) for each in graph.initializer} for graph in (exact, written)]
    same = {each.name: each.name for each in exact.input}  # names of values, which the exporter numbers
    if len(exact.node) != len(written.node):
        return "the number of operators"
    for ours, theirs in zip(exact.node, written.node, strict=True):
        settings = [list(node.attribute) for node in (ours, theirs) if node.op_type != "Cast"]  # to which type
        if ours.op_type != theirs.op_type or len(ours.input) != len(theirs.input) or settings[:1] != settings[1:]:
            return f"operator {ours.output[0]}"
        for name, found in zip(ours.input, theirs.input, strict=True):
            if name in constants[0]:
                value, rounded = constants[0][name], constants[1].get(found)
                if rounded is None or not _is_rounded(value, rounded):
                    return f"constant {name}"
            elif name and same.get(name) != found:
                return f"what operator {ours.output[0]} reads"
        same.update(zip(ours.output, theirs.output, strict=True))
    return ""


def _is_rounded(value: Any, rounded: Any) -> bool:
    """Whether an array is another one in its own type; the lowest numbers of both are equal, and the smallest and 0."""
    import numpy as np

    if value.shape != rounded.shape or value.dtype.kind != "f":
        return value.shape == rounded.shape and bool((value == rounded).all())
    limits = np.finfo(rounded.dtype)
    value = np.where(value == np.finfo(value.dtype).min, limits.min, value).astype(rounded.dtype)
    return bool(((value == rounded) | ((value == 0) & (rounded == limits.tiny))).all())


def check_runtime(exact: Tensor, single: Tensor, runtime: Tensor) -> Rounding:
    """Both logits of single precision (rows, labels) against double precision; raises where rounding is not the reason.

    Two correct programs round in different places and lose different spikes, about as many. So the runtime's typical
    row may be ten times as far off as torch's, and twice as many rows may have moved, beside what chance allows.
    """
    far = FAR * float(exact.abs().max())
    rows = [(logits.double() - exact).abs().amax(1) for logits in (single, runtime)]
    medians = [float(each.median()) for each in rows]
    moved = [int((~(each <= far)).sum()) for each in rows]
    found = Rounding(len(exact), medians[0], medians[1], moved[0], moved[1])
    usual = medians[1] <= 10 * medians[0] + far / 100
    chance = MANY_SIGMA * math.sqrt(moved[1] + 4 * moved[0])
    if not usual or moved[1] - 2 * moved[0] > chance:
        raise SpikeLMError(
            f"onnxruntime does not compute this model: in the median row its logits are {medians[1]:.1e} from double "
            f"precision, torch's {medians[0]:.1e}, and {moved[1]} of {len(exact)} rows are far off, torch's {moved[0]}",
            "please report it with the run's config.yaml and the processor's name",
        )
    return found
