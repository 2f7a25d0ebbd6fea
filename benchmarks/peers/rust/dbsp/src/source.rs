//! Tables as inputs of a circuit, and the output of which every delta is read.

use dbsp::typed_batch::{IndexedZSetReader, SpineSnapshot};
use dbsp::utils::Tup2;
use dbsp::{DBData, OrdIndexedZSet, OrdZSet, OutputHandle, RootCircuit, Stream, ZSetHandle};
use stream::{Feed, Options, Sum, Table};

pub type Rows<R> = Stream<RootCircuit, OrdZSet<R>>;

trait Input {
    fn advance(&mut self, position: i64);
}

struct Source<R: DBData> {
    feed: Feed<R>,
    handle: ZSetHandle<R>,
}

impl<R: DBData> Input for Source<R> {
    fn advance(&mut self, position: i64) {
        let rows = self.feed.up_to(position);
        if !rows.is_empty() {
            let mut changes: Vec<_> = rows.iter().map(|(row, weight)| Tup2(row.clone(), *weight)).collect();
            self.handle.append(&mut changes);
        }
    }
}

#[derive(Default)]
pub struct Inputs(Vec<Box<dyn Input>>);

impl Inputs {
    /// A table of the stream as a Z-set; `row` makes the program's own form of a row.
    pub fn table<R: DBData>(
        &mut self,
        circuit: &mut RootCircuit,
        options: &Options,
        name: &str,
        row: impl Fn(&Table, usize) -> R,
    ) -> Rows<R> {
        let table = options.table(name);
        let (rows, handle) = circuit.add_input_zset::<R>();
        self.0.push(Box::new(Source { feed: Feed::new(&table, |i| row(&table, i)), handle }));
        rows
    }

    pub fn advance(&mut self, position: i64) {
        for input in &mut self.0 {
            input.advance(position);
        }
    }
}

pub trait Read {
    fn read(&self, sum: &mut Sum);
}

pub struct Built {
    pub inputs: Inputs,
    pub output: Box<dyn Read>,
}

struct Output<K: DBData, V: DBData, F> {
    handle: OutputHandle<SpineSnapshot<OrdIndexedZSet<K, V>>>,
    lanes: F,
}

impl<K: DBData, V: DBData, const N: usize, F: Fn(&K, &V) -> [i64; N]> Read for Output<K, V, F> {
    fn read(&self, sum: &mut Sum) {
        for (key, value, weight) in self.handle.concat().iter() {
            sum.add(&(self.lanes)(&key, &value), weight);
        }
    }
}

/// Reads all deltas of a stream; `lanes` gives the row of a key and value.
pub fn output<K: DBData, V: DBData, const N: usize>(
    rows: Stream<RootCircuit, OrdIndexedZSet<K, V>>,
    lanes: impl Fn(&K, &V) -> [i64; N] + 'static,
) -> Box<dyn Read> {
    Box::new(Output { handle: rows.accumulate_output(), lanes })
}
