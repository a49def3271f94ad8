"""Questions in threads of their own: asked side by side, and not waited for without end."""

from __future__ import annotations

import time

import pytest

from spikelm.machine.questions import Question


def test_questions_are_asked_side_by_side_and_a_late_one_has_no_answer() -> None:
    started = time.monotonic()
    late = [Question(lambda: time.sleep(20)) for _ in range(3)]
    assert Question(lambda: 7).answer(5) == 7
    assert [question.answer(0.05) for question in late] == [None] * 3
    assert time.monotonic() - started < 5


def test_what_a_question_raises_is_raised_where_the_answer_is_wanted() -> None:
    def ask() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Question(ask).answer(5)
