from __future__ import annotations

import gzip
import hashlib
import time
import zlib
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


def test_a_real_gzip_bomb_is_refused_quickly(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    deflate = zlib.compressobj(9, wbits=31)
    megabyte = b" " * (1 << 20)
    path.write_bytes(b"".join(deflate.compress(megabyte) for _ in range(300)) + deflate.flush())
    began = time.process_time()
    with pytest.raises(InputError, match="gzip bomb"):
        content(path)
    assert time.process_time() - began < 2


def test_reads_give_about_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(TEXT)
    with files.Source(path) as source:
        assert len(source.read(1000)) == 1000
        assert source.given == 1000
        assert source.likely_size == len(TEXT)


def test_missing_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        files.Source(tmp_path / "absent.json")
    with pytest.raises(InputError, match="is a folder"):
        files.Source(tmp_path)
