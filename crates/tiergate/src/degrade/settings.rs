//! What is asked of a degraded tree, and the bounds on what making it may take.

use super::kind::Kind;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Quality of JPEG images, 1 to 100.
    pub quality: u8,
    /// Widest image, in pixels; wider ones are scaled down.
    pub width_max: u32,
    /// Whether only the first frame of an animation stays.
    pub still: bool,
    /// CSS selectors of elements that are removed from pages.
    pub strip: Vec<String>,
    /// Whether pages are changed as far as is safe for any page: [`super::STRIPPED`], images that load lazily, media that do not play by themselves.
    pub page_defaults: bool,
    /// Images of a page that stay, the first ones; the others become their alternative text.
    pub images_max: Option<u32>,
    /// Whether files that are not changed are hard links to the original.
    pub link: bool,
    /// Whether files and directories whose names begin with a dot are included; `.well-known` always is.
    pub dotfiles: bool,
    /// Whether the target may be a tree that was made before.
    pub update: bool,
    /// Whether nothing is written.
    pub dry_run: bool,
    /// Bounds.
    pub bounds: Bounds,
}

/// What making a tree may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Longest file that is read into memory, in bytes; longer ones are copied as they are.
    pub file_len_max: u64,
    /// Largest image that is decoded, in pixels (width times height); larger ones are copied as they are.
    pub pixels_max: u64,
    /// Memory for images while they are decoded, scaled and encoded, in bytes, over all threads. Beside it each thread holds the content of a
    /// file twice or three times.
    pub memory_max: u64,
    /// Most files, directories and symbolic links of the tree.
    pub files_max: usize,
    /// Threads, at least 1.
    pub threads: usize,
}

impl Settings {
    /// Quality of JPEG images. Blocks show on edges, faces and text remain clear; three photographs of quality 85 became 42 % of their size.
    pub const QUALITY: u8 = 40;
    /// Widest image. Most columns of text are narrower, and a phone shows it pixel for pixel.
    pub const WIDTH_MAX: u32 = 800;

    /// What the content of files of a kind depends on: if it differs, files that were made are made anew.
    pub(super) fn how(&self, kind: Kind) -> String {
        let Settings { quality, width_max, still, .. } = self;
        match kind {
            Kind::Jpeg => format!("1 quality={quality} width={width_max}"),
            Kind::Png | Kind::Gif | Kind::WebP => format!("1 width={width_max} still={still}"),
            Kind::Html => {
                let images = self.images_max.map_or("all".to_owned(), |most| most.to_string());
                let strip = self.strip.join(" | ");
                format!("1 defaults={} images={images} strip={strip}", self.page_defaults)
            }
            Kind::Other => "1".to_owned(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            quality: Self::QUALITY,
            width_max: Self::WIDTH_MAX,
            still: false,
            strip: Vec::new(),
            page_defaults: true,
            images_max: None,
            link: false,
            dotfiles: false,
            update: false,
            dry_run: false,
            bounds: Bounds::default(),
        }
    }
}

impl Bounds {
    /// Photographs of cameras are below; a longer page or image is copied.
    pub const FILE_LEN_MAX: u64 = 64 << 20;
    /// Photographs of phones have up to 50 million pixels.
    pub const PIXELS_MAX: u64 = 50_000_000;
    /// One image of the largest size, with the copies that decoding and scaling take.
    pub const MEMORY_MAX: u64 = 1536 << 20;
    /// A tree of this size takes about 1 GiB of memory beside that of its images.
    pub const FILES_MAX: usize = 1_000_000;
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            file_len_max: Self::FILE_LEN_MAX,
            pixels_max: Self::PIXELS_MAX,
            memory_max: Self::MEMORY_MAX,
            files_max: Self::FILES_MAX,
            threads: std::thread::available_parallelism().map_or(1, Into::into),
        }
    }
}
