"""`Contract`: compares a case with plain Keras, and keeps the largest difference. Imports no framework."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.contract.cases import Case, Results, run
from tests.contract.compare import Comparison, compare, tolerance
from tests.harness.client import Workers

# What plain Keras 3.15 gets wrong. TensorFlow: at the end of an epoch of unknown length the step that finds no batch counts as
# an iteration of the optimizer.
PLAIN_IS_WRONG = {("tensorflow", source): "optimizer/0 iteration" for source in ("generator", "grain")}


# Batches staged ahead, by the number of devices; None: as many as abreast chooses.
DEPTHS = {1: 0, 2: None, 3: 1, 4: 4}


@dataclass
class Ledger:
    """The results of one backend's comparisons, for the last lines of a test session."""

    num_comparisons: int = 0
    largest: dict[str, tuple[float, str]] = field(default_factory=dict)  # precision -> (difference, where)

    def note(self, case: Case, devices: int, comparison: Comparison) -> None:
        self.num_comparisons += 1
        if comparison.verdict == "equal" and comparison.difference >= self.largest.get(case.policy, (0.0, ""))[0]:
            self.largest[case.policy] = (comparison.difference, f"{comparison.where}, {case}, {devices} devices")


@dataclass
class Contract:
    """One backend's workers with the results of plain Keras kept per case."""

    workers: Workers
    ledger: Ledger
    full: bool = False
    _plain: dict[Case, Results] = field(default_factory=dict)

    def holds(self, case: Case, *devices: int, refusal: bool | None = False) -> None:
        """Fail unless the case computes on `devices` what it computes with plain Keras.

        `refusal`: whether plain Keras refuses this case, so that abreast must refuse it in the same way; None if unknown.
        """
        for number, comparison in self.comparisons(case, devices):
            refused = "error" in self._plain[plain_case(case)]
            assert refusal in (refused, None), (
                f"plain Keras {'refuses' if refused else 'runs'} {case}\n{comparison.details}"
            )
            assert comparison.verdict == ("refused" if refused else "equal"), (
                f"{self.workers.backend}, {number} devices, {case}: {comparison.verdict}, "
                f"{comparison.difference:.2e} at {comparison.where}\n{comparison.details}"
            )

    def comparisons(self, case: Case, devices: tuple[int, ...]) -> list[tuple[int, Comparison]]:
        """The verdict per number of devices. Plain Keras and abreast run at the same time."""
        known = plain_case(case) in self._plain
        if not known:
            self.workers.plain.begin(run, case=plain_case(case))
        try:
            parallel = [
                self.workers.abreast.run(run, case=at_some_depth(case, number), devices=number) for number in devices
            ]
        finally:
            if not known:
                self._plain[plain_case(case)] = self.workers.plain.result()
        plain = self._plain[plain_case(case)]
        assert "error" not in plain or refusable(plain), f"{case} fails with plain Keras:\n{plain['traceback']}"
        verdicts = []
        for number, results in zip(devices, parallel, strict=True):
            wrong = PLAIN_IS_WRONG.get((self.workers.backend, case.source))
            comparison = compare(plain, results, tolerance(case), without=wrong)
            self.ledger.note(case, number, comparison)
            verdicts.append((number, comparison))
        return verdicts


def plain_case(case: Case) -> Case:
    """The same job for plain Keras, to which placement means nothing."""
    return replace(case, entry="parallelize", batch_norm="global", prefetch=None)


def at_some_depth(case: Case, devices: int) -> Case:
    """The same job with as many batches staged ahead as `DEPTHS` says: how many must not matter."""
    return case if case.prefetch is not None else replace(case, prefetch=DEPTHS[devices])


def refusable(plain: Results) -> bool:
    """Whether plain Keras refuses a job by design, rather than because the case is wrong."""
    return bool({"ValueError", "NotImplementedError"} & set(plain["error"]))
