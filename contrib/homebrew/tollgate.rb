# brew install --HEAD ./contrib/homebrew/tollgate.rb, on Linux: the gate needs Linux.
#
# Written by hand and built by no Homebrew yet. `url` and `sha256` are those of a release; until there is one, --HEAD builds
# the working tree beside this file.
class Tollgate < Formula
  desc "Reverse proxy that gives sign-in forms exact rate limits"
  license any_of: ["MIT", "Apache-2.0"]
  head "file://#{File.expand_path("../..", __dir__)}", using: :git

  depends_on "rust" => :build
  depends_on "cmake" => :build
  depends_on :linux

  def install
    system "cargo", "install", *std_cargo_args
    system bin/"tollgate", "man", buildpath
    man1.install Dir["*.1"]
    man5.install Dir["*.5"]
    man8.install Dir["*.8"]
    generate_completions_from_executable(bin/"tollgate", "completions")
  end

  test do
    system bin/"tollgate", "init", "site.toml"
    assert_match "valid, no warnings", shell_output("#{bin}/tollgate check site.toml")
  end
end
