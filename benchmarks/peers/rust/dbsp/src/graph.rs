//! Queries over the edges of one graph.

use dbsp::RootCircuit;
use dbsp::utils::{Tup2, Tup4};
use stream::Options;

use crate::source::{Inputs, Read, Rows, output};

fn edges(circuit: &mut RootCircuit, options: &Options, inputs: &mut Inputs) -> Rows<Tup2<i64, i64>> {
    inputs.table(circuit, options, "g", |g, i| Tup2(g.integers("src")[i], g.integers("dst")[i]))
}

/// Paths of three edges whose last vertex passes the filter. The filter comes first, so the stored pairs are few.
pub fn paths(circuit: &mut RootCircuit, options: &Options, inputs: &mut Inputs) -> Box<dyn Read> {
    let edges = edges(circuit, options, inputs);
    let by_end = edges.map_index(|Tup2(src, dst)| (*dst, *src));
    let last = edges.filter(|Tup2(_, dst)| dst % 10 == 0).map_index(|Tup2(src, dst)| (*src, *dst));
    let pairs = by_end.join_index(&last, |c, b, d| Some((*b, Tup2(*c, *d))));
    let paths = by_end.join_index(&pairs, |b, a, Tup2(c, d)| Some((Tup4(*a, *b, *c, *d), ())));
    output(paths, |Tup4(a, b, c, d), ()| [*a, *b, *c, *d])
}

/// How many paths of three edges there are: the weight of a vertex is the number of paths that end there.
pub fn path_count(circuit: &mut RootCircuit, options: &Options, inputs: &mut Inputs) -> Box<dyn Read> {
    let edges = edges(circuit, options, inputs);
    let ends = edges.map_index(|Tup2(_, dst)| (*dst, ()));
    let starts = edges.map_index(|Tup2(src, _)| (*src, ()));
    let middle = edges.map_index(|Tup2(src, dst)| (*src, *dst));
    let twice = ends.join_index(&middle, |_, (), dst| Some((*dst, ())));
    output(twice.join(&starts, |_, (), ()| ()).weighted_count(), |(), count| [*count])
}

/// How many stars of four edges there are: the fourth power of each vertex's edges.
pub fn star_count(circuit: &mut RootCircuit, options: &Options, inputs: &mut Inputs) -> Box<dyn Read> {
    let degrees = edges(circuit, options, inputs).map(|Tup2(src, _)| *src).weighted_count();
    let stars = degrees.map_index(|(_, degree)| ((), degree.pow(4)));
    output(stars.aggregate_linear(|stars| *stars), |(), count| [*count])
}

/// How many triangles there are: pairs of edges that an edge closes.
pub fn triangle_count(circuit: &mut RootCircuit, options: &Options, inputs: &mut Inputs) -> Box<dyn Read> {
    let edges = edges(circuit, options, inputs);
    let by_end = edges.map_index(|Tup2(src, dst)| (*dst, *src));
    let by_start = edges.map_index(|Tup2(src, dst)| (*src, *dst));
    let pairs = by_end.join_index(&by_start, |_, a, c| Some((Tup2(*c, *a), ())));
    let closing = edges.map_index(|edge| (*edge, ()));
    output(pairs.join(&closing, |_, (), ()| ()).weighted_count(), |(), count| [*count])
}
