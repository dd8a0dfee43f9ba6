"""LIBERO's ``:regions``: rectangles and sites, read as plain numbers and never as code."""

from __future__ import annotations

import math
import re

from clframe.worlds.bddl.errors import shown
from clframe.worlds.bddl.report import Report
from clframe.worlds.bddl.source import Form, Group, Word
from clframe.worlds.bddl.syntax import Rectangle, Region

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?")
_ATTRIBUTES = (":target", ":ranges", ":yaw_rotation", ":rgba")


def read_region(report: Report, form: Form) -> Region:
    """Read ``(NAME (:target T) (:ranges ((x0 y0 x1 y1))) (:yaw_rotation ((a b))))``."""
    source = report.source
    if isinstance(form, Word) or not form.items or not isinstance(form.items[0], Word):
        sentence = "Expected a region such as (NAME (:target T) (:ranges ((0 0 1 1))))."
        raise source.error(sentence, form.offset)
    attributes: dict[str, Group] = {}
    for item in form.items[1:]:
        head = item.items[0] if isinstance(item, Group) and item.items else None
        if not isinstance(item, Group) or not isinstance(head, Word):
            raise source.error("Expected an attribute such as (:target T).", item.offset)
        if head.text not in _ATTRIBUTES:
            sentence = (
                f"A region has no attribute {shown(head.text)}; it has {', '.join(_ATTRIBUTES)}."
            )
            raise source.error(sentence, item.offset)
        if head.text in attributes:
            raise source.error(f"The attribute {shown(head.text)} is given twice.", item.offset)
        attributes[head.text] = item
    target = attributes.get(":target")
    if target is None or len(target.items) != 2 or not isinstance(target.items[1], Word):
        raise source.error("A region needs one (:target NAME).", form.offset)
    yaw = attributes.get(":yaw_rotation")
    rgba = attributes.get(":rgba")
    name = form.items[0].text
    return Region(
        name,
        target.items[1].text,
        tuple(_rectangles(report, attributes[":ranges"])) if ":ranges" in attributes else (),
        _yaw(report, yaw) if yaw else None,
        _rgba(report, rgba) if rgba else None,
        source.position(form.offset),
    )


def _rectangles(report: Report, attribute: Group) -> list[Rectangle]:
    inner = _only_group(report, attribute, "(:ranges ((x0 y0 x1 y1)))")
    rectangles = []
    for item in inner.items:
        x0, y0, x1, y1 = _numbers(report, item, 4, "(x0 y0 x1 y1)")
        if x0 > x1 or y0 > y1:
            sentence = "A rectangle (x0 y0 x1 y1) needs x0 <= x1 and y0 <= y1."
            report.error(sentence, item.offset)
        rectangles.append((x0, y0, x1, y1))
    return rectangles


def _yaw(report: Report, attribute: Group) -> tuple[float, float]:
    inner = _only_group(report, attribute, "(:yaw_rotation ((low high)))")
    if len(inner.items) != 1:
        raise report.source.error("Expected one pair of angles (low high).", inner.offset)
    low, high = _numbers(report, inner.items[0], 2, "(low high)")
    if low > high:
        report.error("A yaw range (low high) needs low <= high.", inner.offset)
    return low, high


def _rgba(report: Report, attribute: Group) -> tuple[float, float, float, float]:
    inner = _only_group(report, attribute, "(:rgba (r g b a))")
    red, green, blue, alpha = _numbers(report, inner, 4, "(r g b a)")
    return red, green, blue, alpha


def _only_group(report: Report, attribute: Group, shape: str) -> Group:
    if len(attribute.items) != 2 or not isinstance(attribute.items[1], Group):
        raise report.source.error(f"Expected {shape}.", attribute.offset)
    return attribute.items[1]


def _numbers(report: Report, form: Form, count: int, shape: str) -> list[float]:
    if isinstance(form, Word) or len(form.items) != count:
        raise report.source.error(f"Expected {count} numbers {shape}.", form.offset)
    values = []
    for item in form.items:
        if isinstance(item, Group) or not _NUMBER.fullmatch(item.text):
            actual = shown(item.text) if isinstance(item, Word) else "a parenthesis"
            raise report.source.error(f"Expected a number, not {actual}.", item.offset)
        value = float(item.text)
        if not math.isfinite(value):
            raise report.source.error(f"The number {shown(item.text)} is too large.", item.offset)
        values.append(value)
    return values
