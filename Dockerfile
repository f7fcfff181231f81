# One image for every part: `pharos edge`, `consumers`, `control`, `deployer`, `migrate`, or `up` for all in one.
FROM rust:1.90.0-slim-bookworm AS accelerator
WORKDIR /src
COPY accelerator ./
# The library serves every Python from 3.11 on, so none is needed to build it.
RUN PYO3_NO_PYTHON=1 cargo build --release --locked

FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/pharos
# The dependencies change less often than the code: a layer of their own.
COPY requirements.runtime.lock ./
RUN /opt/pharos/bin/pip install --require-hashes -r requirements.runtime.lock
COPY . .
RUN /opt/pharos/bin/pip install --no-deps .
COPY --from=accelerator /src/target/release/libpharos_accelerator.so \
    /opt/pharos/lib/python3.11/site-packages/pharos_accelerator.abi3.so

FROM python:3.11.14-slim-bookworm
# The deployer checks out repositories with git and ssh.
RUN apt-get update && apt-get install --yes --no-install-recommends git openssh-client && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/pharos pharos
COPY --from=build /opt/pharos /opt/pharos
ENV PATH=/opt/pharos/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /var/lib/pharos
VOLUME /var/lib/pharos
ENTRYPOINT ["pharos"]
CMD ["--help"]
