//! Queries over the edges of one graph.

use differential_dataflow::operators::CountTotal;
use stream::Options;
use timely::dataflow::Scope;

use crate::source::{Inputs, Rows, Sink, Time};

fn edges<'s>(scope: Scope<'s, Time>, options: &Options, inputs: &mut Inputs) -> Rows<'s, (i64, i64)> {
    inputs.table(scope, options, "g", |g, i| (g.integers("src")[i], g.integers("dst")[i]))
}

/// Paths of three edges whose last vertex passes the filter. The filter comes first, so the stored pairs are few.
pub fn paths(scope: Scope<'_, Time>, options: &Options, inputs: &mut Inputs, sink: Sink) {
    let edges = edges(scope, options, inputs);
    let by_end = edges.clone().map(|(src, dst)| (dst, src)).arrange_by_key();
    let last = edges.filter(|(_, dst)| dst % 10 == 0).arrange_by_key();
    let pairs = by_end.clone().join_core(last, |c, b, d| Some((*b, (*c, *d)))).arrange_by_key();
    let paths = by_end.join_core(pairs, |b, a, (c, d)| Some((*a, *b, *c, *d)));
    sink.read(paths, |(a, b, c, d)| [*a, *b, *c, *d]);
}

/// How many paths of three edges there are: the weight of a vertex is the number of paths that end there.
pub fn path_count(scope: Scope<'_, Time>, options: &Options, inputs: &mut Inputs, sink: Sink) {
    let edges = edges(scope, options, inputs);
    let ends = edges.clone().map(|(_, dst)| dst).arrange_by_self();
    let starts = edges.clone().map(|(src, _)| src).arrange_by_self();
    let twice = ends.join_core(edges.arrange_by_key(), |_, (), dst| Some(*dst)).arrange_by_self();
    let count = twice.join_core(starts, |_, (), ()| Some(())).count_total_core::<i64>();
    sink.read(count, |((), count)| [*count]);
}

/// How many stars of four edges there are: the fourth power of each vertex's edges.
pub fn star_count(scope: Scope<'_, Time>, options: &Options, inputs: &mut Inputs, sink: Sink) {
    let edges = edges(scope, options, inputs);
    let degrees = edges.map(|(src, _)| src).count_total_core::<i64>();
    let count = degrees.explode(|(_, degree)| Some(((), degree.pow(4)))).count_total_core::<i64>();
    sink.read(count, |((), count)| [*count]);
}

/// How many triangles there are: pairs of edges that an edge closes.
pub fn triangle_count(scope: Scope<'_, Time>, options: &Options, inputs: &mut Inputs, sink: Sink) {
    let edges = edges(scope, options, inputs);
    let by_end = edges.clone().map(|(src, dst)| (dst, src)).arrange_by_key();
    let pairs = by_end.join_core(edges.clone().arrange_by_key(), |_, a, c| Some((*c, *a))).arrange_by_self();
    let count = pairs.join_core(edges.arrange_by_self(), |_, (), ()| Some(())).count_total_core::<i64>();
    sink.read(count, |((), count)| [*count]);
}
