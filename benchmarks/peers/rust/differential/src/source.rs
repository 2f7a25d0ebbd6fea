//! Tables as inputs of a dataflow, and the sink that reads every delta.

use std::cell::RefCell;
use std::rc::Rc;

use differential_dataflow::input::InputSession;
use differential_dataflow::{Data, VecCollection};
use stream::{Feed, Options, Sum, Table};
use timely::dataflow::Scope;
use timely::dataflow::operators::probe::Handle;

pub type Time = u64;
pub type Rows<'s, D> = VecCollection<'s, Time, D, i64>;

trait Input {
    fn advance(&mut self, position: i64, time: Time);
}

struct Source<R: Data> {
    feed: Feed<R>,
    session: InputSession<Time, R, i64>,
}

impl<R: Data> Input for Source<R> {
    fn advance(&mut self, position: i64, time: Time) {
        for (row, weight) in self.feed.up_to(position) {
            self.session.update(row.clone(), *weight);
        }
        self.session.advance_to(time);
        self.session.flush();
    }
}

#[derive(Default)]
pub struct Inputs(Vec<Box<dyn Input>>);

impl Inputs {
    /// A table of the stream as a collection; `row` makes the program's own form of a row.
    pub fn table<'s, R: Data>(
        &mut self,
        scope: Scope<'s, Time>,
        options: &Options,
        name: &str,
        row: impl Fn(&Table, usize) -> R,
    ) -> Rows<'s, R> {
        let table = options.table(name);
        let mut session = InputSession::new();
        let rows = session.to_collection(scope);
        self.0.push(Box::new(Source { feed: Feed::new(&table, |i| row(&table, i)), session }));
        rows
    }

    pub fn advance(&mut self, position: i64, time: Time) {
        for input in &mut self.0 {
            input.advance(position, time);
        }
    }
}

pub struct Sink {
    pub sum: Rc<RefCell<Sum>>,
    pub probe: Handle<Time>,
}

impl Sink {
    pub fn read<D: Clone + 'static, const N: usize>(self, rows: Rows<'_, D>, lanes: impl Fn(&D) -> [i64; N] + 'static) {
        let Sink { sum, probe } = self;
        rows.inspect_batch(move |_, deltas| {
            let mut sum = sum.borrow_mut();
            for (row, _, weight) in deltas {
                sum.add(&lanes(row), *weight);
            }
        })
        .probe_with(&probe);
    }
}
