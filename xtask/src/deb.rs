//! `cargo xtask deb`: the Debian package, or a tarball of its files, from a release build.
//!
//! Does not know: what the product does. The binary writes its manual pages and completions itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;

/// Files of the workspace, their places in the package, and their modes.
const FILES: &[(&str, &str, u32)] = &[
    ("examples/systemd/disktime.service", "usr/lib/systemd/system/disktime.service", 0o644),
    ("examples/systemd/disktime.socket", "usr/lib/systemd/system/disktime.socket", 0o644),
    ("packaging/debian/disktime.toml", "etc/disktime.toml", 0o644),
    ("include/disktime.h", "usr/include/disktime.h", 0o644),
    ("README.md", "usr/share/doc/disktime/README.md", 0o644),
    ("CHANGELOG.md", "usr/share/doc/disktime/CHANGELOG.md", 0o644),
    ("LICENSE-MIT", "usr/share/doc/disktime/copyright", 0o644),
    ("LICENSE-APACHE", "usr/share/doc/disktime/LICENSE-APACHE", 0o644),
];
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];
/// Where completions go, of those that the binary writes.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash/disktime", "usr/share/bash-completion/completions/disktime"),
    ("fish/disktime.fish", "usr/share/fish/vendor_completions.d/disktime.fish"),
    ("zsh/_disktime", "usr/share/zsh/vendor-completions/_disktime"),
];

/// The package that is asked for.
struct Plan {
    root: PathBuf,
    /// The binary that goes into the package; built for release if none is named.
    binary: Option<PathBuf>,
    out: PathBuf,
    /// The version; else the workspace's.
    version: Option<String>,
    tarball: bool,
}

/// `cargo xtask deb [--binary FILE] [--out DIR] [--version VERSION] [--tarball]`.
///
/// # Errors
/// If the binary can't be built, or a program of Debian's fails.
pub(crate) fn run(words: &[String]) -> Result<bool> {
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let mut plan = Plan {
        out: workspace.target.join("debian"),
        root: workspace.root,
        binary: None,
        version: None,
        tarball: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--binary" => plan.binary = Some(value()?.into()),
            "--out" => plan.out = value()?.into(),
            "--version" => plan.version = Some(value()?.clone()),
            "--tarball" => plan.tarball = true,
            _ => bail!(
                "not understood: {word}; --binary FILE, --out DIR, --version VERSION, --tarball"
            ),
        }
    }
    println!("{}", plan.make(&workspace.target)?.display());
    Ok(true)
}

impl Plan {
    fn make(&self, target: &Path) -> Result<PathBuf> {
        let binary = match &self.binary {
            Some(binary) => binary.clone(),
            None => built(&self.root, target)?,
        };
        let version = match &self.version {
            Some(version) => version.clone(),
            None => version(&self.root)?,
        };
        let tree = self.out.join("tree");
        if tree.exists() {
            fs::remove_dir_all(&tree).context("an older tree can't be removed")?;
        }
        self.lay_out(&tree, &binary)?;
        let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
        let name = format!("disktime_{version}_{architecture}");
        let made = if self.tarball {
            let made = self.out.join(format!("{name}.tar.gz"));
            // No directories: tar would give those of the machine the modes of these, `/` too, and put
            // one in the place of a symbolic link.
            let mut files = files(&tree)?;
            files.sort();
            let names = files.iter().map(|file| Path::new(".").join(file));
            let owner = ["--owner=0", "--group=0", "-czf"];
            succeeds(Command::new("tar").args(owner).arg(&made).arg("-C").arg(&tree).args(names))?;
            made
        } else {
            self.control(&tree, &version, &architecture)?;
            open_to_all(&tree)?;
            let made = self.out.join(format!("{name}.deb"));
            let build = ["--root-owner-group", "-Zxz", "-z3", "--build"];
            succeeds(Command::new("dpkg-deb").args(build).arg(&tree).arg(&made))?;
            made
        };
        fs::remove_dir_all(&tree).context("the tree can't be removed")?;
        Ok(made)
    }

    /// All files at their places.
    fn lay_out(&self, tree: &Path, binary: &Path) -> Result<()> {
        for (from, to, mode) in FILES {
            copy(&self.root.join(from), &tree.join(to), *mode)?;
        }
        let installed = tree.join("usr/bin/disktime");
        copy(binary, &installed, 0o755)?;
        let manual = tree.join("manual");
        succeeds(Command::new(&installed).args(["manual", "--out"]).arg(&manual))?;
        for (from, to) in COMPLETIONS {
            copy(&manual.join("completions").join(from), &tree.join(to), 0o644)?;
        }
        for page in fs::read_dir(manual.join("man1"))? {
            let page = page?;
            let to = tree.join("usr/share/man/man1").join(page.file_name());
            copy(&page.path(), &to, 0o644)?;
            succeeds(Command::new("gzip").arg("-9n").arg(&to))?;
        }
        fs::remove_dir_all(manual).context("manual pages can't be moved")?;
        if self.binary.is_none() {
            succeeds(Command::new("strip").arg("--strip-debug").arg(&installed))?;
        }
        Ok(())
    }

    /// The package's own files.
    fn control(&self, tree: &Path, version: &str, architecture: &str) -> Result<()> {
        let debian = tree.join("DEBIAN");
        for script in SCRIPTS {
            copy(&self.root.join("packaging/debian").join(script), &debian.join(script), 0o755)?;
        }
        fs::write(debian.join("conffiles"), "/etc/disktime.toml\n")?;
        // As Debian counts: each file is whole KiB. apt says how much room a package takes.
        let mut size = 0;
        for file in files(tree)?.iter().filter(|file| !file.starts_with("DEBIAN")) {
            size += fs::metadata(tree.join(file))?.len().div_ceil(1024);
        }
        let text = format!(
            "Package: disktime\nVersion: {version}\nArchitecture: {architecture}\n\
             Installed-Size: {size}\nMaintainer: the disktime project <maintainers@disktime.example>\n\
             Section: admin\nPriority: optional\n\
             Depends: libc6{}, libgcc-s1, adduser\nSuggests: qemu-utils, libnbd-bin, fuse3\n\
             Description: virtual disks that each own a share of a device's time\n \
             A device's time is divided among virtual disks, which clients reach over NBD,\n \
             and among open files of a directory. Each gets what it reserves, whatever the\n \
             others do.\n",
            glibc().map_or_else(String::new, |it| format!(" (>= {it})"))
        );
        fs::write(debian.join("control"), text)?;
        Ok(())
    }
}

/// The files below a directory, from it on.
fn files(tree: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut left) = (Vec::new(), vec![tree.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            } else {
                files.push(entry.path().strip_prefix(tree)?.to_owned());
            }
        }
    }
    Ok(files)
}

/// Gives a directory and those below the mode of a package's, whatever the mask of this process is:
/// with 077 `dpkg-deb` refused them, with 002 a machine's group could write to them.
fn open_to_all(directory: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_to_all(&entry.path())?;
        }
    }
    Ok(())
}

/// The C library of this machine, which the binary is linked to.
fn glibc() -> Option<String> {
    let text = output(Command::new("getconf").arg("GNU_LIBC_VERSION")).ok()?;
    text.strip_prefix("glibc ").map(str::to_owned)
}

fn built(root: &Path, target: &Path) -> Result<PathBuf> {
    let arguments = ["build", "--release", "--locked", "--package", "disktime"];
    succeeds(Command::new("cargo").current_dir(root).args(arguments))?;
    Ok(target.join("release/disktime"))
}

/// The workspace's version, by its manifest.
fn version(root: &Path) -> Result<String> {
    let text = fs::read_to_string(root.join("Cargo.toml"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("version = "));
    let version = line.context("Cargo.toml has no version")?;
    Ok(version.trim_matches('"').to_owned())
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = || format!("{} can't be copied to {}", from.display(), to.display());
    fs::create_dir_all(to.parent().context("a file has a directory")?).with_context(failed)?;
    fs::copy(from, to).with_context(failed)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).with_context(failed)
}

fn succeeds(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{program} can't be run"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { bail!("{program}: {}\n{text}", output.status) }
}

fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{program} can't be run"))?;
    if !output.status.success() {
        bail!("{program}: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests;
