"""Functions that need a format, a base or a place of a bit, over literals and columns."""

# ruff: noqa: E501
from __future__ import annotations

_DOUBLES = (
    "0D, 1D, -1D, 0.5D, 2D, -2D, 1e10D, -1e10D, 1e200D, double('NaN'), double('Infinity'), double('-Infinity'), 1e-10D"
)
_EACH = (
    "width_bucket(5.3, 0.2, 10.6, 5)", "width_bucket(-2.1, 1.3, 3.4, 3)", "width_bucket(8.1, 0.0, 5.7, 4)", "width_bucket(-0.9, 5.2, 0.5, 2)",
    "width_bucket(5, 0, 10, 0)", "width_bucket(5, 3, 3, 2)", "width_bucket(10, 0, 10, 5)", "width_bucket(0, 0, 10, 5)", "width_bucket(0, 10, 0, 5)",
    "width_bucket(10, 10, 0, 5)", "width_bucket(double('NaN'), 0, 10, 5)", "width_bucket(5, double('Infinity'), 10, 5)", "width_bucket('5', 0, 10, 5)",
    "width_bucket(5, 0, 10, 9223372036854775807)", "width_bucket(NULL, 0, 10, 5)", "width_bucket(double('Infinity'), 0, 10, 5)", "width_bucket(double('-Infinity'), 0, 10, 5)",
    "bin(5)", "bin(-5)", "bin('13')", "bin(2.7)", "bin(NULL)", "bin(true)", "bin(0)", "bin(CAST(-1 AS TINYINT))",
    "conv('100', 2, 10)", "conv(-10, 16, -10)", "conv('zz', 36, 10)", "conv('', 10, 16)", "conv('abc', 10, 16)", "conv('12x', 10, 16)", "conv('-1', 10, 16)",
    "conv('-1', 10, -16)", "conv('9999999999999999999999', 10, 16)", "conv(15.7, 10, 2)", "conv('15', 37, 2)", "conv('15', 10, 1)", "conv(NULL, 10, 2)",
    "conv(' 15', 10, 2)", "conv('15 ', 10, 2)", "conv('+15', 10, 2)", "conv('-', 10, 2)", "conv('18446744073709551615', 10, 16)", "conv('18446744073709551616', 10, 16)",
    "conv('-9223372036854775808', 10, 10)", "conv('9223372036854775808', 10, -10)", "conv('-18446744073709551615', 10, 16)",
    "shiftrightunsigned(-1, 1)", "shiftrightunsigned(-1L, 1)", "shiftrightunsigned(-1, 33)", "shiftrightunsigned(-1, 0)", "shiftrightunsigned(NULL, 1)",
    "bit_get(11, 0)", "getbit(11, 2)", "bit_get(11, -1)", "bit_get(11, 32)", "bit_get(11L, 63)", "bit_get(11L, 64)", "bit_get(-1, 31)", "bit_get(CAST(1 AS TINYINT), 8)",
    "bit_get(true, 0)", "bit_get(NULL, 1)", "bit_get(11, NULL)",
    "typeof(1)", "typeof(NULL)", "typeof('a')", "typeof(1.5)", "typeof(DATE'2024-01-01')", "typeof(INTERVAL '1' DAY)", "typeof(CAST('a' AS VARCHAR(3)))", "typeof(1Y)",
    "format_string('%d %s', 1, 'a')", "format_string('%5d|%-5d|%05d|%,d|%+d|%x|%X', 1, 2, 3, 1234567, 5, 255, 255)", "format_string('%s %s %s', 1.5, true, NULL)",
    "format_string('%10s|%-10s|%.2s', 'ab', 'ab', 'abc')", "format_string('%f %.2f', 1.5D, 2.345D)", "format_string('%.1f %.1f %.1f', 0.25D, 0.35D, -0.04D)", "format_string('%d', 1.5)",
    "format_string('%d', 'a')", "format_string('%s')", "format_string('%')", "format_string('%% %n')", "format_string('%2$s %1$s', 'a', 'b')", "format_string('%d', NULL)", "format_string(NULL, 1)",
    "format_string('%s %s', 1D, 1e10D)", "format_string('%s', CAST(1.50 AS DECIMAL(5,2)))", "format_string('%f', 1)", "format_string('%S', 'abc')", "format_string('abc')", "format_string('')",
    "format_string('%d %d', 1L, 3Y)", "format_string('%x %x %x', -1, -1L, -1Y)", "format_string('%08.2f', -3.14159D)", "format_string('%,.2f', 1234567.891D)", "format_string('%(d', -5)",
    "format_string('% d', 5)", "format_string('%s', double('NaN'))", "format_string('%i', 5)", "format_string('%d %d', 1)", "format_string('%d', 1, 2)", "printf('%d', 5)", "format_string('%-d', 5)",
    "format_string('%#x', 255)", "format_string('%s', 1.5F)", "format_string('%05d %5d', -3, NULL)", "format_string('%.0f', 2.5D)", "format_string('%,d', -1234567)", "format_string('%010x', 255)",
)  # fmt: skip

QUERIES = [
    *(
        f"SELECT {f}(x) AS x FROM VALUES ({_DOUBLES.replace(', ', '), (')}) AS v(x)"
        for f in ("asinh", "acosh", "atanh", "cot", "sec", "csc")
    ),
    *(f"SELECT {e} AS x" for e in _EACH),
    "SELECT cot(1), sec('0'), csc(1.5), asinh(NULL), acosh(2), atanh(0.5)",
    "SELECT format_string('%d-%05d %s|%6s|%x', x, y, s, s, x) AS f, bin(x) AS b, conv(s, 36, 10) AS c, bit_get(x, y) AS g, typeof(y) AS t FROM p",
    "SELECT width_bucket(x, 0, 4, 2) AS w, shiftrightunsigned(-x, y) AS u, printf('%,.1f', x * 1000.25D) AS f FROM p",
    "SELECT typeof(x) AS t, COUNT(*) AS c FROM p GROUP BY typeof(x)",
]
