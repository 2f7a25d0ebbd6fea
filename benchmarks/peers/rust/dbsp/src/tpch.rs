//! Queries of TPC-H. Money is in cents and discounts in hundredths, so revenue has four decimals.

use dbsp::RootCircuit;
use dbsp::utils::{Tup2, Tup3, Tup4};
use stream::{Options, Table, text};

use crate::source::{Inputs, Read, output};

const Q3_DATE: i64 = 9_204; // 1995-03-15
const Q5_FROM: i64 = 8_766; // 1994-01-01
const Q5_TO: i64 = 9_131; // 1995-01-01

fn revenue(lineitem: &Table, i: usize) -> (i64, i64) {
    (lineitem.integers("l_extendedprice")[i], lineitem.integers("l_discount")[i])
}

/// Revenue of the unshipped orders of a market segment; with `filtered` false, of all orders.
pub fn q3(circuit: &mut RootCircuit, options: &Options, inputs: &mut Inputs, filtered: bool) -> Box<dyn Read> {
    let customer = inputs.table(circuit, options, "customer", |c, i| {
        Tup2(c.integers("c_custkey")[i], if filtered { c.texts("c_mktsegment")[i].clone() } else { String::new() })
    });
    let orders = inputs.table(circuit, options, "orders", |o, i| {
        Tup4(
            o.integers("o_orderkey")[i],
            o.integers("o_custkey")[i],
            o.integers("o_orderdate")[i],
            o.integers("o_shippriority")[i],
        )
    });
    let lineitem = inputs.table(circuit, options, "lineitem", |l, i| {
        let (price, discount) = revenue(l, i);
        let shipped = if filtered { l.integers("l_shipdate")[i] } else { 0 };
        Tup4(l.integers("l_orderkey")[i], price, discount, shipped)
    });
    let segment = customer
        .filter(move |Tup2(_, segment)| !filtered || segment == "BUILDING")
        .map_index(|Tup2(customer, _)| (*customer, ()));
    let ordered = orders
        .filter(move |Tup4(_, _, date, _)| !filtered || *date < Q3_DATE)
        .map_index(|Tup4(order, customer, date, priority)| (*customer, Tup3(*order, *date, *priority)))
        .join_index(&segment, |_, Tup3(order, date, priority), ()| Some((*order, Tup2(*date, *priority))));
    let lines = lineitem
        .filter(move |Tup4(_, _, _, shipped)| !filtered || *shipped > Q3_DATE)
        .map_index(|Tup4(order, price, discount, _)| (*order, price * (100 - discount)));
    let sums = ordered
        .join_index(&lines, |order, Tup2(date, priority), revenue| Some((Tup3(*order, *date, *priority), *revenue)))
        .aggregate_linear(|revenue| *revenue);
    output(sums, |Tup3(order, date, priority), revenue| [*order, *revenue, *date, *priority])
}

/// Revenue of a region's nations from orders whose customer and supplier are of the same nation.
pub fn q5(circuit: &mut RootCircuit, options: &Options, inputs: &mut Inputs) -> Box<dyn Read> {
    let region = inputs.table(circuit, options, "region", |r, i| Tup2(r.integers("r_regionkey")[i], r.texts("r_name")[i].clone()));
    let nation = inputs.table(circuit, options, "nation", |n, i| {
        Tup3(n.integers("n_regionkey")[i], n.integers("n_nationkey")[i], n.texts("n_name")[i].clone())
    });
    let supplier =
        inputs.table(circuit, options, "supplier", |s, i| Tup2(s.integers("s_suppkey")[i], s.integers("s_nationkey")[i]));
    let customer =
        inputs.table(circuit, options, "customer", |c, i| Tup2(c.integers("c_nationkey")[i], c.integers("c_custkey")[i]));
    let orders = inputs.table(circuit, options, "orders", |o, i| {
        Tup3(o.integers("o_custkey")[i], o.integers("o_orderkey")[i], o.integers("o_orderdate")[i])
    });
    let lineitem = inputs.table(circuit, options, "lineitem", |l, i| {
        let (price, discount) = revenue(l, i);
        Tup4(l.integers("l_orderkey")[i], l.integers("l_suppkey")[i], price, discount)
    });
    let asia = region.filter(|Tup2(_, name)| name == "ASIA").map_index(|Tup2(region, _)| (*region, ()));
    let nations = nation
        .map_index(|Tup3(region, nation, name)| (*region, Tup2(*nation, name.clone())))
        .join_index(&asia, |_, Tup2(nation, name), ()| Some((*nation, name.clone())));
    let customers = customer
        .map_index(|Tup2(nation, customer)| (*nation, *customer))
        .join_index(&nations, |nation, customer, _| Some((*customer, *nation)));
    let ordered = orders
        .filter(|Tup3(_, _, date)| (Q5_FROM..Q5_TO).contains(date))
        .map_index(|Tup3(customer, order, _)| (*customer, *order))
        .join_index(&customers, |_, order, nation| Some((*order, *nation)));
    let lines = lineitem
        .map_index(|Tup4(order, supplier, price, discount)| (*order, Tup2(*supplier, price * (100 - discount))));
    let suppliers = supplier.map_index(|supplier| (*supplier, ()));
    let local = lines
        .join_index(&ordered, |_, Tup2(supplier, revenue), nation| Some((Tup2(*supplier, *nation), *revenue)))
        .join_index(&suppliers, |Tup2(_, nation), revenue, ()| Some((*nation, *revenue)));
    let sums = local
        .aggregate_linear(|revenue| *revenue)
        .join_index(&nations, |_, revenue, name| Some((name.clone(), *revenue)));
    output(sums, |name, revenue| [text(name), *revenue])
}
