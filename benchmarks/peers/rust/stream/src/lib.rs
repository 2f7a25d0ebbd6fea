//! What every program shares: reading a stream's files, cutting it into transactions, clocks, and the check of answers.
//!
//! A stream is a folder with an Arrow file for each table: its columns, `_weight` and `_position`. Rows with position -1
//! are loaded first; a transaction consists of the rows of all tables with positions from one number up to another.
//! `benchmarks/peers/stream.py` has the same rules for peers in Python.

mod clock;
mod table;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

pub use table::{Table, text};

/// What the driver asks for: transactions of `size` changes are measured in each of `rounds` equal parts of the stream
/// after the first `fill` changes, at most `most` changes and `seconds` in all; the rest of a part is applied unmeasured,
/// in transactions of `step` changes.
pub struct Options {
    pub folder: PathBuf,
    pub query: String,
    out: PathBuf,
    size: i64,
    step: i64,
    fill: i64,
    total: i64,
    rounds: i64,
    most: i64,
    seconds: f64,
    limit: f64,
}

impl Options {
    pub fn from_command_line() -> Self {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let named: HashMap<&str, &str> =
            words.chunks_exact(2).map(|pair| (pair[0].trim_start_matches('-'), pair[1].as_str())).collect();
        let word = |name: &str| *named.get(name).unwrap_or_else(|| panic!("--{name} is missing"));
        let number = |name: &str| word(name).parse::<i64>().unwrap_or_else(|_| panic!("--{name} is not a number"));
        Options {
            folder: word("folder").into(),
            query: word("query").to_string(),
            out: word("out").into(),
            size: number("size"),
            step: number("step"),
            fill: number("fill"),
            total: number("total"),
            rounds: number("rounds"),
            most: number("most"),
            seconds: word("seconds").parse().expect("--seconds is not a number"),
            limit: word("limit").parse().expect("--limit is not a number"),
        }
    }

    pub fn table(&self, name: &str) -> Table {
        Table::read(&self.folder.join(format!("{name}.arrow")))
    }
}

/// A table's rows in the form a program works with, handed out in the order of the stream.
pub struct Feed<R> {
    rows: Vec<(R, i64)>,
    position: Vec<i64>,
    next: usize,
}

impl<R> Feed<R> {
    pub fn new(table: &Table, row: impl Fn(usize) -> R) -> Self {
        let rows = (0..table.len()).map(|i| (row(i), table.weight[i])).collect();
        Feed { rows, position: table.position.clone(), next: 0 }
    }

    /// The rows before a position of the stream that have not been handed out yet.
    pub fn up_to(&mut self, position: i64) -> &[(R, i64)] {
        let first = self.next;
        while self.next < self.rows.len() && self.position[self.next] < position {
            self.next += 1;
        }
        &self.rows[first..self.next]
    }
}

/// The sum of all deltas: how many there were, the rows of the answer, and a checksum of them.
#[derive(Default)]
pub struct Sum {
    pub deltas: u64,
    pub rows: i64,
    pub check: u64,
}

impl Sum {
    pub fn add(&mut self, lanes: &[i64], weight: i64) {
        self.deltas += 1;
        self.rows += weight;
        self.check = self.check.wrapping_add(hash(lanes).wrapping_mul(weight as u64));
    }
}

/// The hash of a row. The answer's checksum is the sum of its rows' hashes, so it can be computed from deltas.
pub fn hash(lanes: &[i64]) -> u64 {
    let mut hash = 0u64;
    for lane in lanes {
        hash = (hash ^ *lane as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 32;
    }
    hash
}

/// Applies the stream through `apply`, which brings the program to a position, and writes what was measured.
pub fn measure(options: &Options, version: &str, empty: u64, mut apply: impl FnMut(i64), sum: impl Fn() -> Sum) {
    let stream = clock::resident();
    let began = Instant::now();
    let mut at = 0;
    apply(0);
    let unmeasured = |at: &mut i64, end: i64, apply: &mut dyn FnMut(i64)| {
        while *at < end {
            *at = (*at + options.step).min(end);
            apply(*at);
        }
    };
    unmeasured(&mut at, options.fill, &mut apply);
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    let mut measured = 0;
    for round in 0..options.rounds {
        let end = options.fill + (options.total - options.fill) * (round + 1) / options.rounds;
        let round_began = Instant::now();
        let first = at;
        while at + options.size <= end
            && at - first < options.most / options.rounds
            && round_began.elapsed().as_secs_f64() < options.seconds / options.rounds as f64
        {
            let (wall, cpu) = (Instant::now(), clock::processor());
            apply(at + options.size);
            cpus.push(clock::processor() - cpu);
            walls.push(wall.elapsed().as_nanos() as u64);
            at += options.size;
        }
        measured += at - first;
        if began.elapsed().as_secs_f64() > options.limit {
            break;
        }
        unmeasured(&mut at, end, &mut apply);
    }
    let resident = clock::resident();
    let sum = sum();
    let mut text = String::new();
    write!(
        text,
        "{{\"version\": \"{version}\", \"position\": {at}, \"measured\": {measured}, \"deltas\": {}, \"rows\": {}, \
         \"check\": {}, \"empty\": {empty}, \"resident\": {}, \"wall\": {walls:?}, \"processor\": {cpus:?}}}",
        sum.deltas,
        sum.rows,
        sum.check,
        resident.saturating_sub(stream.saturating_sub(empty)),
    )
    .unwrap();
    std::fs::write(&options.out, text).expect("the result cannot be written");
}

/// Resident memory of this process in bytes.
pub fn resident() -> u64 {
    clock::resident()
}
