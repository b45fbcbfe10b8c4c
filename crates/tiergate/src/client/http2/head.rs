//! A request's head as it came by HTTP/2.

use http::header::{COOKIE, HeaderMap};
use http::request::Parts;
use tiergate_core::request::Field;
use tiergate_wire::http1::{self, FieldTable, HeadError, HeadLimits, RequestHead};

/// A request's head as it came by HTTP/2.
#[derive(Debug)]
pub(super) struct Head {
    parts: Parts,
    /// Several cookie fields as the one that HTTP/1.1 has (RFC 9113 §8.2.3); `None` if there is at most
    /// one.
    cookies: Option<Vec<u8>>,
    /// No body follows.
    ends: bool,
    /// Bytes, about as HTTP/1.1 would write them: how they came compressed is not known.
    len: usize,
}

impl Head {
    pub(super) fn new(parts: Parts, ends: bool) -> Self {
        let fields = parts.headers.iter();
        let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + 4);
        let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
        let host = parts.uri.authority().map_or(0, |host| host.as_str().len() + 8);
        let line = parts.method.as_str().len() + target + 12;
        let len = line + host + fields.sum::<usize>() + 2;
        Head { cookies: joined_cookies(&parts.headers), parts, ends, len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_head_method(&self) -> bool {
        self.parts.method == http::Method::HEAD
    }

    /// Method and target.
    pub(super) fn request_line(&self) -> (&[u8], &[u8]) {
        (self.parts.method.as_str().as_bytes(), self.target())
    }

    fn target(&self) -> &[u8] {
        self.parts.uri.path_and_query().map_or(b"", |target| target.as_str().as_bytes())
    }

    /// Fills `table` from the request's fields, which stay where they are, and checks all.
    ///
    /// # Errors
    /// What to answer.
    pub(super) fn read<'b>(
        &'b self,
        limits: &HeadLimits,
        table: &mut FieldTable<'b>,
    ) -> Result<RequestHead<'b>, HeadError> {
        let mut cookies = self.cookies.as_deref();
        for (name, value) in &self.parts.headers {
            let mut value = value.as_bytes();
            if name == COOKIE && self.cookies.is_some() {
                // All at once, in the place of the first.
                let Some(all) = cookies.take() else { continue };
                value = all;
            }
            if table.fields().len() == limits.fields_max {
                return Err(HeadError { status: 431, why: "too many fields" });
            }
            table.push(Field { name: name.as_str().as_bytes(), value: value.trim_ascii() })?;
        }
        let target = self.target();
        if target.len() > limits.target_len_max {
            return Err(HeadError { status: 414, why: "target too long" });
        }
        let authority = self.parts.uri.authority().map(|host| host.as_str().as_bytes());
        let method = self.parts.method.as_str().as_bytes();
        let head = http1::request_from_parts(method, target, authority, self.ends, table)?;
        Ok(RequestHead { len: self.len, ..head })
    }
}

fn joined_cookies(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut crumbs = headers.get_all(COOKIE).iter();
    let (first, second) = (crumbs.next()?, crumbs.next()?);
    let mut joined = first.as_bytes().to_vec();
    for crumb in [second].into_iter().chain(crumbs) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(crumb.as_bytes());
    }
    Some(joined)
}
