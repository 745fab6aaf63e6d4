from __future__ import annotations

import gzip
import hashlib
from typing import TYPE_CHECKING

import pytest

from traces.errors import InputError
from traces.readers import files

if TYPE_CHECKING:
    from pathlib import Path

TEXT = b'{"traceEvents": []}' * 5000


def content(path: Path) -> tuple[bytes, files.Source, str]:
    with files.Source(path) as source:
        parts = []
        while part := source.read(100_000):
            parts.append(part)
        return b"".join(parts), source, source.sha256()


@pytest.mark.parametrize(
    "data", [TEXT, gzip.compress(TEXT), gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:])]
)
def test_plain_gzip_and_multi_member_gzip_by_content(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "named-anything.json"
    path.write_bytes(data)
    text, source, digest = content(path)
    assert text == TEXT
    assert source.damage is None
    assert digest == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("data", "damage"),
    [
        (gzip.compress(TEXT)[:-20], "truncated_gzip"),
        (gzip.compress(TEXT) + b"garbage", "garbage_after_gzip"),
        (gzip.compress(TEXT) + b"\0" * 512, None),  # tape padding is no damage
    ],
)
def test_damage_is_told_and_what_can_be_had_is_given(tmp_path: Path, data: bytes, damage: str | None) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(data)
    text, source, _ = content(path)
    assert source.damage == damage
    assert TEXT.startswith(text)
    assert text


def test_a_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BOMB_FLOOR", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * (16 << 20)))
    with pytest.raises(InputError, match="gzip bomb"):
        content(path)


def test_missing_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        files.Source(tmp_path / "absent.json")
    with pytest.raises(InputError, match="is a folder"):
        files.Source(tmp_path)
