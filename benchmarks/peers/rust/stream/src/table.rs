//! A table's file. Numbers, dates and decimals become integers: days since 1970, and decimals without their point.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_ipc::reader::FileReader;
use arrow_schema::DataType;

enum Column {
    Integers(Vec<i64>),
    Texts(Vec<String>),
}

pub struct Table {
    columns: HashMap<String, Column>,
    pub weight: Vec<i64>,
    pub position: Vec<i64>,
}

impl Table {
    pub fn read(path: &Path) -> Self {
        let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let reader = FileReader::try_new(file, None).expect("not an Arrow file");
        let mut columns: HashMap<String, Column> = HashMap::new();
        for batch in reader {
            let batch = batch.expect("a batch cannot be read");
            for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
                let column = read_column(array);
                match (columns.get_mut(field.name()), column) {
                    (Some(Column::Integers(all)), Column::Integers(more)) => all.extend(more),
                    (Some(Column::Texts(all)), Column::Texts(more)) => all.extend(more),
                    (_, column) => drop(columns.insert(field.name().clone(), column)),
                }
            }
        }
        let mut integers = |name: &str| match columns.remove(name) {
            Some(Column::Integers(values)) => values,
            _ => panic!("{}: no column {name}", path.display()),
        };
        let (weight, position) = (integers("_weight"), integers("_position"));
        Table { columns, weight, position }
    }

    pub fn len(&self) -> usize {
        self.weight.len()
    }

    pub fn is_empty(&self) -> bool {
        self.weight.is_empty()
    }

    pub fn integers(&self, name: &str) -> &[i64] {
        match &self.columns[name] {
            Column::Integers(values) => values,
            Column::Texts(_) => panic!("{name} is text"),
        }
    }

    pub fn texts(&self, name: &str) -> &[String] {
        match &self.columns[name] {
            Column::Texts(values) => values,
            Column::Integers(_) => panic!("{name} is not text"),
        }
    }
}

fn read_column(array: &ArrayRef) -> Column {
    match array.data_type() {
        DataType::Int64 => Column::Integers(array.as_primitive::<Int64Type>().values().to_vec()),
        DataType::Int32 => {
            Column::Integers(array.as_primitive::<Int32Type>().values().iter().map(|v| *v as i64).collect())
        }
        DataType::Date32 => {
            Column::Integers(array.as_primitive::<Date32Type>().values().iter().map(|v| *v as i64).collect())
        }
        DataType::Decimal128(_, _) => {
            Column::Integers(array.as_primitive::<Decimal128Type>().values().iter().map(|v| *v as i64).collect())
        }
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            Column::Texts((0..texts.len()).map(|i| texts.value(i).to_string()).collect())
        }
        other => panic!("columns of type {other} are not read"),
    }
}

/// A text as a lane of a row's hash (FNV-1a).
pub fn text(value: &str) -> i64 {
    let fnv = value.bytes().fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| {
        (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01B3)
    });
    fnv as i64
}
