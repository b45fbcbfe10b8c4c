//! Tiergate in virtual time.
