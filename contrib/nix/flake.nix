# nix run ./contrib/nix -- demo
#
# Written by hand and built by no Nix yet: the first build may want a line more in nativeBuildInputs.
{
  description = "A reverse proxy that gives sign-in forms exact rate limits";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = build: nixpkgs.lib.genAttrs systems (system: build nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "tollgate";
          version = "0.1.0";
          src = ../..;
          cargoLock.lockFile = ../../Cargo.lock;
          nativeBuildInputs = [ pkgs.cmake pkgs.installShellFiles ];
          # The tests start databases and other servers.
          doCheck = false;
          postInstall = ''
            $out/bin/tollgate man . && installManPage *.1 *.5 *.8
            installShellCompletion --cmd tollgate \
              --bash <($out/bin/tollgate completions bash) \
              --zsh <($out/bin/tollgate completions zsh) \
              --fish <($out/bin/tollgate completions fish)
          '';
          meta.mainProgram = "tollgate";
        };
      });
    };
}
