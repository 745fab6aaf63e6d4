"""What a kernel is: group, category and backend, by its launching op and its name.

The rules live in `rules.toml`, in order; this module loads them and weighs the two kinds of evidence.
A specific name is believed; a generic one (an add, a sum) is refined by the op that launched it; where a
specific op and a specific name disagree about the group, the op wins and the label says so with a `!`.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from traces.attribution import names
from traces.attribution.taxonomy import BACKENDS, GROUP_OF
from traces.errors import UsageError
from traces.schema import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RULES_FILE: Final = Path(__file__).with_name("rules.toml")
PARTS: Final = ("base", "plain", "full", "functor", "fused", "op")

_KEYS: Final = {"id", "on", "pattern", "category", "backend", "group", "generic", "why", "example"}
# A step with a meaning of its own keeps it: a layout change inside a convolution is a copy.
_KEEPS_ITS_NAME: Final = frozenset({"copy", "fill", "memcpy", "memset", "gemm_reduce", "attention_reduce"})


@dataclass(frozen=True)
class Label:
    """What a row is; `rule` names the evidence: a rule id, or `op:<op>`, with `!` where two disagreed."""

    group: str
    category: str
    backend: str
    rule: str


@dataclass(frozen=True)
class Rule:
    """One line of knowledge; `category` or `backend` may be left to another rule, not both."""

    id: str
    pattern: str
    on: str = "base"
    category: str | None = None
    backend: str | None = None
    generic: bool = False
    why: str = ""
    example: str = ""
    user: bool = False

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """Compiled when first asked for: all of them take 0.3 s, and most traces need few."""
        return re.compile(self.pattern, re.ASCII)


class Classifier:
    """Labels names by an ordered list of rules; answers are remembered, so ask once per distinct name.

    `user` tells whose rules decide first, for a run's health: file (its name) and sha256 (12 digits).
    """

    def __init__(self, rules: Sequence[Rule], user: dict[str, str] | None = None) -> None:
        def pick(*, op: bool, category: bool) -> list[Rule]:
            return [r for r in rules if (r.on == "op") == op and (r.category is not None) == category]

        self.rules = tuple(rules)
        self.user = user
        self._name_rules = pick(op=False, category=True)
        self._name_backends = pick(op=False, category=False)
        self._parts_read = sorted({rule.on for rule in rules} - {"op"})
        self._op_rules = pick(op=True, category=True)
        self._op_backends = pick(op=True, category=False)
        self._labels: dict[tuple[str, str | None, str], Label] = {}
        self._matches: dict[tuple[str | None, ...], tuple[Rule | None, Rule | None]] = {}

    def classify(self, name: str, *, op: str | None = None, kind: str = "kernel") -> Label:
        """Label one row of the given `kind` (traces.schema.KINDS) by its name and innermost launching op.

        Raises UsageError for a kind that the schema does not know.
        """
        key = (name, op, kind)
        label = self._labels.get(key)
        if label is None:
            label = self._labels[key] = self._classify(name, op, kind)
        return label

    def match(self, name: str) -> tuple[Rule | None, Rule | None]:
        """The rules that decide a kernel name's category and, where that leaves it open, its backend."""
        parts = _parts(names.parse(name))
        # Names differ mostly in template arguments that no rule looks at: remember what the rules saw.
        seen = tuple(parts[part] for part in self._parts_read)
        if seen not in self._matches:
            rule = _first(self._name_rules, parts)
            settled = rule is not None and rule.backend is not None
            self._matches[seen] = rule, None if settled else _first(self._name_backends, parts)
        return self._matches[seen]

    def texts(self, kernels: Iterable[str], ops: Iterable[str]) -> dict[str, list[str]]:
        """By each of `PARTS` the distinct texts that a rule on it may be asked about."""
        ops = list(
            ops
        )  # the name of a CPU row is an op, and asked about like a kernel's where no rule knows it
        parsed = [_parts(names.parse(name)) for name in {*kernels, *ops}]
        found = {
            part: sorted({t for p in parsed if (t := p[part]) is not None}) for part in PARTS if part != "op"
        }
        return {**found, "op": sorted({*kernels, *ops})}

    def match_op(self, op: str) -> tuple[Rule | None, Rule | None]:
        """The rules that decide an op's category and backend."""
        return _search(self._op_rules, op), _search(self._op_backends, op)

    def _classify(self, name: str, op: str | None, kind: str) -> Label:
        if kind in ("memcpy", "memset"):
            return Label("memory", kind, "other", kind)
        if kind == "graph":
            return Label("other", "graph", "other", "graph")
        if kind == "cpu_op":
            return self._classify_op(name)
        if kind == "kernel":
            return self._classify_kernel(name, op)
        raise UsageError(f"unknown kind of row {kind!r}: use one of {', '.join(KINDS)}")

    def _classify_op(self, op: str) -> Label:
        rule, owner = self.match_op(op)
        named, named_owner = self.match(op) if rule is None or owner is None else (None, None)
        backend = _backend(owner) or _backend(named) or _backend(named_owner) or "other"
        if rule is not None:
            return _label(rule, backend, f"op:{op}")
        return _label(named, backend, named.id) if named else Label("other", "unknown", backend, "unknown")

    def _classify_kernel(self, name: str, op: str | None) -> Label:
        rule, owner = self.match(name)
        backend = _backend(rule) or _backend(owner)
        evidence, op_owner = self.match_op(op) if op and op != name else (None, None)
        if evidence is None or not _overrules(evidence, rule):
            if rule is None:
                return Label("other", "unknown", backend or "other", "unknown")
            return _label(rule, _known(backend, op_owner), rule.id)
        disagree = rule is not None and not rule.generic and _group(rule) != _group(evidence)
        return _label(evidence, _known(backend, op_owner), f"op:{op}{'!' if disagree else ''}")


def load_rules(extra: Path | None = None) -> tuple[Rule, ...]:
    """The shipped rules, after those of `extra` (same format), so that a user's rules decide first.

    Raises UsageError, naming file and rule, for a file that cannot be read or a rule that makes no sense.
    """
    shipped = tuple(_read(RULES_FILE))
    return shipped if extra is None else (*_compiled(extra), *shipped)


def _compiled(path: Path) -> Iterator[Rule]:
    """A user's rules, checked whole before the first is used."""
    for rule in _read(path):
        try:
            rule.regex  # noqa: B018
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"{path}, rule {rule.id!r}: bad regular expression: {error}") from error
        yield replace(rule, user=True)


def user_classifier(path: Path) -> Classifier:
    """The classifier whose first rules are those of `path`. Raises UsageError as `load_rules` does."""
    rules = load_rules(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Classifier(rules, {"file": path.name, "sha256": digest[:12]})


@cache
def default_classifier() -> Classifier:
    """The classifier of the shipped rules."""
    return Classifier(load_rules())


def _parts(name: names.KernelName) -> dict[str, str | None]:
    parts = {"base": name.base, "plain": name.plain, "full": name.full}
    return {**parts, "functor": name.functor, "fused": name.fused}


def _first(rules: Sequence[Rule], parts: dict[str, str | None]) -> Rule | None:
    for rule in rules:
        text = parts[rule.on]
        if text is not None and rule.regex.search(text):
            return rule
    return None


def _search(rules: Sequence[Rule], text: str) -> Rule | None:
    return next((rule for rule in rules if rule.regex.search(text)), None)


def _overrules(evidence: Rule, rule: Rule | None) -> bool:
    """Whether the launching op's rule beats the name's; a user's rule beats every shipped one."""
    if rule is None:
        return True
    if rule.user or evidence.user:
        return not rule.user
    if evidence.generic or rule.category in _KEEPS_ITS_NAME:
        return False
    return rule.generic or _group(rule) != _group(evidence)


def _known(backend: str | None, op_owner: Rule | None) -> str:
    """Our custom ops are known to be Triton whatever the name; an aten op says nothing about its kernels."""
    if op_owner is not None and op_owner.backend == "triton" and backend in (None, "other", "vllm"):
        return "triton"
    return backend or "other"


def _backend(rule: Rule | None) -> str | None:
    return rule.backend if rule is not None else None


def _group(rule: Rule) -> str:
    return GROUP_OF[rule.category or "unknown"]


def _label(rule: Rule, backend: str, evidence: str) -> Label:
    category = rule.category or "unknown"
    return Label(GROUP_OF[category], category, backend, evidence)


def _read(path: Path) -> Iterator[Rule]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the rules {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a TOML file of rules: {error}") from error
    entries = document.get("rule", [])
    if set(document) - {"rule"} or not isinstance(entries, list):
        raise UsageError(f"{path} holds something other than [[rule]] tables: {', '.join(sorted(document))}")
    seen: set[str] = set()
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise UsageError(f"{path}, rule number {number}: must be a table, as in [[rule]]")
        rule = _rule(entry, f"{path}, rule {entry.get('id', f'number {number}')!r}")
        if rule.id in seen:
            raise UsageError(f"{path}, rule {rule.id!r}: the id is used twice")
        seen.add(rule.id)
        yield rule


def _rule(entry: dict[str, Any], where: str) -> Rule:
    if unknown := sorted(set(entry) - _KEYS):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}")
    for key in ("id", "pattern"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise UsageError(f"{where}: {key!r} must be a non-empty string")
    category, backend, on = entry.get("category"), entry.get("backend"), entry.get("on", "base")
    if not isinstance(entry.get("generic", False), bool):
        raise UsageError(f"{where}: 'generic' must be true or false")
    if category is None and backend is None:
        raise UsageError(f"{where}: needs a category, a backend, or both")
    _one_of(where, "category", category, GROUP_OF)
    _one_of(where, "backend", backend, BACKENDS)
    _one_of(where, "on", on, PARTS)
    if "group" in entry and (category is None or entry["group"] != GROUP_OF[category]):
        raise UsageError(f"{where}: group {entry['group']!r} does not hold category {category!r}")
    generic = bool(entry.get("generic", False))
    why, example = str(entry.get("why", "")), str(entry.get("example", ""))
    return Rule(entry["id"], entry["pattern"], on, category, backend, generic, why, example)


def _one_of(where: str, key: str, value: object, known: Iterable[str]) -> None:
    if value is not None and value not in tuple(known):
        raise UsageError(f"{where}: unknown {key} {value!r}; known are {', '.join(known)}")
