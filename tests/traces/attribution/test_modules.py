from __future__ import annotations

import pyarrow as pa

from traces.attribution import modules
from traces.readers.timeline import RANGES, UNCLOSED

Range = tuple[str, int, int, int | None]


def ranges(*rows: Range) -> pa.Table:
    """Ranges (name, start, end, thread) of one process."""
    columns = {
        "start": [r[1] for r in rows], "dur": [r[2] - r[1] for r in rows], "name": [r[0] for r in rows],
        "process": [1] * len(rows), "thread": [r[3] for r in rows],
    }  # fmt: skip
    return pa.table(columns, schema=RANGES)


def launches(*at: int | None, thread: int = 1) -> pa.Table:
    return pa.table(
        {
            "launch_start": pa.array(at, pa.int64()),
            "process": pa.array([1] * len(at), pa.int64()),
            "thread": pa.array([thread] * len(at), pa.int64()),
        }
    )


def found(rows: pa.Table, table: pa.Table) -> list[tuple[str | None, int | None]]:
    got = modules.assign(rows, table)
    return list(zip(got.module.to_pylist(), got.layer.to_pylist(), strict=True))


def calls(*rows: tuple[str, int, int]) -> pa.Table:
    return ranges(*((f"nn.Module: {name}", start, end, 1) for name, start, end in rows))


def test_the_innermost_of_our_ranges_counts() -> None:
    table = ranges(
        ("## module layers.3.attn", 0, 50, 1), ("## module layers.3.attn.qkv", 10, 15, 1),
        ("decode_0", 0, 99, 1),
    )  # fmt: skip
    assert found(launches(12, 30, 70, None), table) == [
        ("layers.3.attn.qkv", 3), ("layers.3.attn", 3), (None, None), (None, None),
    ]  # fmt: skip


def test_module_calls_give_a_chain_of_classes_and_a_layer() -> None:
    table = calls(
        ("LlamaForCausalLM_0", 0, 100), ("LlamaModel_0", 5, 90), ("Embedding_0", 6, 8),
        ("LlamaDecoderLayer_0", 10, 40), ("LlamaMLP_0", 20, 30), ("Linear_0", 22, 24),
        ("LlamaDecoderLayer_1", 40, 80), ("LlamaMLP_1", 50, 60), ("Linear_7", 95, 99),
    )  # fmt: skip
    model = "LlamaForCausalLM_0.LlamaModel_0"
    assert found(launches(7, 23, 35, 55, 96, 200), table) == [
        (f"{model}.Embedding_0", None),
        (f"{model}.LlamaDecoderLayer_0.LlamaMLP_0.Linear_0", 0),
        (f"{model}.LlamaDecoderLayer_0", 0),
        (f"{model}.LlamaDecoderLayer_1.LlamaMLP_1", 1),
        ("LlamaForCausalLM_0.Linear_7", None),
        (None, None),
    ]


def test_the_outermost_repeating_layer_counts_and_norms_are_none() -> None:
    table = calls(
        ("Net_0", 0, 100), ("TransformerBlock_0", 0, 20), ("MLPBlock_0", 5, 10),
        ("TransformerBlock_1", 20, 40), ("MLPBlock_1", 25, 30),
        ("LayerNorm_0", 50, 60), ("LayerNorm_1", 60, 70), ("HeadBlock_0", 80, 90),
    )  # fmt: skip
    assert [layer for _, layer in found(launches(6, 26, 55, 65, 85), table)] == [0, 1, None, None, None]


def test_layers_of_several_classes_are_counted_in_order() -> None:
    classes = ["MambaLayer_0", "AttentionLayer_0", "MambaLayer_1", "AttentionLayer_1"]
    table = calls(("Jamba_0", 0, 100), *((c, 10 * i, 10 * i + 9) for i, c in enumerate(classes)))
    assert [layer for _, layer in found(launches(1, 11, 21, 31), table)] == [0, 1, 2, 3]


def test_a_call_that_never_ended_counts_only_where_no_ended_one_is_open() -> None:
    table = calls(
        ("Net_0", 0, 100), ("Lost_0", 10, 100), ("DecoderLayer_0", 20, 30), ("DecoderLayer_1", 30, 40)
    )
    unclosed = table.append_column(UNCLOSED, pa.array([False, True, False, False]))
    assert found(launches(15, 35, 50), unclosed) == [
        ("Net_0", None), ("Net_0.DecoderLayer_1", 1), ("Net_0", None),
    ]  # fmt: skip
    running = table.append_column(UNCLOSED, pa.array([True, True, False, False]))
    assert found(launches(15, 35), running) == [("Net_0.Lost_0", None), ("Net_0.Lost_0.DecoderLayer_1", 1)]


def test_hooks_and_hand_made_ranges() -> None:
    table = ranges(
        ("decode_0", 0, 100, 1), ("{'Module': 'model.layers.0.mlp', 'Inputs': [[1]]}", 5, 10, 1),
        ("layer_1", 20, 40, 1), ("attention", 22, 30, 1), ("qkv", 24, 26, 1), ("nccl:all_reduce", 27, 29, 1),
        ("outside", 50, 60, 1),
    )  # fmt: skip
    assert found(launches(7, 25, 28, 35, 55), table) == [
        ("model.layers.0.mlp", 0), ("layers.1.attention.qkv", 1), ("layers.1.attention", 1), ("layers.1", 1),
        (None, None),
    ]  # fmt: skip


def test_a_whole_path_wins_over_classes_and_threads_are_kept_apart() -> None:
    table = ranges(
        ("nn.Module: Net_0", 0, 100, 1), ("model.layers.4.mlp", 10, 20, 1), ("model.layers.5.mlp", 10, 20, 2),
        ("layer_9", 50, 60, None),
    )  # fmt: skip
    assert found(launches(15, 30), table) == [("model.layers.4.mlp", 4), ("Net_0", None)]
    # A backward thread is outside all modules; an NVTX start/end range belongs to no thread.
    assert found(launches(15, 55, thread=3), table) == [(None, None), ("layers.9", 9)]


def test_no_ranges_no_modules() -> None:
    assert found(launches(1, 2), ranges()) == [(None, None)] * 2
    assert found(launches(), ranges(("layer_1", 0, 9, 1))) == []


def test_hundreds_of_nested_calls_end() -> None:
    table = calls(*((f"Net_{i}", i, 2000 - i) for i in range(500)))
    assert len(found(launches(600), table)) == 1


def test_layers_follow_from_logged_modules() -> None:
    column = pa.array(["layers.3.mlp", None, "norm"]).dictionary_encode()
    assert modules.layers(column).to_pylist() == [3, None, None]
