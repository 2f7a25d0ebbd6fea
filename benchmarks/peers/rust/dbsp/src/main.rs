//! Views as circuits of dbsp, Feldera's engine, in one thread: each query is written by hand with its operators.

mod graph;
mod source;
mod tpch;

use dbsp::RootCircuit;
use stream::{Options, measure, resident};

use source::{Built, Inputs};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VERSION: &str = "dbsp 0.349";

fn main() {
    let empty = resident();
    let options = Options::from_command_line();
    let build = |circuit: &mut RootCircuit| {
        let mut inputs = Inputs::default();
        let output = match options.query.as_str() {
            "q3" => tpch::q3(circuit, &options, &mut inputs, true),
            "q3_all" => tpch::q3(circuit, &options, &mut inputs, false),
            "q5" => tpch::q5(circuit, &options, &mut inputs),
            "paths" => graph::paths(circuit, &options, &mut inputs),
            "path_count" => graph::path_count(circuit, &options, &mut inputs),
            "star_count" => graph::star_count(circuit, &options, &mut inputs),
            "triangle_count" => graph::triangle_count(circuit, &options, &mut inputs),
            other => {
                eprintln!("no circuit for {other}");
                std::process::exit(3);
            }
        };
        Ok(Built { inputs, output })
    };
    let (circuit, built) = RootCircuit::build(build).expect("the circuit cannot be built");
    let sum = std::cell::RefCell::new(stream::Sum::default());
    let Built { mut inputs, output } = built;
    let apply = |position: i64| {
        inputs.advance(position);
        circuit.transaction().expect("the transaction failed");
        output.read(&mut sum.borrow_mut());
    };
    measure(&options, VERSION, empty, apply, || sum.take());
}
