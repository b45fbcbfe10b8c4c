//! Writes small databases by the format's description (MaxMind DB 2.0).

// Not every crate that has this uses all of it.
#![allow(dead_code, unreachable_pub)]

/// A value of the data section.
#[derive(Clone, Debug)]
pub enum Value {
    Text(&'static str),
    Number(u32),
    Short(u16),
    Long(u64),
    Map(Vec<(&'static str, Value)>),
}

fn write(value: &Value, out: &mut Vec<u8>) {
    /// Type in the upper three bits, size in the lower five; none here is longer than 28.
    fn control(kind: u8, len: usize, out: &mut Vec<u8>) {
        assert!(len < 29, "longer ones take further bytes");
        if kind < 8 {
            out.push(kind << 5 | len as u8);
        } else {
            out.extend([len as u8, kind - 7]);
        }
    }
    /// Without the zeros in front.
    fn whole(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        control(kind, bytes.len() - zeros, out);
        out.extend(&bytes[zeros..]);
    }
    match value {
        Value::Text(text) => {
            control(2, text.len(), out);
            out.extend(text.as_bytes());
        }
        Value::Number(number) => whole(6, &number.to_be_bytes(), out),
        Value::Short(number) => whole(5, &number.to_be_bytes(), out),
        Value::Long(number) => whole(9, &number.to_be_bytes(), out),
        Value::Map(entries) => {
            control(7, entries.len(), out);
            for (key, value) in entries {
                write(&Value::Text(key), out);
                write(value, out);
            }
        }
    }
}

/// A database in which each network (its bits, and how many count) has a value.
pub fn database(version: u16, networks: &[(u128, u32, Value)]) -> Vec<u8> {
    let bits = if version == 4 { 32 } else { 128 };
    /// What a node leads to.
    #[derive(Clone, Copy)]
    enum To {
        Nothing,
        Node(usize),
        Data(usize),
    }
    let mut nodes = vec![[To::Nothing; 2]];
    let mut data = Vec::new();
    for (network, len, value) in networks {
        let mut node = 0;
        for depth in 0..*len {
            let side = (network >> (bits - 1 - depth)) as usize & 1;
            if depth + 1 == *len {
                nodes[node][side] = To::Data(data.len());
            } else if let To::Node(next) = nodes[node][side] {
                node = next;
            } else {
                nodes.push([To::Nothing; 2]);
                nodes[node][side] = To::Node(nodes.len() - 1);
                node = nodes.len() - 1;
            }
        }
        write(value, &mut data);
    }
    let count = nodes.len();
    let mut file = Vec::new();
    for to in nodes.iter().flatten() {
        let record = match to {
            To::Nothing => count,
            To::Node(node) => *node,
            To::Data(offset) => count + 16 + offset,
        };
        file.extend(&(record as u32).to_be_bytes()[1..]);
    }
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    let about = [
        ("node_count", Value::Number(count as u32)),
        ("record_size", Value::Short(24)),
        ("ip_version", Value::Short(version)),
        ("database_type", Value::Text("Test")),
        ("binary_format_major_version", Value::Short(2)),
        ("binary_format_minor_version", Value::Short(0)),
        ("build_epoch", Value::Long(1)),
        ("description", Value::Map(vec![("en", Value::Text("test"))])),
    ];
    write(&Value::Map(about.to_vec()), &mut file);
    // `languages`, an empty list, is the ninth entry.
    let map = file.len() - {
        let mut again = Vec::new();
        write(&Value::Map(about.to_vec()), &mut again);
        again.len()
    };
    file[map] += 1;
    write(&Value::Text("languages"), &mut file);
    file.extend([0, 11 - 7]);
    file
}

pub fn v4(a: u8, b: u8, c: u8, d: u8) -> u128 {
    u32::from_be_bytes([a, b, c, d]).into()
}

pub fn country(code: &'static str) -> Value {
    Value::Map(vec![("country", Value::Map(vec![("iso_code", Value::Text(code))]))])
}

pub fn system(number: u32) -> Value {
    Value::Map(vec![("autonomous_system_number", Value::Number(number))])
}
