//! Views as dataflows of differential dataflow, one worker: each query is written by hand, as its users write them.
//!
//! Aggregates that are sums travel as weights, so a group is one number; nothing is consolidated that SQL would not add
//! up, and every delta is read.

mod graph;
mod source;
mod tpch;

use std::cell::RefCell;
use std::rc::Rc;

use stream::{Options, Sum, measure, resident};
use timely::dataflow::operators::probe::Handle;

use source::Inputs;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VERSION: &str = "differential-dataflow 0.25";

fn main() {
    let empty = resident();
    let options = Options::from_command_line();
    timely::execute_directly(move |worker| {
        let sum = Rc::new(RefCell::new(Sum::default()));
        let probe = Handle::new();
        let mut inputs = Inputs::default();
        worker.dataflow(|scope| {
            let sink = source::Sink { sum: sum.clone(), probe: probe.clone() };
            match options.query.as_str() {
                "q3" => tpch::q3(scope, &options, &mut inputs, sink, true),
                "q3_all" => tpch::q3(scope, &options, &mut inputs, sink, false),
                "q5" => tpch::q5(scope, &options, &mut inputs, sink),
                "paths" => graph::paths(scope, &options, &mut inputs, sink),
                "path_count" => graph::path_count(scope, &options, &mut inputs, sink),
                "star_count" => graph::star_count(scope, &options, &mut inputs, sink),
                "triangle_count" => graph::triangle_count(scope, &options, &mut inputs, sink),
                other => {
                    eprintln!("no dataflow for {other}");
                    std::process::exit(3);
                }
            }
        });
        let mut time = 0;
        let apply = |position: i64| {
            time += 1;
            inputs.advance(position, time);
            worker.step_while(|| probe.less_than(&time));
        };
        measure(&options, VERSION, empty, apply, || sum.take());
        inputs = Inputs::default();
        drop(inputs);
    });
}
