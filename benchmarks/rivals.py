"""Plain BERT classifiers as others make them for a processor: by torch's dynamic int8, and by onnxruntime."""

from __future__ import annotations

import argparse
import copy
import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertForSequenceClassification

from benchmarks.step import bert_config

FLOAT = 1  # of onnx.TensorProto, for tensors whose type is not written down
OPSET = 17


def dynamic_int8(model: nn.Module) -> nn.Module:
    """Torch's own: weights in int8 beforehand, activations at each call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao is to move to another package
        return torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)


class _Logits(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def has_onnxruntime() -> bool:
    """Whether onnxruntime is there, and what writes and reads its files."""
    return all(importlib.util.find_spec(name) for name in ("onnxruntime", "onnx"))


def onnx_files(model: Any, args: argparse.Namespace, ids: Tensor, folder: Path) -> dict[str, Path]:
    """A plain BERT by onnxruntime's own tools: attention, GELU and norms fused; in float32 and in int8."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer

    eager = BertForSequenceClassification(bert_config(args)).eval()  # the attention that its fusion knows
    eager.set_attn_implementation("eager")
    eager.load_state_dict(model.state_dict())
    written = {name: folder / f"{name}.onnx" for name in ("whole", "fp32", "int8")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = (ids, torch.ones_like(ids))
        names = ["input_ids", "attention_mask"]
        axes = {name: {0: "batch", 1: "length"} for name in names}
        torch.onnx.export(
            _Logits(eager), inputs, str(written["whole"]), dynamo=False, opset_version=OPSET,
            input_names=names, dynamic_axes=axes,
        )  # fmt: skip
    heads, hidden = eager.config.num_attention_heads, eager.config.hidden_size
    made = optimizer.optimize_model(str(written["whole"]), "bert", num_heads=heads, hidden_size=hidden, opt_level=1)
    made.save_model_to_file(str(written["fp32"]))
    quantize_dynamic(
        written["fp32"], written["int8"], weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": FLOAT}
    )
    return {"fp32": written["fp32"], "int8": written["int8"]}


def session(model: Path | bytes, threads: int) -> Any:
    """A file, or what would be in it, in onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def onnx_forward(file: Path, ids: Tensor, threads: int) -> Callable[[], Any]:
    """A forward of such a file."""
    opened = session(file, threads)
    values = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    inputs = {each.name: values[each.name].numpy() for each in opened.get_inputs()}
    return lambda: opened.run(None, inputs)
