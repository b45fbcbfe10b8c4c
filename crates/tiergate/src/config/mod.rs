//! Configuration: as written (`raw`), as meant (`meant`), and what is wrong with it (`error`).

pub mod meant;
