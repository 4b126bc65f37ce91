"""Why a mutant survives: the experiments of :mod:`survivors`, made with its application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dory_core.simulate.build import MARKS_FOLDER
from dory_core.simulate.request import DMA_MODES
from tests.fuzz import survivors
from tests.fuzz.applications import Application, built, changed, differs, passes, same_objects
from tests.fuzz.cases import Case
from tests.fuzz.kernel_tests import is_found_by_tests
from tests.fuzz.mutants import changed_files
from tests.fuzz.plan_mutants import mutants
from tests.fuzz.survivors import Reason


@dataclass(slots=True)
class _Trials:
    """An application with other contents of files. whole: what all mutants of it are made from."""

    app: Application
    whole: Mapping[str, str]
    tried: dict[str, bool | None] = field(default_factory=dict)

    def __call__(self, contents: Mapping[str, str]) -> bool | None:
        """Return whether values differ in any DMA mode; None: it does not compile."""
        key = "\0".join(f"{path}\0{content}" for path, content in sorted(contents.items()))
        if key not in self.tried:
            with changed(self.app, {**self.whole, **contents}):
                program = built(self.app)
                wrong = program is not None and not passes(program, self.app, DMA_MODES)
                self.tried[key] = None if program is None else wrong
        return self.tried[key]

    def run(self, contents: Mapping[str, str], sanitize: str | None = None) -> bool:
        """Return whether `dory run` finds contents of files."""
        with changed(self.app, {**self.whole, **contents}):
            return differs(self.app, sanitize)


def explained(case: Case) -> Reason:
    """Return why a mutant survives; raises LookupError where it changes nothing."""
    app, whole, after = changed_files(case)
    before = {path: whole[path] for path in after}
    trials = _Trials(app, whole)
    if trials(after) or trials.run(after):
        return Reason(survivors.LATER, app.way)
    barriers = any("barrier" in one.old for one in survivors.changes(before, after))
    if barriers and trials.run(after, "thread"):
        return Reason(survivors.LATER, f"ThreadSanitizer, {app.way}")
    if case.subject == "kernels":
        [(path, content)] = after.items()

        def tests() -> str:
            return is_found_by_tests(path, before[path], content)

        def shared() -> str:
            if app.plan.cores == 1:
                return "one core"
            if trials.run(after, "thread"):
                return ""
            return f"ThreadSanitizer sees no place that two of {app.plan.cores} cores write"

        return survivors.explain_kernel(before[path], content, path, trials, tests, shared)
    chips = [
        {path: text for path, text in contents.items() if not path.startswith(MARKS_FOLDER)}
        for contents in (before, after)
    ]
    with changed(app, whole):
        if same_objects(app, *chips):
            return Reason(survivors.MARKS, "one object of both without the marks")
    sources = {path: text for path, text in whole.items() if path.startswith("src/")}
    if case.subject == "plans":
        what, _ = mutants(app.plan, case.draw)
        of_waits = survivors.explain_plan(what, app.plan.cores, trials(after))
        if of_waits is not None:
            return of_waits
    else:
        sources = {p.name: p.read_text() for p in sorted(app.directory.glob("src/*.c"))}
    return survivors.explain(before, after, trials, sources)
