"""Texts read as dates and times by a pattern, and written by one."""

# ruff: noqa: E501
from __future__ import annotations

#: Pattern → texts, some of which it fits.
READ = {
    "yyyy-MM-dd": ("2024-02-29", "2024-2-29", "2023-02-29", "2024-02-29 ", "2024-02-29 01:00:00", ""),
    "yyyy-MM-dd HH:mm:ss": ("2024-02-29 13:14:15", "2024-02-29 1:2:3", "2024-02-29 24:00:00", "2024-02-29 23:59:60"),
    "d/M/y": ("29/2/2024", "1/01/24", "031/1/2024"),
    "d/M/yy": ("29/2/24", "1/1/99", "1/1/2024"),
    "dd MMM yyyy": ("31 Dec 2024", "31 dec 2024", "31 December 2024", "30 FEB 2024"),
    "MMMM d, y": ("May 5, 2024", "december 31, 999", "Dec 31, 2024"),
    "LLL d yyyy": ("Dec 31 2024",),
    "yyyyMMdd": ("20240229", "2024229", "020240229"),
    "yyyyMMddHHmmss": ("20240229131415", "2024022913141"),
    "yyyy-MM-dd'T'HH:mm:ss.SSSX": (
        "2024-02-29T13:14:15.123Z", "2024-02-29T13:14:15.1+02", "2024-02-29T13:14:15.123-0230", "2024-02-29T13:14:15Z",
    ),
    "yyyy-MM-dd HH:mm:ss.SSSSSS": ("2024-02-29 13:14:15.123456", "2024-02-29 13:14:15.1", "2024-02-29 13:14:15.1234567"),
    "yyyy-MM-dd[ HH:mm[:ss[.SSS]]]": (
        "2024-02-29", "2024-02-29 13:14", "2024-02-29 13:14:15.12", "2024-02-29 13", "2024-02-29 13:14:",
    ),
    "[yyyy-MM-dd][MM/dd/yyyy]": ("2024-02-29", "02/29/2024", "", "2024-02-2902/29/2024", "2024/02/29"),
    "[yyyy-MM-dd HH:mm][yyyy-MM-dd]": ("2024-02-29 13:14", "2024-02-29", "2024-02-29 13"),
    "[dd][dd/MM]/yyyy": ("29/02/2024", "29/2024"),
    "d[d]": ("1", "24", "124"),
    "yyyy[-MM[-dd": ("2024", "2024-02", "2024-02-29", "2024-"),
    "[MMM ][MM ]yyyy": ("Feb 2024", "02 2024", "2024", "Feb 02 2024", "Feb 03 2024"),
    "hh:mm a": ("01:30 PM", "13:30 PM", "12:30 am", "00:30 AM", "1:30 PM"),
    "K:mm a": ("0:30 pm", "12:30 pm"),
    "k:mm": ("24:00", "0:00"),
    "HH hh a": ("13 01 PM", "13 01 AM", "13 02 PM"),
    "yyyy-DDD": ("2024-060", "2023-366", "2024-60"),
    "yyyy MM dd D": ("2024 02 29 60", "2024 02 29 61"),
    "yyyy G": ("2024 AD", "2024 Xx"),
    "HH:mmXXX": ("13:14+02:00", "13:14Z", "13:14+19:00"),
    "HH:mmO": ("13:14GMT+2", "13:14GMT"),
    "'on' dd 'o''clock'": ("on 05 o'clock", "ON 05 O'CLOCK"),
    "yyyy-QQQ": ("2024-Q1",),
    "YYYY": ("2024",), "EEE, d MMM yyyy": ("Thu, 29 Feb 2024",), "yyyyyyy": ("2024",), "'open": ("open",),
    "yyyy{": ("2024{",), "yyyy]": ("2024]",), "MMMMM": ("F",), "aa": ("AM",), "SSSSSSSSSS": ("1",), "": ("",),
}  # fmt: skip
WRITTEN = (
    "yyyy-MM-dd HH:mm:ss.SSSSSS", "y M d H m s S", "yy MM dd", "MMM MMMM L LL LLL LLLL", "E EEE EEEE", "D DD DDD",
    "h K k a", "hh KK kk", "Q QQ QQQ QQQQ q", "F", "G GGGG", "X XXX x xxx Z ZZZZ ZZZZZ O", "VV z zzzz", "SSS SSSSSSSSS",
    "'it''s' yyyy", "[yyyy][-MM]", "[yyyy", "g", "yyyyyy", "", "e", "Y", "w", "u", "A", "n", "yyyy{", "yyyyyyy", "MMMMM",
    "EEEEE", "aa", "DDDD", "'", "yyyy]",
)  # fmt: skip


def quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


QUERIES = [
    *(f"SELECT TRY_TO_TIMESTAMP(x, {quoted(p)}) AS x FROM VALUES {', '.join(f'({quoted(t)})' for t in ts)} AS v(x)"
      for p, ts in READ.items()),
    *(f"SELECT DATE_FORMAT(t1, {quoted(p)}) AS x, DATE_FORMAT(d2, {quoted(p)}) AS y FROM m" for p in WRITTEN),
    "SELECT TO_TIMESTAMP('2024-02-30', 'yyyy-MM-dd') AS x",
    "SELECT TO_TIMESTAMP('20240229131415123', 'yyyyMMddHHmmssSSS') AS x",
    "SELECT TO_TIMESTAMP('29.02.2024 13:14', 'dd.MM.yyyy HH:mm') AS x, TO_DATE('29.02.2024', 'dd.MM.yyyy') AS y",
    "SELECT TO_DATE('29.02.2024 23:30 -0200', 'dd.MM.yyyy HH:mm Z') AS x",
    "SELECT TO_DATE('x', 'dd.MM.yyyy') AS x",
    "SELECT TRY_TO_DATE('x', 'dd.MM.yyyy') AS x, TRY_TO_DATE('01.02.2024', 'dd.MM.yyyy') AS y",
    "SELECT TRY_TO_DATE('2024-02-30') AS x, TRY_TO_TIMESTAMP('x') AS y, TRY_TO_DATE('2024-02-29') AS z",
    "SELECT TO_TIMESTAMP(d1, 'yyyy') AS x, TO_TIMESTAMP(t1, 'yyyy') AS y, TO_DATE(t1, 'MM') AS z, TO_DATE(d1, 'MM') AS w FROM m",
    "SELECT TO_TIMESTAMP(NULL, 'yyyy') AS x, TO_DATE(NULL, 'yyyy') AS y, TO_TIMESTAMP('2024', NULL) AS z, TO_DATE('2024', NULL) AS w",
    "SELECT DATE_FORMAT(NULL, 'yyyy') AS x, DATE_FORMAT(DATE'2024-01-01', NULL) AS y, DATE_FORMAT('2024-02-03', 'dd/MM') AS z",
    "SELECT TO_TIMESTAMP(2024, 'yyyy') AS x",
    "SELECT TO_DATE(2024, 'yyyy') AS x",
    "SELECT TO_TIMESTAMP(1700000000) AS x",
    "SELECT TO_TIMESTAMP(true, 'yyyy') AS x",
    "SELECT TO_TIMESTAMP('2024', 'yyyy', 'UTC') AS x",
    "SELECT TO_TIMESTAMP('2024', 5) AS x",
    "SELECT UNIX_TIMESTAMP('2024-02-29 13:14:15') AS x, UNIX_TIMESTAMP('29/02/2024', 'dd/MM/yyyy') AS y, TO_UNIX_TIMESTAMP('2024-02-29', 'yyyy-MM-dd') AS z, UNIX_TIMESTAMP(NULL) AS w",
    "SELECT UNIX_TIMESTAMP('2024-02-29') AS x",
    "SELECT UNIX_TIMESTAMP('2024-02-29 13:14:15.9', 'yyyy-MM-dd HH:mm:ss.S') AS x, UNIX_TIMESTAMP('1969-12-31 23:59:59.9', 'yyyy-MM-dd HH:mm:ss.S') AS y",
    "SELECT UNIX_TIMESTAMP(d1) AS x, UNIX_TIMESTAMP(t1, 'yyyy') AS y, UNIX_TIMESTAMP(d2, 'yyyy') AS z FROM m",
    "SELECT UNIX_TIMESTAMP(5) AS x",
    "SELECT FROM_UNIXTIME(0) AS x, FROM_UNIXTIME(1700000000, 'dd.MM.yyyy HH:mm') AS y, FROM_UNIXTIME(-1, 'EEE') AS z, FROM_UNIXTIME(NULL) AS w",
    "SELECT FROM_UNIXTIME('1700000000') AS x, FROM_UNIXTIME(1.9) AS y, FROM_UNIXTIME(-1.9D) AS z",
    "SELECT FROM_UNIXTIME('abc') AS x",
    "SELECT FROM_UNIXTIME(true) AS x",
    "SELECT FROM_UNIXTIME(0, NULL) AS x",
    "SELECT FROM_UNIXTIME(n, 'ss') AS x, FROM_UNIXTIME(n) AS y FROM m",
    "SELECT DATE_FORMAT(5, 'yyyy') AS x",
    "SELECT DATE_FORMAT(t1, 5) AS x FROM m",
    "SELECT TO_DATE('2024-02-29 13:14:15') AS x, TO_TIMESTAMP('2024-02-29') AS y, TO_TIMESTAMP_LTZ('2024', 'yyyy') AS z",
    "SELECT COUNT(*) AS c FROM m WHERE DATE_FORMAT(t1, 'yyyy-MM') = '2024-01'",
    "SELECT DATE_FORMAT(t2, 'yyyy-MM') AS k, COUNT(*) AS c FROM m GROUP BY DATE_FORMAT(t2, 'yyyy-MM')",
    "SELECT TO_TIMESTAMP(DATE_FORMAT(t1, 'MMM d, yyyy h:mm:ss.SSSSSS a'), 'MMM d, yyyy h:mm:ss.SSSSSS a') = t1 AS x FROM m",
    "SELECT TO_CHAR(d1, 'dd/MM/yyyy') AS x, TO_VARCHAR(t1, 'HH:mm') AS y FROM m",
    "SELECT DATE('2024-02-29') AS x, TIMESTAMP('2024-02-29') AS y, DATE(t1) AS z FROM m",
]  # fmt: skip
