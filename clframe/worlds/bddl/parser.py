"""``parse``: one task description of either dialect, read, checked and made immutable."""

from __future__ import annotations

from pathlib import Path

from clframe.worlds.bddl.domain import LIBERO_DOMAIN, Domain, shipped_domain, shipped_domains
from clframe.worlds.bddl.errors import shown
from clframe.worlds.bddl.formula_reader import FormulaReader
from clframe.worlds.bddl.goal import Goal
from clframe.worlds.bddl.limits import Leniency, Limits
from clframe.worlds.bddl.names import NameTable
from clframe.worlds.bddl.problem import Problem, initial_state
from clframe.worlds.bddl.region_reader import read_region
from clframe.worlds.bddl.report import Report
from clframe.worlds.bddl.source import Group, Word, load, read_form
from clframe.worlds.bddl.syntax import InitLiteral, Literal, Region
from clframe.worlds.bddl.typed_list import typed_names

_SHARED = ("problem", ":domain", ":requirements", ":objects", ":init", ":goal")
_LIBERO = (":language", ":regions", ":fixtures", ":obj_of_interest")
_REQUIRED = ("problem", ":domain", ":objects", ":init", ":goal")

_Sections = dict[str, Group]


def parse(
    text_or_path: str | Path,
    *,
    lenient: Leniency = Leniency.DEFAULT,
    limits: Limits | None = None,
    domain: Domain | None = None,
) -> Problem:
    """Read a task description.

    Args:
        text_or_path: A text, or the file that holds it. A string with a parenthesis or a line break
            is text, any other string a path.
        lenient: Quirks to let through; `Leniency.ALL` reads every published file.
        limits: Bounds on size and nesting.
        domain: A vocabulary of your own, instead of the one that ``:domain`` names; a warning says
            where the two names differ.

    Returns:
        The problem; its ``warnings`` list the quirks that were let through.

    Raises:
        BDDLError: With line, column and a sentence; its ``more`` lists further errors.

    >>> problem = parse('''(define (problem tidy) (:domain igibson)
    ...   (:objects cup.n.01_1 - cup.n.01 shelf.n.01_1 - shelf.n.01)
    ...   (:init (inroom shelf.n.01_1 kitchen) (dusty cup.n.01_1))
    ...   (:goal (and (ontop ?cup.n.01_1 ?shelf.n.01_1) (not (dusty ?cup.n.01_1)))))''')
    >>> problem.goal.score([("ontop", "cup.n.01_1", "shelf.n.01_1"), ("dusty", "cup.n.01_1")])
    0.5
    """
    limits = limits or Limits()
    source = load(text_or_path, limits)
    report = Report(source, lenient)
    form = read_form(source, limits)
    sections = _sections(report, form)
    report.finish()  # a misspelt section would be named again as a missing one
    for required in _REQUIRED:
        if required not in sections:
            report.error(f"The section ({required} ...) is missing.", form.offset)
    report.finish()

    name = _one_word(report, sections["problem"])
    domain_name = _one_word(report, sections[":domain"])
    libero = _is_libero(report, sections, domain_name)
    _check_domain(report, sections[":domain"], name, domain_name, domain)
    domain = domain or _known_domain(report, sections[":domain"], domain_name)

    declared: dict[str, str] = {}
    objects = _declared(report, sections[":objects"], declared)
    fixtures = NameTable()
    if ":fixtures" in sections:
        fixtures = _declared(report, sections[":fixtures"], declared)
    regions = _regions(report, sections.get(":regions"), declared)

    names = set(declared)
    names.update(region.full_name for region in regions if region.target in declared)
    dangling = {region.full_name for region in regions if region.target not in declared}
    types = objects.by_type()
    for kind, instances in fixtures.by_type().items():
        types[kind] = types.get(kind, ()) + instances
    reader = FormulaReader(report, domain, names, dangling, types, limits)
    init = _init(report, reader, sections[":init"])
    goal_section = sections[":goal"]
    formulas = goal_section.items[1:]
    if not formulas:
        raise source.error("The goal is empty; expected (:goal FORMULA).", goal_section.offset)
    formula = reader.goal(formulas[0])
    if len(formulas) > 1:
        sentence = "The goal holds more than one formula; join them with (and ...)."
        report.quirk(Leniency.EXTRA_GOALS, sentence, formulas[1].offset)
    interest = _interest(report, sections.get(":obj_of_interest"), names | dangling)
    report.finish()
    return Problem(
        name=name,
        domain=domain_name,
        objects=objects,
        init_literals=init,
        goal=Goal(formula, types, initial_state(init), limits, source.path),
        requirements=_words(report, sections.get(":requirements")),
        fixtures=fixtures,
        regions=regions,
        obj_of_interest=interest,
        language=" ".join(_words(report, sections[":language"]))
        if ":language" in sections
        else None,
        libero=libero,
        warnings=tuple(report.warnings),
    )


def _sections(report: Report, form: Group) -> _Sections:
    source = report.source
    if not (form.items and isinstance(form.items[0], Word) and form.items[0].text == "define"):
        raise source.error("A description starts with (define (problem NAME) ...).", form.offset)
    sections: _Sections = {}
    for item in form.items[1:]:
        if isinstance(item, Word):
            sentence = f"The word {shown(item.text)} stands between sections."
            report.quirk(Leniency.STRAY_WORDS, sentence, item.offset)
            continue
        head = item.items[0] if item.items else None
        if not isinstance(head, Word):
            raise source.error("Expected a section such as (:init ...).", item.offset)
        if head.text not in _SHARED and head.text not in _LIBERO:
            hint = report.hint(head.text, (*_SHARED, *_LIBERO))
            report.error(f"There is no section {shown(head.text)}; {hint}", item.offset)
        elif head.text in sections:
            report.error(f"The section {shown(head.text)} is given twice.", item.offset)
        else:
            sections[head.text] = item
    return sections


def _is_libero(report: Report, sections: _Sections, domain_name: str) -> bool:
    domain = shipped_domain(domain_name)
    extra = [section for section in _LIBERO if section in sections]
    if domain is not None and domain.name != LIBERO_DOMAIN:
        for section in extra:
            sentence = f"{shown(section)} belongs to LIBERO's dialect, whose domain is robosuite."
            report.error(sentence, sections[section].offset)
        return False
    return domain is not None or bool(extra)


def _known_domain(report: Report, section: Group, name: str) -> Domain | None:
    domain = shipped_domain(name)
    if domain is None:
        sentence = (
            f"The domain {shown(name)} is not known, so predicates are not checked; "
            f"known: {', '.join(shipped_domains())}."
        )
        report.quirk(Leniency.UNKNOWN_DOMAIN, sentence, section.offset)
    return domain


def _check_domain(
    report: Report, section: Group, problem: str, name: str, given: Domain | None
) -> None:
    """Note a domain that is not the one the caller gave, or not that of the problem."""
    known = shipped_domain(name)
    if given is not None and given.name not in (name, known.name if known else name):
        sentence = (
            f"The problem is of the domain {shown(name)}, but is read with the domain "
            f"{shown(given.name)} that was given."
        )
        report.quirk(Leniency.OTHER_DOMAIN, sentence, section.offset)
    if problem.startswith("libero_") and name != LIBERO_DOMAIN:
        sentence = (
            f"The problem {shown(problem)} is one of LIBERO's, whose domain is "
            f"{LIBERO_DOMAIN}, not {shown(name)}."
        )
        report.quirk(Leniency.OTHER_DOMAIN, sentence, section.offset)


def _one_word(report: Report, section: Group) -> str:
    words = _words(report, section)
    if len(words) != 1:
        head = section.items[0]
        assert isinstance(head, Word)  # sections are found by their head
        raise report.source.error(f"Expected ({head.text} NAME).", section.offset)
    return words[0]


def _words(report: Report, section: Group | None) -> tuple[str, ...]:
    words = []
    for item in section.items[1:] if section else ():
        if isinstance(item, Group):
            raise report.source.error("Expected a word here, not a parenthesis.", item.offset)
        words.append(item.text)
    return tuple(words)


def _declared(report: Report, section: Group, declared: dict[str, str]) -> NameTable:
    """Read a typed list, adding its names to those declared so far."""
    types: dict[str, str] = {}
    for word, kind in typed_names(report.source, section.items[1:]):
        name = word.text
        if name.startswith("?") or kind.startswith("?"):
            report.error("A declared name must not start with '?'.", word.offset)
        if name in declared:
            if types.get(name) != kind:
                sentence = f"{shown(name)} is declared twice, as {shown(declared[name])} before."
                report.error(sentence, word.offset)
            else:
                sentence = f"{shown(name)} is declared twice."
                report.quirk(Leniency.REPEATED_OBJECTS, sentence, word.offset)
            continue
        if name.endswith("_*"):
            sentence = f"{shown(name)} stands for instances that only a scene can supply."
            report.quirk(Leniency.WILDCARDS, sentence, word.offset)
        declared[name] = kind
        types[name] = kind
    return NameTable(types.items())


def _regions(report: Report, section: Group | None, declared: dict[str, str]) -> tuple[Region, ...]:
    regions: list[Region] = []
    taken = set(declared)
    for form in section.items[1:] if section else ():
        region = read_region(report, form)
        if region.full_name in taken:
            sentence = f"The name {shown(region.full_name)} is already taken."
            report.error(sentence, form.offset)
        if region.target not in declared:
            hint = report.hint(region.target, declared)
            sentence = f"The region's target {shown(region.target)} is not declared; {hint}"
            report.quirk(Leniency.DANGLING_REGIONS, sentence, form.offset)
        taken.add(region.full_name)
        regions.append(region)
    return tuple(regions)


def _init(report: Report, reader: FormulaReader, section: Group) -> tuple[InitLiteral, ...]:
    seen: dict[Literal, bool] = {}
    entries: list[InitLiteral] = []
    for form in section.items[1:]:
        entry = reader.init_literal(form)
        positive = seen.get(entry.literal)
        if positive is None:
            seen[entry.literal] = entry.positive
            entries.append(entry)
        elif positive == entry.positive:
            sentence = f"The literal {shown(' '.join(entry.literal))} is given twice."
            report.quirk(Leniency.REPEATED_INIT, sentence, form.offset)
        else:
            sentence = f"{shown(' '.join(entry.literal))} must both hold and not hold."
            report.error(sentence, form.offset)
    return tuple(entries)


def _interest(report: Report, section: Group | None, names: set[str]) -> tuple[str, ...]:
    words = _words(report, section)
    for item, name in zip(section.items[1:] if section else (), words, strict=True):
        if name not in names:
            report.error(f"{shown(name)} is not declared; {report.hint(name, names)}", item.offset)
    return words
