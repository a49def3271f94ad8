"""Letters of footnotes, and text that LaTeX can set."""

from __future__ import annotations

import re
from collections.abc import Sequence

SMALL = str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
LETTERS = "abcdefghijklmnoprstuvwxyz"  # there is no small raised q
LATEX = {
    **{"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_"},
    **{"{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "−": r"$-$", "–": "--", "…": r"\dots{}", "·": r"$\cdot$", "×": r"$\times$"},
    **{"<": r"$<$", ">": r"$>$", "α": r"$\alpha$", "|": r"$|$", '"': "''"},
}


def letter(place: int) -> str:
    """The mark of the n-th footnote, counted from 0."""
    return LETTERS[place]


def mark(places: Sequence[int]) -> str:
    """The raised letters behind a cell."""
    return ",".join(letter(place) for place in places).translate(SMALL)


def latex_text(text: str) -> str:
    """`text` with all that LaTeX would take for a command; alpha in the levels of spikes is the letter."""
    escaped = "".join(LATEX.get(sign, sign) for sign in text)
    if "{" not in text:
        return escaped
    return re.sub(r"(-?)\balpha\b", lambda found: rf"${found[1]}\alpha$", escaped)
