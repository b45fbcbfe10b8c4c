//! What the policy says of paths.

/// How paths are forwarded, and which are refused.
///
/// `%2F` and `\` are separators to some servers and letters to others (nginx and Apache differ), so that
/// a path with them has no one normal form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handling {
    /// Normalised; refused if servers read it differently.
    #[default]
    Strict,
    /// Normalised, with encoded slashes and backslashes as slashes.
    Decoded,
    /// Normalised, with encoded slashes and backslashes as the client wrote them.
    Normalised,
    /// As received. Rules judge the normalised path all the same.
    AsReceived,
}
