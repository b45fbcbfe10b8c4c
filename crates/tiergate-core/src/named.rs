//! Enums of which each variant has a name for people and machines.

/// Declares such an enum, each variant with its name, and from the same list `ALL`, `COUNT`, `index` and
/// `name`, so that none of them can lack a variant.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $Enum:ident { $( $(#[$doc:meta])* $Variant:ident = $name:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Enum {
            $( $(#[$doc])* $Variant, )+
        }

        impl $Enum {
            /// Every variant, in the order of their indices.
            pub const ALL: [$Enum; [$( $name ),+].len()] = [$( $Enum::$Variant ),+];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The place in [`Self::ALL`], and in every table that counts by it.
            pub const fn index(self) -> usize {
                self as usize
            }

            /// The name in logs, metrics and headers: lower case, words joined by underscores.
            pub const fn name(self) -> &'static str {
                match self {
                    $( $Enum::$Variant => $name, )+
                }
            }
        }
    };
}

pub(crate) use named;
