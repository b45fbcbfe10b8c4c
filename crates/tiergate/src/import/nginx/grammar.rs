//! The grammar of nginx's configuration: directives with arguments and blocks, quotes, comments, `include`.
//!
//! Source: `ngx_conf_read_token` describes it; written anew.

use super::super::draft::{From, ImportFault};

/// Most files, and how deep blocks and includes may be.
const FILES_MAX: usize = 256;
const DEPTH_MAX: usize = 32;
/// Most directives: some hundred thousand lines.
const DIRECTIVES_MAX: usize = 200_000;

/// A directive.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) block: Vec<Directive>,
    pub(super) from: From,
}

impl Directive {
    /// The argument at a place, or an empty text.
    pub(super) fn argument(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }

    /// The value of an argument `key=value`.
    pub(super) fn option(&self, key: &str) -> Option<&str> {
        self.arguments.iter().find_map(|it| it.strip_prefix(key)?.strip_prefix('='))
    }
}

/// Reads the files that `include` names: their names and texts, in order; none if they are not here. U+FFFD stands for what is not UTF-8.
pub(super) type Open<'o> = &'o dyn Fn(&str) -> Result<Vec<(String, String)>, String>;

/// The directives of a file and of those that it includes.
///
/// # Errors
/// The first line that cannot be read.
pub(super) fn read(text: &str, file: &str, open: Open<'_>) -> Result<Vec<Directive>, ImportFault> {
    let mut reader = Reader { open, files: 1, directives: 0 };
    reader.file(text, file, 0)
}

struct Reader<'o> {
    open: Open<'o>,
    files: usize,
    directives: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

impl Reader<'_> {
    fn file(
        &mut self,
        text: &str,
        file: &str,
        depth: usize,
    ) -> Result<Vec<Directive>, ImportFault> {
        let mut tokens = Tokens { rest: text, line: 1, file };
        let (list, closed) = self.block(&mut tokens, depth)?;
        match closed {
            true => Err(tokens.fault("has a } that no { opens")),
            false => Ok(list),
        }
    }

    /// The directives up to the end of the block, which is closed, or of the file.
    fn block(
        &mut self,
        tokens: &mut Tokens<'_>,
        depth: usize,
    ) -> Result<(Vec<Directive>, bool), ImportFault> {
        if depth > DEPTH_MAX {
            return Err(tokens.fault("has blocks or includes that are too deep"));
        }
        let (mut list, mut words, mut line) = (Vec::new(), Vec::new(), 1);
        loop {
            let token = tokens.next()?;
            match token {
                Some(Token::Word(word)) => {
                    if words.is_empty() {
                        line = tokens.line;
                    }
                    words.push(word);
                }
                Some(Token::Close) if words.is_empty() => return Ok((list, true)),
                None if words.is_empty() => return Ok((list, false)),
                None | Some(Token::Close) => {
                    return Err(tokens.fault("must end each directive with ;"));
                }
                Some(Token::End | Token::Open) if words.is_empty() => {
                    return Err(tokens.fault("must have a directive before ; and {"));
                }
                Some(end) => {
                    let mut arguments = std::mem::take(&mut words);
                    let name = arguments.remove(0);
                    let text = format!("{name} {}", arguments.join(" ")).trim().to_owned();
                    let from = From { file: tokens.file.to_owned(), line, text };
                    self.directives += 1;
                    if self.directives > DIRECTIVES_MAX {
                        return Err(from.fault("is one directive too many"));
                    }
                    let mut block = Vec::new();
                    if end == Token::Open && name.ends_with("_by_lua_block") {
                        tokens.skip_lua(&from)?;
                    } else if end == Token::Open {
                        let (inner, closed) = self.block(tokens, depth + 1)?;
                        if !closed {
                            return Err(from.fault("has a { that no } closes"));
                        }
                        block = inner;
                    } else if name == "include" {
                        list.extend(self.include(&from, &arguments, depth)?);
                        continue;
                    }
                    list.push(Directive { name, arguments, block, from });
                }
            }
        }
    }

    fn include(
        &mut self,
        from: &From,
        arguments: &[String],
        depth: usize,
    ) -> Result<Vec<Directive>, ImportFault> {
        let [pattern] = arguments else { return Err(from.fault("include must have one name")) };
        let files = (self.open)(pattern).map_err(|fault| from.fault(fault))?;
        if files.is_empty() {
            // It stays as a directive, and is listed where it stands.
            return Ok(vec![Directive {
                name: "include".to_owned(),
                arguments: arguments.to_vec(),
                block: Vec::new(),
                from: from.clone(),
            }]);
        }
        let mut list = Vec::new();
        for (name, text) in files {
            self.files += 1;
            if self.files > FILES_MAX {
                return Err(from.fault(format!("more than {FILES_MAX} files are included")));
            }
            list.extend(self.file(&text, &name, depth + 1)?);
        }
        Ok(list)
    }
}

pub(super) struct Tokens<'t> {
    pub(super) rest: &'t str,
    line: usize,
    file: &'t str,
}

impl Tokens<'_> {
    fn fault(&self, message: &str) -> ImportFault {
        ImportFault { file: self.file.to_owned(), line: self.line, message: message.to_owned() }
    }

    pub(super) fn take(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn next(&mut self) -> Result<Option<Token>, ImportFault> {
        loop {
            match self.rest.chars().next() {
                None => return Ok(None),
                Some('#') => while !matches!(self.take(), None | Some('\n')) {},
                Some(letter) if letter.is_whitespace() => {
                    self.take();
                }
                Some(_) => break,
            }
        }
        match self.rest.chars().next() {
            Some(';') => self.single(Token::End),
            Some('{') => self.single(Token::Open),
            Some('}') => self.single(Token::Close),
            Some(quote @ ('"' | '\'')) => {
                let word = self.quoted(quote)?;
                self.checked(word)
            }
            _ => {
                let word = self.word();
                self.checked(word)
            }
        }
    }

    fn checked(&self, word: String) -> Result<Option<Token>, ImportFault> {
        match word.contains(char::REPLACEMENT_CHARACTER) {
            true => Err(self.fault("must be UTF-8: a byte of another encoding is in this word")),
            false => Ok(Some(Token::Word(word))),
        }
    }

    fn single(&mut self, token: Token) -> Result<Option<Token>, ImportFault> {
        self.take();
        Ok(Some(token))
    }

    fn quoted(&mut self, quote: char) -> Result<String, ImportFault> {
        let begin = self.line;
        self.take();
        let mut word = String::new();
        loop {
            match self.take() {
                None => {
                    self.line = begin;
                    return Err(self.fault("has a quote that is not closed"));
                }
                Some(letter) if letter == quote => break,
                Some('\\') => self.escaped(&mut word),
                Some(letter) => word.push(letter),
            }
        }
        match self.rest.chars().next() {
            None | Some(';' | '{' | '}' | ')') => {}
            Some(letter) if letter.is_whitespace() => {}
            Some(_) => return Err(self.fault("must have a blank or ; behind a quote")),
        }
        Ok(word)
    }

    fn escaped(&mut self, word: &mut String) {
        match self.take() {
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(letter @ ('"' | '\'' | '\\')) => word.push(letter),
            // As nginx does, for regular expressions.
            Some(letter) => word.extend(['\\', letter]),
            None => word.push('\\'),
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                ';' => break,
                '{' if !word.ends_with('$') => break,
                _ if letter.is_whitespace() => break,
                '{' => {
                    // `${name}`.
                    while let Some(letter) = self.take() {
                        word.push(letter);
                        if letter == '}' {
                            break;
                        }
                    }
                }
                '\\' => {
                    self.take();
                    self.escaped(&mut word);
                }
                _ => {
                    self.take();
                    word.push(letter);
                }
            }
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Result<Vec<(String, String)>, String> {
        Err("nothing is included here".to_owned())
    }

    #[test]
    fn words_quotes_blocks_and_comments() {
        let text = "a 1 'two words' \"q\\\"q\"; # ; {\nb ${x}y ~ \\.php$ {\n c;}";
        let list = read(text, "f", &none).expect("it is right");
        assert_eq!(list[0].arguments, ["1", "two words", "q\"q"]);
        assert_eq!(list[1].arguments, ["${x}y", "~", "\\.php$"]);
        assert_eq!((list[1].block[0].name.as_str(), list[1].block[0].from.line), ("c", 3));
    }

    #[test]
    fn faults_have_lines() {
        for (text, said) in [
            ("a;\nb", "f:2: must end each directive with ;"),
            ("a {\nb;\n", "f:1: has a { that no } closes"),
            ("\n}", "f:2: has a } that no { opens"),
            ("\n;", "f:2: must have a directive before ; and {"),
            ("\na \"b\n", "f:2: has a quote that is not closed"),
            ("a \"b\"c;", "f:1: must have a blank or ; behind a quote"),
            ("\ninclude x;", "f:2: nothing is included here"),
            (
                "# caf\u{fffd}\na \u{fffd};",
                "f:2: must be UTF-8: a byte of another encoding is in this word",
            ),
            ("\na_by_lua_block { x = '}' -- }\n", "f:2: has a { that no } closes"),
        ] {
            assert_eq!(read(text, "f", &none).expect_err(text).to_string(), said);
        }
        assert!(read(&"a{".repeat(100), "f", &none).is_err());
    }
}
