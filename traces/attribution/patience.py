"""A user's regular expression may take for ever on one name, and nothing in Python can stop it.

So the user's patterns first meet a trace's names in a process that can be ended. How long a pattern takes
depends on the names, which is why looking at the pattern alone would not do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from traces.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traces.attribution.classify import Classifier

SECONDS: Final = 10.0  # for all rules together; those of a thousand lines take less than one on any trace
_TRY: Final = """
import json, re, sys
for number, (pattern, texts) in enumerate(json.load(sys.stdin)):
    print(number, flush=True)
    search = re.compile(pattern, re.ASCII).search
    for text in texts:
        search(text)
"""


def check(
    classifier: Classifier, names: Iterable[str], ops: Iterable[str], *, seconds: float | None = None
) -> None:
    """Try the user's rules on the texts that they will see. Raises UsageError naming a rule that hangs."""
    rules = [rule for rule in classifier.rules if rule.user]
    if not rules or not sys.executable:
        return
    seconds = SECONDS if seconds is None else seconds
    texts = classifier.texts(names, ops)
    asked = json.dumps([(rule.pattern, texts[rule.on]) for rule in rules])
    command = [sys.executable, "-I", "-S", "-c", _TRY]
    try:
        subprocess.run(command, input=asked.encode(), capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        at = int((error.stdout or b"0").split()[-1])
        file = (classifier.user or {}).get("file", "rules")
        raise UsageError(
            f"{file}, rule {rules[at].id!r}: its pattern takes more than {seconds:g} s on the names of this "
            "trace; leave out repeats of repeats, as in (a+)+"
        ) from error
