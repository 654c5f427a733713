# Two images out of the Debian packages:
#   docker build --target server -t tilewright-server .   libtilewright.so, for programs that serve
#   docker build --target tuner -t tilewright .           tune-cli with a C compiler, which tunes
# A database that the tuner wrote serves in both. It lies in /data: docker run -v "$PWD:/data" …
ARG DEBIAN=debian:12-slim

FROM ${DEBIAN} AS build
COPY scripts/deps /source/scripts/deps
RUN /source/scripts/deps --tune && apt-get install -y --no-install-recommends dpkg-dev file
COPY . /source
RUN --mount=type=cache,target=/root/.cache/ccache \
    cd /source && scripts/packages --only deb /packages

FROM ${DEBIAN} AS server
RUN --mount=type=bind,from=build,source=/packages,target=/packages \
    apt-get update && apt-get install -y --no-install-recommends /packages/tilewright-runtime_*.deb && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /data

FROM server AS tuner
RUN --mount=type=bind,from=build,source=/packages,target=/packages \
    apt-get update && apt-get install -y --no-install-recommends /packages/tilewright_*.deb gcc libc6-dev && \
    rm -rf /var/lib/apt/lists/*
ENTRYPOINT ["tune-cli"]
