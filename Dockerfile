# One image for both halves: `misstep collector` and `misstep dashboard`.
# The base image of both stages, of September 2026. For fixes of Debian since: docs/configuration.md, "Containers".
ARG PYTHON=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON} AS build
RUN python -m venv /opt/misstep
ENV PATH=/opt/misstep/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements.lock .
RUN pip install --require-hashes -r requirements.lock
# In an environment of its own: the image needs no build back end.
COPY requirements-build.lock .
RUN python -m venv /opt/build && /opt/build/bin/pip install --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY collector collector
COPY dashboard dashboard
COPY schemas schemas
COPY docs/agents docs/agents
COPY sdk sdk
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel . ./sdk && pip install --no-deps --no-index /wheel/*.whl

FROM ${PYTHON}
RUN useradd --uid 10001 --create-home misstep && install -d -o misstep /data
COPY --from=build /opt/misstep /opt/misstep
ENV PATH=/opt/misstep/bin:$PATH PYTHONUNBUFFERED=1 \
    MISSTEP_STORE=duckdb:////data/misstep.duckdb MISSTEP_HTTP=:4318 MISSTEP_GRPC=:4317 MISSTEP_DASHBOARD=:8501 \
    XDG_CACHE_HOME=/data/cache
USER misstep
WORKDIR /data
VOLUME /data
EXPOSE 4317 4318 8501
# The dashboard's service has a check of its own in docker-compose.yml.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import os, ssl, urllib.request as u; s = 'https' if os.environ.get('MISSTEP_TLS_CERT') else 'http'; u.urlopen(f'{s}://127.0.0.1:4318/healthz', timeout=2, context=ssl._create_unverified_context())"]
CMD ["misstep", "collector"]
