"""Event-driven linears: the digits of int8 on every path, whatever fires; and what is done without a compiler."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForSequenceClassification

from spikelm.errors import ConfigError
from spikelm.export.convert import export
from spikelm.export.event import attention
from spikelm.export.event import library as compiled
from spikelm.export.event import linear as event
from spikelm.export.event.attention import dense_attention, spiking_attention
from spikelm.export.event.library import VARIABLE, built, library, path_in_use, paths, run, tile_commands
from spikelm.export.event.linear import EventLinear
from spikelm.export.linears import SpikeLinear
from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.kernels.inference import levels
from tests.export.test_export import CODES, NEURONS, inputs, trained

HERE = Path(__file__).parent
RULES = {
    "round": ClipRule(True, "round", 0.0, True, False),
    "above": ClipRule(True, "above", 0.0, True, False),
    "reach": ClipRule(False, "reach", 0.0, True, False),
    "round, no negative": ClipRule(False, "round", 0.0, True, False),
}
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


@pytest.fixture
def fresh() -> Iterator[None]:
    """As in a process that has not compiled or loaded anything yet."""
    caches = (compiled.library, compiled.paths, compiled.crossing)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def same_path(monkeypatch: pytest.MonkeyPatch, path: str, dense_from: float = 1.0) -> None:
    monkeypatch.setenv(VARIABLE, path)
    monkeypatch.setattr(event, "crossing", lambda path: dense_from)


def filled(inputs: int, outputs: int, heights: list[float], top: int = 1) -> tuple[EventLinear, SpikeLinear]:
    """An event-driven linear and the dense one with the same weights."""
    ours, dense = EventLinear(inputs, outputs, len(heights), top), SpikeLinear(inputs, outputs, len(heights), "int8")
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    for linear in (ours, dense):
        linear.take(weight, bias, torch.tensor(heights))
    assert library() is not None
    return ours, dense


@needs_compiler
@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    rows=st.integers(1, 40),
    inputs=st.sampled_from([2, 3, 16, 31, 33, 63, 64, 65, 200, 768, 769, 1601]),
    outputs=st.sampled_from([1, 7, 63, 64, 65, 130]),
    T=st.integers(1, 3),
    rule=st.sampled_from(list(RULES)),
    dense_from=st.sampled_from([1.0, 0.3, 0.0]),
    seed=st.integers(0, 1000),
)
def test_spikes_through_events_are_the_int8_product_on_every_path(
    data: Any, rows: int, inputs: int, outputs: int, T: int, rule: str, dense_from: float, seed: int
) -> None:
    torch.manual_seed(seed)
    ours, dense = filled(inputs, outputs, [0.7, 0.2, 1.9][:T])
    share = data.draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))  # silent rows, rows that all fire, and others
    threshold = torch.rand(T, 1, 1) + 0.1
    x = threshold * torch.where(torch.rand(T, rows, inputs) < share, 3.0, 0.1) * torch.randn(T, rows, inputs).sign()
    x[:, 0] = threshold[:, 0] / 2  # a row on the threshold
    x[:, -1] = threshold[:, 0]
    residual = torch.randn(T, rows, outputs) if data.draw(st.booleans()) else None
    wanted = dense(levels(x, threshold, RULES[rule]), None, residual)
    for path in paths():
        with pytest.MonkeyPatch.context() as patch:
            same_path(patch, path, dense_from)
            assert torch.equal(ours.fired(x, threshold, RULES[rule], residual), wanted), path


@needs_compiler
@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 20),
    inputs=st.sampled_from([2, 33, 64, 500, 800]),
    outputs=st.sampled_from([3, 64, 70]),
    top=st.sampled_from([1, 4, 13, 16, 17, 40, 127]),
    tokens=st.booleans(),
    scarce=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_numbers_through_events_are_the_int8_product_on_every_path(
    rows: int, inputs: int, outputs: int, top: int, tokens: bool, scarce: float, seed: int
) -> None:
    torch.manual_seed(seed)
    ours, dense = filled(inputs, outputs, [1.0], top)
    n = torch.randint(-top, top + 1, (2, rows, inputs)).float() * (torch.rand(2, rows, inputs) < scarce)
    step = torch.rand(2, rows if tokens else 1, 1)
    wanted = dense(n, step)
    for path in paths():
        with pytest.MonkeyPatch.context() as patch:
            same_path(patch, path)
            assert torch.equal(ours(n, step), wanted), path


@needs_compiler
def test_sums_are_those_of_whole_numbers() -> None:
    """The int8 product above is torch's own: here the sums are counted in 64 bits."""
    torch.manual_seed(0)
    weight = torch.full((65, 3000), -127, dtype=torch.int8)
    weight[1:] = torch.randint(-128, 128, (64, 3000), dtype=torch.int8)
    x = torch.ones(1, 300, 3000)
    x[0, 1:] = torch.randint(-1, 2, (299, 3000)).float()
    one, zero = torch.ones(1, 65), torch.zeros(65)
    sums = x[0].long() @ weight.long().t()
    assert int(sums.min()) == -381000
    for path in paths():
        found = library().linear(x, None, 0, True, 1, library().pack(weight), weight, one, zero, None, None, 1.0, path)
        assert torch.equal(found[0].long(), sums), path


@needs_compiler
@pytest.mark.parametrize("rule", list(RULES))
def test_a_comparison_fires_where_the_division_does(rule: str) -> None:
    """Thresholds of all kinds, and the floats right beside the bounds: as inputs of a linear, and as a lone value."""
    steps = 4000
    threshold = torch.rand(steps, 1, 1) * 10 ** torch.randint(-6, 6, (steps, 1, 1)).float() + 1e-9
    near = [threshold * share for share in (0.5, 1.0, -0.5, -1.0)]
    beside = [torch.nextafter(x, torch.full_like(x, side)) for x in near for side in (-1e9, 1e9)]
    x, height = torch.cat([*near, *beside], dim=2), torch.rand(steps, 1, 1)
    width = x.shape[-1]
    qkv, wide = torch.cat([x, x, x], dim=2), (steps, 1, 2 * width)
    bounds, heights = threshold.expand(wide).contiguous(), height.expand(wide).contiguous()
    linear = EventLinear(width, width, 1)
    linear.take(torch.eye(width), torch.zeros(width), torch.ones(1))
    wanted = levels(x, threshold, RULES[rule])
    for path in paths():
        for dense_from in (1.0, 0.0):
            with pytest.MonkeyPatch.context() as patch:
                same_path(patch, path, dense_from)
                assert torch.equal(linear.fired(x, threshold, RULES[rule]), wanted)
                assert torch.equal(spiking_attention(qkv, None, 1, 1, bounds, heights, RULES[rule]), wanted * height)


@needs_compiler
@settings(max_examples=40, deadline=None)
@given(
    n=st.sampled_from([1, 5, 63, 64, 65, 130]),
    heads=st.integers(1, 3),
    width=st.sampled_from([1, 16, 33, 64, 65, 130]),
    batch=st.integers(1, 2),
    T=st.integers(1, 2),
    rule=st.sampled_from(list(RULES)),
    masked=st.booleans(),
    loud=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 1000),
)
def test_attention_over_spikes_is_attention_and_the_same_on_every_path(
    n: int, heads: int, width: int, batch: int, T: int, rule: str, masked: bool, loud: float, seed: int
) -> None:
    torch.manual_seed(seed)
    hidden = heads * width
    qkv = torch.randn(T, batch * n, 3 * hidden)
    qkv[..., :hidden] *= loud  # up to scores where one key has all
    threshold, height = (
        torch.cat([given[..., :1].expand(-1, -1, hidden), given[..., 1:].expand(-1, -1, hidden)], dim=2)
        for given in (torch.rand(T, 1, 2) * 3, torch.rand(T, 1, 2))
    )
    mask = torch.rand(T * batch, 1, 1, n) < 0.6 if masked else None  # at times no key at all
    kv = levels(qkv[..., hidden:].double(), threshold.double(), RULES[rule]) * height
    wanted = dense_attention(qkv.double(), kv.chunk(2, dim=-1), mask, batch, heads)
    found = []
    for path in paths():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, path)
            found.append(spiking_attention(qkv, mask, batch, heads, threshold, height, RULES[rule]))
        assert torch.equal(found[-1], found[0]), path
    torch.testing.assert_close(found[0].double(), wanted, rtol=1e-4, atol=2e-5)


@needs_compiler
def test_an_int8_model_has_nearly_the_logits_of_torchs_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = export(trained(NEURONS["bispike"], 1).float(), "int8"), inputs()
    found = model(**batch).logits
    monkeypatch.setattr(attention, "reads", lambda x: False)
    torch.testing.assert_close(model(**batch).logits, found)


@needs_compiler
@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("name", [*NEURONS, *(name for name in CODES if name not in ("phase", "dynamic"))])
def test_an_event_driven_model_has_the_logits_of_int8(name: str, T: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained({**NEURONS, **CODES}[name], T).float()
    batch = inputs()
    wanted = export(model, "int8")(**batch).logits
    made = export(model, "event")
    for path in paths():
        same_path(monkeypatch, path)
        assert torch.equal(made(**batch).logits, wanted), path
    monkeypatch.setattr(event, "crossing", lambda path: 0.2)
    assert torch.equal(made(**batch).logits, wanted), "some dense, some not"


@needs_compiler
def test_an_event_driven_model_is_saved_and_loaded(tmp_path: Path) -> None:
    made = export(trained(NEURONS["bispike"], 1).float(), "event")
    made.save_pretrained(tmp_path)
    loaded: Any = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert isinstance(loaded.layers[0].qkv, EventLinear)
    batch = inputs()
    wanted = made(**batch).logits
    assert torch.equal(loaded(**batch).logits, wanted)
    loaded.layers[0].qkv.weight.neg_()  # the tiles are made anew
    assert not torch.equal(loaded(**batch).logits, wanted)


def test_other_floats_take_the_int8_way() -> None:
    model, batch = trained(NEURONS["bispike"], 1), inputs()
    assert model.dtype == torch.float64
    assert torch.equal(export(model, "event")(**batch).logits, export(model, "int8")(**batch).logits)


def test_without_a_compiler_both_are_torchs_int8_with_one_warning(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv(compiled.CACHE, str(tmp_path / "cache"))
    model = trained(NEURONS["bispike"], 1).float()
    batch = inputs()
    said = r"torch's own instead: a C\+\+ compiler .* is missing .*apt install g\+\+"
    with pytest.warns(UserWarning, match=said) as warned:
        found, wanted = (export(model, precision)(**batch).logits for precision in ("event", "int8"))
    assert len(warned) == 1
    assert torch.equal(found, wanted)


@needs_compiler
def test_a_damaged_cache_is_made_again(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.CACHE, str(tmp_path))
    calls = []

    def compile_anew(work: Path) -> Path:
        calls.append(work)
        made = work / "events.so"
        made.write_bytes(b"a library")
        return made

    monkeypatch.setattr(compiled, "_compile", compile_anew)
    file = built()
    assert built() == file
    assert len(calls) == 1, "the second time it is there"
    file.write_bytes(b"half a lib")
    assert built().read_bytes() == b"a library"
    file.with_suffix(".sha256").unlink()
    assert built().read_bytes() == b"a library"
    assert len(calls) == 3


def test_what_a_compiler_says_is_passed_on(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "g++"
    program.write_text("#!/bin/sh\ncase $* in *-E*) exit 0;; esac\necho 'x.cpp:1: error: too old' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    monkeypatch.setenv(compiled.CACHE, str(tmp_path / "cache"))
    with pytest.warns(UserWarning, match="too old"):
        assert library() is None


@needs_compiler
def test_a_path_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "neon")
    with pytest.raises(ConfigError, match="no such path"):
        path_in_use()


@needs_compiler
@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    """All paths in one program beside plain loops, with addresses and undefined behaviour watched."""
    watched = (
        *(flag for flag in compiled.TILES if flag != "-O3"),
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    )
    commands = tile_commands("g++", tmp_path, watched)
    for command in commands.values():
        run(command)
    fuzz, names = tmp_path / "fuzz", [f"-DHAS_{name.upper()}" for name in commands if name in (*paths(), "portable")]
    objects = [str(tmp_path / f"{name}.o") for name in commands]
    run(["g++", *watched, *names, f"-I{compiled.SOURCES}", str(HERE / "event_fuzz.cpp"), *objects, "-o", str(fuzz)])
    done = subprocess.run([fuzz], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "products" in done.stdout
    assert platform.machine() != "x86_64" or "avx2" in done.stdout or "avx2" not in paths()
