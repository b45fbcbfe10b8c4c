//! Classification: which class a request belongs to, and what else rules say of it.
//!
//! A condition is a part of the request ([`Part`](crate::request::Part)) and how it is matched
//! ([`Matcher`]). Each matcher of a part is a fact; facts are found by an index for each part and kind of
//! matcher, and lead to the rules.
//!
//! | step | how | cost |
//! |---|---|---|
//! | patterns and hosts → facts | one walk through a radix tree each ([`trie`]) | length of the text |
//! | exact texts, names of fields → facts | a hash table that mostly stops at the length ([`names`]) | number of fields |
//! | networks, ranges → facts | search over pieces of the number line ([`networks`], [`numbers`]) | logarithm of their number |
//! | facts → rules | each rule is filed under its rarest condition ([`rule_tree`]), by what it sets ([`search`]) | rules of which all but a condition or two hold |
//! | path, client → score | one walk each ([`score`]) | length of path and client's name |
//!
//! None of it depends on the number of rules as such. Nothing is allocated for a request, nothing
//! backtracks, and each byte of the request's head is looked at a bounded number of times. What no
//! remaining rule asks for is not looked at ([`lookups`]): cookies are not parsed for a request that an
//! earlier rule has decided.

mod classifier;
mod condition;
mod fact_table;
mod facts;
pub mod flow;
mod glob;
mod index;
mod lookups;
mod matcher;
mod names;
mod networks;
mod numbers;
pub mod path;
pub mod pattern;
mod regexes;
pub mod rule;
mod rule_tree;
pub mod score;
mod search;
mod texts;
mod trie;

pub use classifier::{Classifier, Known, Match, RuleAtAccept, Scratch};
pub use condition::Condition;
pub use glob::Glob;
pub use matcher::Matcher;
pub use numbers::Span;
pub use regexes::PathRegex;
pub use rule::Output;
