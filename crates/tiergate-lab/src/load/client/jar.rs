//! The cookies of one client during its session, as a browser keeps them.

/// Cookies kept at most: as many as RFC 6265 §6.1 asks for for a domain.
const COOKIES_MAX: usize = 50;

/// Cookies by name. Attributes are not kept: no session outlives any of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jar {
    cookies: Vec<(Vec<u8>, Vec<u8>)>,
    /// The field with its end, made once for many requests.
    line: Vec<u8>,
}

impl Jar {
    /// Takes the cookie that a `Set-Cookie` sets, in the place of one of its name; what is none is
    /// left aside, as are more than [`COOKIES_MAX`].
    pub(crate) fn set(&mut self, set_cookie: &[u8]) {
        let pair = set_cookie.split(|byte| *byte == b';').next().unwrap_or_default();
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else {
            return;
        };
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        match self.cookies.iter().position(|(known, _)| known == name) {
            Some(place) if self.cookies[place].1 == value => return,
            Some(place) => self.cookies[place].1 = value.to_vec(),
            None if self.cookies.len() == COOKIES_MAX => return,
            None => self.cookies.push((name.to_vec(), value.to_vec())),
        }
        self.line.clear();
        for (name, value) in &self.cookies {
            self.line.extend_from_slice(if self.line.is_empty() { b"Cookie: " } else { b"; " });
            self.line.extend_from_slice(name);
            self.line.push(b'=');
            self.line.extend_from_slice(value);
        }
        self.line.extend_from_slice(b"\r\n");
    }

    /// The field of a request, with its end; empty without cookies.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_kept_by_name() {
        let mut jar = Jar::default();
        assert_eq!(jar.line(), b"");
        jar.set(b"id=1; Path=/; HttpOnly");
        jar.set(b"no cookie");
        assert_eq!(jar.line(), b"Cookie: id=1\r\n");
        jar.set(b"basket=full");
        jar.set(b" id = 2=3 ;Secure");
        assert_eq!(jar.line(), b"Cookie: id=2=3; basket=full\r\n");
        for number in 0..100 {
            jar.set(format!("c{number}=x").as_bytes());
        }
        assert_eq!(jar.line().split(|byte| *byte == b';').count(), COOKIES_MAX);
    }
}
