from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from traces.attribution import layers
from traces.schema import COMPACT
from traces.store import gallery

CATEGORIES = {
    "n": "norm", "g": "gemm", "G": "gemm", "a": "attention", "e": "embedding", "s": "sampling",
    "u": "activation", "t": "elementwise", "c": "collective", "b": "norm", "S": "memset", "C": "memcpy",
}  # fmt: skip
NAMES = {"b": "layer_norm_bwd_kernel"}
KINDS = {"S": "memset", "C": "memcpy"}
LAYER = "ngatngugt"

Steps = list[tuple[str | None, int | None, str]]


def rows(steps: Steps, **columns: list[Any]) -> pa.Table:
    """A row a letter, in steps (phase, number, letters) one after another."""
    text = "".join(s for _, _, s in steps)
    known: dict[str, list[Any]] = {
        "kind": [KINDS.get(c, "kernel") for c in text],
        "name": [NAMES.get(c, f"kernel {c}") for c in text],
        "category": [CATEGORIES[c] for c in text],
        "backend": ["aten"] * len(text),
        "phase": [p for p, _, s in steps for _ in s],
        "step": [n for _, n, s in steps for _ in s],
        "rank": [None] * len(text),
        "device": [0] * len(text),
        "stream": [7] * len(text),
        "layer": [None] * len(text),
        **columns,
    }
    kinds = {f.name: pa.string() if pa.types.is_dictionary(f.type) else f.type for f in COMPACT}
    return pa.table({n: pa.array(v, kinds[n]) for n, v in known.items()})


def infer(steps: Steps, **columns: list[Any]) -> layers.Inferred:
    table = rows(steps, **columns)
    return layers.infer(table, np.ones(table.num_rows, dtype=bool))


def text(column: pa.Array) -> str:
    return "".join("-" if v is None else str(v) for v in column.to_pylist())


def blocks(*letters: str) -> str:
    """What is expected: `-` for letters outside of layers, the layer's number for those in the n-th part."""
    return "-" + "".join(str(i) * len(part) for i, part in enumerate(letters)) + "---"


STEP = "e" + LAYER * 4 + "ngs"
FOUND = blocks(*[LAYER] * 4)


def test_each_step_of_a_phase_gets_its_layers() -> None:
    made = infer([("prefill", 0, STEP.replace("g", "G")), ("decode", 0, STEP), ("decode", 1, STEP)])
    assert text(made.layer) == FOUND * 3
    assert made.layer.type == pa.int16()
    assert made.health == {"inferred": True, "count": 4, "phases": ["prefill", "decode"]}
    assert made.note == "layers: inferred from repeating kernels, not recorded: 4 in prefill, 4 in decode"


def test_phases_with_a_known_layer_are_left_alone() -> None:
    steps: Steps = [("prefill", 0, STEP), ("decode", 0, STEP)]
    made = infer(steps, layer=[None, 9, *[None] * (len(STEP) * 2 - 2)])
    assert text(made.layer) == "-9" + "-" * (len(STEP) - 2) + FOUND
    assert made.health
    assert made.health["phases"] == ["decode"]


def test_steps_that_differ_are_left_out_and_counted() -> None:
    cut = "e" + LAYER * 3 + "n"
    made = infer([("decode", i, STEP) for i in range(4)] + [("decode", 4, cut)])
    assert text(made.layer) == FOUND * 4 + "-" * len(cut)
    assert made.health == {"inferred": True, "count": 4, "phases": ["decode"], "steps_without": 1}
    assert made.note is not None
    assert made.note.endswith("; 1 steps differ and have none")


def test_steps_that_disagree_have_none() -> None:
    made = infer([("decode", i, "e" + LAYER * n + "ngs") for i, n in enumerate((4, 5, 6, 7))])
    assert (made.layer.null_count, made.health, made.note) == (len(made.layer), None, None)


def test_numbers_may_differ_between_phases_and_are_told() -> None:
    made = infer([("draft", 0, STEP), ("target", 0, "e" + LAYER * 6 + "ngs")])
    assert made.health == {
        "inferred": True, "count": 6, "phases": ["draft", "target"], "counts": {"draft": 4, "target": 6},
    }  # fmt: skip


def test_a_trace_without_phases_is_one_step() -> None:
    made = infer([(None, None, STEP * 5)])
    assert text(made.layer) == FOUND * 5
    assert made.health == {"inferred": True, "count": 4, "phases": []}
    assert "4 in the whole trace" in (made.note or "")
    outside: Steps = [("decode", 0, STEP), (None, None, STEP)]
    assert text(infer(outside).layer) == FOUND + "-" * len(STEP)


def test_training_steps_are_left_alone() -> None:
    made = infer([("ProfilerStep", 0, STEP + "tbgagtbgg" * 4)])
    assert made.health is None


def test_devices_are_looked_at_one_by_one() -> None:
    step = "".join(c + c for c in STEP)
    made = infer([("decode", 0, step)], device=[0, 1] * len(STEP))
    assert text(made.layer) == "".join(c + c for c in FOUND)


def test_other_streams_take_the_layer_begun_last_memsets_that_of_the_next_kernel() -> None:
    layer = "nCScgatcngugt"
    step = "cSe" + layer * 4 + "Sngs"
    streams = [20 if c == "c" else 7 for c in step]
    made = infer([("decode", 0, step)], stream=streams)
    assert text(made.layer) == "---" + "".join(str(i) * len(layer) for i in range(4)) + "----"
    step = "Se" + "S" + LAYER + "S" + LAYER * 3 + "ngs"
    made = infer([("decode", 0, step)])
    assert text(made.layer) == "--" + "0" * (len(LAYER) + 1) + "1" * (len(LAYER) + 1) + FOUND[19:]


def test_rows_of_no_use_count_for_nothing() -> None:
    table = rows([("decode", 0, STEP[:12] + "tttt" + STEP[12:])])
    usable = np.ones(table.num_rows, dtype=bool)
    usable[12:16] = False
    assert text(layers.infer(table, usable).layer) == FOUND[:12] + "----" + FOUND[12:]


def test_nothing_to_look_at() -> None:
    assert infer([]).health is None
    assert infer([("decode", 0, "C")]).health is None


def test_what_our_captures_recorded_is_what_is_inferred() -> None:
    for path in sorted(gallery().glob("*.parquet")):
        table = pq.read_table(path)
        known = table.filter(pc.is_valid(table["layer"]))
        table = table.filter(pc.is_in(table["phase"], pc.unique(known["phase"])))
        at = table.column_names.index("layer")
        blank = table.set_column(at, table.field(at), pa.nulls(table.num_rows, pa.int16()))
        made = layers.infer(blank, np.ones(table.num_rows, dtype=bool))
        assert made.health is not None, path
        assert made.health["count"] == len(pc.unique(known["layer"]))
        wrong = pc.invert(pc.equal(made.layer, table["layer"].combine_chunks()))
        left_out = pc.and_(pc.is_null(made.layer), pc.is_valid(table["layer"].combine_chunks()))
        assert not pc.any(wrong).as_py(), path
        # what Inductor fused with the embedding, under a name that does not say norm, stays outside
        missed = pc.sum(table["exclusive_ns"].combine_chunks().filter(left_out)).as_py() or 0
        assert missed <= 0.002 * pc.sum(table["exclusive_ns"]).as_py(), path
