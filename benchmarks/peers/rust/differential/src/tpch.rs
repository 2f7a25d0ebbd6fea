//! Queries of TPC-H. Money is in cents and discounts in hundredths, so revenue has four decimals.

use differential_dataflow::operators::CountTotal;
use stream::{Options, Table, text};
use timely::dataflow::Scope;

use crate::source::{Inputs, Sink, Time};

const Q3_DATE: i64 = 9_204; // 1995-03-15
const Q5_FROM: i64 = 8_766; // 1994-01-01
const Q5_TO: i64 = 9_131; // 1995-01-01

fn revenue(lineitem: &Table, i: usize) -> (i64, i64) {
    (lineitem.integers("l_extendedprice")[i], lineitem.integers("l_discount")[i])
}

/// Revenue of the unshipped orders of a market segment; with `filtered` false, of all orders.
pub fn q3(scope: Scope<'_, Time>, options: &Options, inputs: &mut Inputs, sink: Sink, filtered: bool) {
    let customer = inputs.table(scope, options, "customer", |c, i| {
        (c.integers("c_custkey")[i], if filtered { c.texts("c_mktsegment")[i].clone() } else { String::new() })
    });
    let orders = inputs.table(scope, options, "orders", |o, i| {
        (
            o.integers("o_orderkey")[i],
            o.integers("o_custkey")[i],
            o.integers("o_orderdate")[i],
            o.integers("o_shippriority")[i],
        )
    });
    let lineitem = inputs.table(scope, options, "lineitem", |l, i| {
        let shipped = if filtered { l.integers("l_shipdate")[i] } else { 0 };
        (l.integers("l_orderkey")[i], revenue(l, i), shipped)
    });
    let segment = customer.filter(move |(_, segment)| !filtered || segment == "BUILDING").map(|(customer, _)| customer);
    let ordered = orders
        .filter(move |(_, _, date, _)| !filtered || *date < Q3_DATE)
        .map(|(order, customer, date, priority)| (customer, (order, date, priority)))
        .arrange_by_key()
        .join_core(segment.arrange_by_self(), |_, (order, date, priority), ()| Some((*order, (*date, *priority))));
    let lines = lineitem
        .filter(move |(_, _, shipped)| !filtered || *shipped > Q3_DATE)
        .explode(|(order, (price, discount), _)| Some((order, price * (100 - discount))));
    let sums = ordered
        .arrange_by_key()
        .join_core(lines.arrange_by_self(), |order, (date, priority), ()| Some((*order, *date, *priority)))
        .count_total_core::<i64>();
    sink.read(sums, |((order, date, priority), revenue)| [*order, *revenue, *date, *priority]);
}

/// Revenue of a region's nations from orders whose customer and supplier are of the same nation.
pub fn q5(scope: Scope<'_, Time>, options: &Options, inputs: &mut Inputs, sink: Sink) {
    let region = inputs.table(scope, options, "region", |r, i| (r.integers("r_regionkey")[i], r.texts("r_name")[i].clone()));
    let nation = inputs.table(scope, options, "nation", |n, i| {
        (n.integers("n_regionkey")[i], (n.integers("n_nationkey")[i], n.texts("n_name")[i].clone()))
    });
    let supplier =
        inputs.table(scope, options, "supplier", |s, i| (s.integers("s_suppkey")[i], s.integers("s_nationkey")[i]));
    let customer =
        inputs.table(scope, options, "customer", |c, i| (c.integers("c_nationkey")[i], c.integers("c_custkey")[i]));
    let orders = inputs.table(scope, options, "orders", |o, i| {
        (o.integers("o_custkey")[i], o.integers("o_orderkey")[i], o.integers("o_orderdate")[i])
    });
    let lineitem = inputs.table(scope, options, "lineitem", |l, i| {
        ((l.integers("l_orderkey")[i], l.integers("l_suppkey")[i]), revenue(l, i))
    });
    let asia = region.filter(|(_, name)| name == "ASIA").map(|(region, _)| region);
    let nations = nation.semijoin(asia).map(|(_, named)| named).arrange_by_key();
    let customers = customer.arrange_by_key().join_core(nations.clone(), |nation, customer, _| Some((*customer, *nation)));
    let ordered = orders
        .filter(|(_, _, date)| (Q5_FROM..Q5_TO).contains(date))
        .map(|(customer, order, _)| (customer, order))
        .arrange_by_key()
        .join_core(customers.arrange_by_key(), |_, order, nation| Some((*order, *nation)));
    let lines = lineitem.explode(|(line, (price, discount))| Some((line, price * (100 - discount))));
    let local = lines
        .arrange_by_key()
        .join_core(ordered.arrange_by_key(), |_, supplier, nation| Some((*supplier, *nation)))
        .arrange_by_self()
        .join_core(supplier.arrange_by_self(), |(_, nation), (), ()| Some(*nation));
    let sums = local
        .count_total_core::<i64>()
        .arrange_by_key()
        .join_core(nations, |_, revenue, name| Some((name.clone(), *revenue)));
    sink.read(sums, |(name, revenue)| [text(name), *revenue]);
}
