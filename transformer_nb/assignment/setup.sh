#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the autograder's image. The image's own
# Python may be older than the 3.11 that transformer_nb needs, so uv brings one. A wheel of
# transformer_nb that lies beside this file is installed, or else the published version.
set -e
apt-get update
apt-get install -y python3-venv
python3 -m venv /autograder/tools
/autograder/tools/bin/pip install uv
/autograder/tools/bin/uv venv --seed --python 3.12 /autograder/venv
package=$(ls /autograder/source/transformer_nb-*.whl 2>/dev/null || echo transformer_nb)
/autograder/venv/bin/pip install "$package" \
  --extra-index-url https://download.pytorch.org/whl/cpu
