pub(crate) mod contender;
