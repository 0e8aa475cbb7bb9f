# Replace @BASE@ by the address of the folder with your downloads.
class Symdepot < Formula
  desc "Symbol server that serves debug symbols to every debugger"
  homepage "https://github.com/symdepot/symdepot"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@BASE@/symdepot-@VERSION@-darwin-arm64.tar.gz"
      sha256 "@SHA256 -darwin-arm64.tar.gz@"
    end
    on_intel do
      url "@BASE@/symdepot-@VERSION@-darwin-amd64.tar.gz"
      sha256 "@SHA256 -darwin-amd64.tar.gz@"
    end
  end
  on_linux do
    on_arm do
      url "@BASE@/symdepot-@VERSION@-linux-arm64.tar.gz"
      sha256 "@SHA256 -linux-arm64.tar.gz@"
    end
    on_intel do
      url "@BASE@/symdepot-@VERSION@-linux-amd64.tar.gz"
      sha256 "@SHA256 -linux-amd64.tar.gz@"
    end
  end

  def install
    bin.install "symdepot"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/symdepot.bash" => "symdepot"
    zsh_completion.install "completions/_symdepot"
    fish_completion.install "completions/symdepot.fish"
  end

  service do
    run [opt_bin/"symdepot", "serve"]
    keep_alive successful_exit: false
    log_path var/"log/symdepot.log"
    error_log_path var/"log/symdepot.log"
    environment_variables SYMDEPOT_DEPOT: var/"symdepot"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/symdepot version")
  end
end
