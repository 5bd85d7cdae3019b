"""The ranking of the causes: all rules run, and their findings are sorted by the time that they cost."""

from __future__ import annotations

from collections.abc import Callable

from abreast.doctor import input_rules, rules
from abreast.doctor.diagnosis import Finding
from abreast.doctor.facts import Facts

_RULES: tuple[Callable[[Facts], Finding | None], ...] = (
    *(input_rules.slow_source, input_rules.copies, input_rules.recompilation),
    *(rules.slow_callbacks, rules.all_reduce, rules.host, rules.unequal_shards, rules.slow_device, rules.small_batch),
    *(rules.validation, rules.short_epochs, rules.precision, rules.local_batch_norm, rules.learning_rate),
)


def findings(facts: Facts) -> tuple[Finding, ...]:
    """The findings, most expensive first; advice about things that cost no time comes last."""
    found = [finding for rule in _RULES if (finding := rule(facts)) is not None]
    return tuple(sorted(found, key=lambda finding: -finding.lost_seconds))
