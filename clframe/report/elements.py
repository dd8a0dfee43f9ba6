"""The building blocks of a report page: escaped text, tables, figures, the page itself.

Everything that comes from a run passes through `text` here, so no name can become markup. The page
loads nothing: style and images are inside it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from clframe.report.canvas import to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --card: #f6f8fa; --ink: #1f2328;
  --muted: #59636e; --grid: #d8dee4; --mark: #0b6b3a; --markback: #dff5e6; --link: #0a5cc2; }
@media (prefers-color-scheme: dark) { :root { --page: #0f1318; --card: #181e25; --ink: #e6eaef;
  --muted: #9aa5b1; --grid: #333c47; --mark: #7fdca4; --markback: #163524; --link: #76b0ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 68rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-bottom: .3rem;
  border-bottom: 1px solid var(--grid); overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.75rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: .4rem 0; } .muted, figcaption { color: var(--muted); font-size: .87rem; }
a { color: var(--link); }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  font-size: .86em; }
pre { background: var(--card); border: 1px solid var(--grid); border-radius: 6px;
  padding: .8rem 1rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.facts { display: flex; flex-wrap: wrap; gap: .35rem 1.4rem; margin: .5rem 0; }
.facts b { font-weight: 600; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin: 1.25rem 0; }
.card { background: var(--card); border: 1px solid var(--grid); border-radius: 8px;
  padding: .7rem .9rem; }
.card .value { font-size: 1.5rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.card .name { color: var(--muted); font-size: .82rem; }
.note { border-left: 3px solid var(--muted); padding: .1rem .8rem; margin: .6rem 0;
  color: var(--muted); }
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
caption { text-align: left; color: var(--muted); font-size: .87rem; padding-bottom: .3rem; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--grid);
  vertical-align: top; }
th { font-weight: 600; } thead th { color: var(--muted); font-weight: 500; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.wide { overflow-wrap: anywhere; }
.good { background: var(--markback); color: var(--mark); padding: 0 .3rem; border-radius: 4px;
  font-weight: 600; }
figure { margin: .75rem 0 1.25rem; } figure svg { width: 100%; height: auto; display: block; }
figure img, figure video { max-width: 100%; height: auto; display: block; border-radius: 4px; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(21rem, 1fr)); gap: 0 2.5rem; }
.pair > * { min-width: 0; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--link); }
@media print { :root { color-scheme: light; --page: #fff; --card: #f6f8fa; --ink: #1f2328;
  --muted: #59636e; --grid: #d8dee4; --mark: #0b6b3a; --markback: #dff5e6; --link: #1f2328; }
  body { max-width: none; padding: 0; font-size: 11px; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  figure, tr, .card, pre { break-inside: avoid; } h2, h3, caption, thead { break-after: avoid; }
  figure svg { max-height: 9cm; width: auto; max-width: 100%; }
  .scroll { overflow: visible; } }
"""


def text(value: object) -> str:
    """Any value as text without markup."""
    return html.escape(str(value))


def code(value: object) -> str:
    """A name in the typewriter face."""
    return f"<code>{text(value)}</code>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of ready markup; cells after the first are numbers or words as they come."""
    parts = ['<div class="scroll"><table>']
    if caption:
        parts.append(f"<caption>{text(caption)}</caption>")
    if heads:
        cells = "".join(f'<th scope="col">{head}</th>' for head in heads)
        parts.append(f"<thead><tr>{cells}</tr></thead>")
    parts.append("<tbody>")
    for first, *others in rows:
        cells = "".join(f'<td class="number">{cell}</td>' for cell in others)
        parts.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    parts.append("</tbody></table></div>")
    return "".join(parts)


def pairs(title: str, entries: Mapping[str, str]) -> str:
    """A titled list of names and values; nothing if there are none."""
    if not entries:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th><td class="wide">{text(value)}</td></tr>'
        for name, value in entries.items()
    )
    return f"<section><h3>{text(title)}</h3><table><tbody>{rows}</tbody></table></section>"


def figure(drawing: Figure, alt: str, caption: str = "") -> str:
    """A figure inside the page, with a caption below."""
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f"<figure>{to_svg(drawing, alt)}{below}</figure>"


def cards(entries: Mapping[str, str]) -> str:
    """A few large numbers with their names."""
    items = "".join(
        f'<div class="card"><div class="value">{text(value)}</div>'
        f'<div class="name">{text(name)}</div></div>'
        for name, value in entries.items()
    )
    return f'<div class="cards">{items}</div>' if items else ""


def facts(entries: Mapping[str, str]) -> str:
    """One line of names and values."""
    items = "".join(f"<span>{text(name)} <b>{text(x)}</b></span>" for name, x in entries.items())
    return f'<div class="facts">{items}</div>'


def notes(sentences: Iterable[str]) -> str:
    """Remarks the reader should see before the numbers."""
    return "".join(f'<p class="note">{text(sentence)}</p>' for sentence in sentences)


def details(summary: str, content: str) -> str:
    """Content that opens on a click."""
    return f"<details><summary>{text(summary)}</summary>{content}</details>"


def page(title: str, body: Iterable[str]) -> str:
    """The whole document."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )
