//! Says where the program is that is tested: beside these tests, where it was built before them.

#[expect(
    clippy::disallowed_methods,
    reason = "Cargo tells a build script its folder by the environment"
)]
fn main() {
    let folder = std::env::var("OUT_DIR").expect("Cargo says where it builds");
    // <target>/<profile>/build/<package>/out
    let profile = std::path::Path::new(&folder).ancestors().nth(3);
    let program = profile.expect("Cargo builds there").join("rejoin");
    let program = program.with_extension(std::env::consts::EXE_EXTENSION);
    println!("cargo:rustc-env=CARGO_BIN_EXE_rejoin={}", program.display());
    println!("cargo:rerun-if-changed=build.rs");
}
