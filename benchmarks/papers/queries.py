"""The queries of the papers, as SQL, and the tables they read.

CROWN, appendix D: paths, combs, stars and dumbbells over one graph, and four queries over a social network (SNB).
IEDyn, table 1: twelve inequality joins, and the fraud query of its introduction. Cycles: the building blocks of cyclic
queries.
"""

from __future__ import annotations

GRAPH_DDL = (
    "CREATE TABLE g (src BIGINT, dst BIGINT); CREATE TABLE v1 (v BIGINT); CREATE TABLE v2 (v BIGINT PRIMARY KEY)"
)
_THREE = "FROM g g1, g g2, g g3 WHERE g1.dst = g2.src AND g2.dst = g3.src"
_FOUR = "FROM g g1, g g2, g g3, g g4 WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst = g4.src"
_COMB = "FROM g g1, g g2, g g3, v1, v2 WHERE g1.dst = g2.src AND g2.dst = g3.src AND v1.v = g1.src AND v2.v = g3.dst"
_DUMBBELL = (
    "FROM g g1, g g2, g g3, g g4, g g5, g g6, g g7"
    " WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst = g1.src"
    " AND g5.dst = g6.src AND g6.dst = g7.src AND g7.dst = g5.src AND g4.src = g3.dst AND g4.dst = g5.src"
)


def graph_queries(keep: int = 10) -> dict[str, str]:
    """CROWN's graph queries. If the paper filters the end of a path, one vertex in `keep` passes the filter."""
    three, four = f"g3.dst % {keep} = 0", f"g4.dst % {keep} = 0"
    return {
        "three_hop": f"SELECT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d {_THREE} AND {three}",
        "four_hop": f"SELECT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d, g4.dst AS e {_FOUR} AND {four}",
        "three_hop_project": f"SELECT g2.src AS b, g3.src AS c {_THREE}",
        "three_hop_distinct": f"SELECT DISTINCT g2.src AS b, g3.src AS c {_THREE}",
        "four_hop_project": f"SELECT g2.src AS b, g3.src AS c, g3.dst AS d {_FOUR} AND {four}",
        "four_hop_distinct": f"SELECT DISTINCT g2.src AS b, g3.src AS c, g3.dst AS d {_FOUR} AND {four}",
        "two_comb": f"SELECT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d {_COMB}",
        "star": "SELECT g1.src, COUNT(*) AS n FROM g g1, g g2, g g3, g g4"
        " WHERE g1.src = g2.src AND g1.src = g3.src AND g1.src = g4.src GROUP BY g1.src",
    }


#: Cyclic queries: CROWN's dumbbells, and the cycles that other papers count.
CYCLES = {
    "triangle": "SELECT g1.src AS a, g2.src AS b, g3.src AS c FROM g g1, g g2, g g3"
    " WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst = g1.src",
    "four_cycle": f"SELECT g1.src AS a, g2.src AS b, g3.src AS c, g4.src AS d {_FOUR} AND g4.dst = g1.src",
    "four_clique": "SELECT ab.src AS a, ab.dst AS b, ac.dst AS c, ad.dst AS d FROM g ab, g ac, g ad, g bc, g bd, g cd"
    " WHERE ab.src = ac.src AND ab.src = ad.src AND ab.dst = bc.src AND ab.dst = bd.src"
    " AND ac.dst = bc.dst AND ac.dst = cd.src AND ad.dst = bd.dst AND ad.dst = cd.dst",
    "dumbbell": f"SELECT g1.src AS a, g2.src AS b, g3.src AS c, g5.src AS d, g6.src AS e, g7.src AS f {_DUMBBELL}",
    "dumbbell_project": f"SELECT g4.src, g4.dst {_DUMBBELL}",
    "dumbbell_distinct": f"SELECT DISTINCT g4.src, g4.dst {_DUMBBELL}",
}

SNB_DDL = """
CREATE TABLE person (p_personid BIGINT PRIMARY KEY, p_firstname STRING, p_lastname STRING);
CREATE TABLE knows (k_person1id BIGINT, k_person2id BIGINT, PRIMARY KEY (k_person1id, k_person2id));
CREATE TABLE message (m_messageid BIGINT PRIMARY KEY, m_creatorid BIGINT, m_c_replyof BIGINT);
CREATE TABLE message_tag (mt_messageid BIGINT, mt_tagid BIGINT, PRIMARY KEY (mt_messageid, mt_tagid));
CREATE TABLE tag (t_tagid BIGINT PRIMARY KEY, t_name STRING)
"""


def snb_queries(keep: int = 10) -> dict[str, str]:
    """CROWN's queries over the social network; one person in `keep` passes the filter."""
    tagged = "m_messageid = mt_messageid AND mt_tagid = t_tagid AND m_c_replyof IS NULL"
    two = (
        "SELECT k1.k_person1id AS a, k1.k_person2id AS b, k2.k_person2id AS c, t_tagid, m_messageid"
        f" FROM tag, message, message_tag, knows k1, knows k2 WHERE {tagged}"
        f" AND k1.k_person2id = k2.k_person1id AND m_creatorid = k2.k_person2id AND k1.k_person1id % {keep} = 0"
    )
    return {
        "snb_1": "SELECT p_personid, p_firstname, p_lastname, m_messageid, k_person1id FROM person, message, knows"
        " WHERE p_personid = m_creatorid AND k_person2id = p_personid",
        "snb_2": two,
        "snb_3": f"{two} AND k2.k_person2id <> k1.k_person1id",
        "snb_4": "SELECT t_name, t_tagid, COUNT(DISTINCT m_messageid) AS n FROM tag, message, message_tag, knows"
        f" WHERE {tagged} AND m_creatorid = k_person2id AND k_person1id % {keep} = 0 GROUP BY t_name, t_tagid",
    }


INEQUALITY_DDL = (
    "CREATE TABLE r (a BIGINT, b BIGINT, c STRING, k BIGINT); CREATE TABLE s (d BIGINT, e BIGINT, f BIGINT, k BIGINT);"
    " CREATE TABLE t (g BIGINT, h BIGINT, i STRING, k BIGINT)"
)
_R, _S, _T = "r.a, r.b, r.c", "s.d, s.e, s.f", "t.g, t.h, t.i"
_Q4 = "FROM r, s, t WHERE r.a < s.d AND s.d < t.g"
_Q5 = f"{_Q4} AND r.k = s.k"
_Q6 = f"{_Q4} AND s.k = t.k"
_ENDS = "SELECT r.b, r.c, s.e, s.f, t.h, t.i"
#: IEDyn's table 1. 1 to 6 are full joins, 7 to 9 free-connex projections of 4 to 6, 10 to 12 not free-connex ones.
INEQUALITIES = {
    "q1": f"SELECT {_R}, {_S} FROM r, s WHERE r.a < s.d",
    "q2": f"SELECT {_R}, {_S}, r.k FROM r, s WHERE r.a < s.d AND r.k = s.k",
    "q3": f"SELECT {_R}, {_S}, {_T} FROM r, s, t WHERE r.a < s.d AND s.e < t.g",
    "q4": f"SELECT {_R}, {_S}, {_T} {_Q4}",
    "q5": f"SELECT {_R}, {_S}, {_T}, s.k {_Q5}",
    "q6": f"SELECT {_R}, {_S}, {_T}, s.k {_Q6}",
    "q7": f"SELECT r.a, r.b, {_S}, t.g, t.h {_Q4}",
    "q8": f"SELECT r.a, {_S}, t.g, t.h, s.k {_Q5}",
    "q9": f"SELECT {_S}, t.g, t.h, s.k {_Q6}",
    "q10": f"{_ENDS} {_Q4}",
    "q11": f"{_ENDS} {_Q5}",
    "q12": f"{_ENDS} {_Q6}",
}
#: The attributes that inequalities compare, which increase along a temporally ordered stream.
TEMPORAL = {"r": ("a",), "s": ("d", "e"), "t": ("g",)}

FRAUD_DDL = "CREATE TABLE trans (id BIGINT PRIMARY KEY, acc BIGINT, ts TIMESTAMP, amnt BIGINT)"
#: Two small payments and a large one from the same account, in this order and within an hour.
FRAUD = (
    "SELECT s1.id AS first, s2.id AS second, l.id AS large, l.acc FROM trans s1, trans s2, trans l"
    " WHERE s1.ts < s2.ts AND s2.ts < l.ts AND l.ts < s1.ts + INTERVAL 1 HOUR AND s1.acc = s2.acc AND s2.acc = l.acc"
    " AND s1.amnt < 100 AND s2.amnt < 100 AND l.amnt > 400"
)
