"""Numbers as they are printed: what is not zero never reads as zero, and digits are those of the number."""

from __future__ import annotations

import random

import pytest

from spikelm.catalog.quantities import bits_text, counted, duration, gigabytes, millijoules, significant, token_energy


def test_three_digits_count_however_small_a_number_is() -> None:
    random.seed(0)
    for _ in range(500):
        value = random.uniform(1, 10) * 10 ** random.randint(-12, 9)
        shown = float(significant(value).replace(",", ""))
        assert shown == pytest.approx(value, rel=5.1e-3)
        assert shown != 0


@pytest.mark.parametrize(
    "shown, expected",
    [
        (counted(1, "run"), "1 run"),
        (counted(0, "run"), "0 runs"),
        (counted(1234, "run"), "1,234 runs"),
        (significant(0), "0"),
        (significant(0.9999), "1.00"),
        (significant(51.41), "51.4"),
        (significant(1234.5), "1,234"),
        (significant(2.98e-7), "2.98e-07"),
        (significant(-0.0123), "-0.0123"),
        (millijoules(0.0002981), "0.0002981 mJ"),
        (millijoules(51.3987), "51.40 mJ"),
        (token_energy(0.1263), "0.1263 mJ"),
        (token_energy(0.0002691), "0.2691 µJ"),
        (token_energy(4.122e-6), "4.122 nJ"),
        (token_energy(3e-10), "0.3000 pJ"),
        (token_energy(0), "0 mJ"),
        (duration(0.042), "0.042 s"),
        (duration(0), "0 s"),
        (duration(12.4), "12 s"),
        (duration(150), "2.5 min"),
        (duration(1500), "25 min"),
        (duration(12240), "3.4 h"),
        (duration(3600 * 1234), "1,234 h"),
        (gigabytes(0.0017), "1.7 MB"),
        (gigabytes(0.00003), "30 kB"),
        (gigabytes(23.42), "23.4 GB"),
        (gigabytes(80), "80 GB"),
        (gigabytes(1200), "1.20 TB"),
        (bits_text("ter"), "ternary"),
        (bits_text("3 x ter"), "3 x ternary"),
        (bits_text(32), "32"),
    ],
)
def test_units_are_those_a_person_would_choose(shown: str, expected: str) -> None:
    assert shown == expected
