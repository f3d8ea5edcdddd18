# codebase-mcp as a server over HTTP. docs/production.md says how to run it.
FROM python:3.11-slim-bookworm AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE THIRD_PARTY_NOTICES.md ./
COPY docs/codebase-mcp.1 ./docs/
COPY src ./src
RUN python -m venv /app && /app/bin/pip install --no-cache-dir '.[otel]'
# Compiling the rules for secrets takes some five seconds, which no container should spend again.
RUN KF_RULE_CACHE_DIR=/secret-rules /app/bin/python -c \
    "from codebase_mcp.secrets.detect import load_rules; load_rules()"

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="codebase-mcp" \
      org.opencontainers.image.licenses="MIT"

# Versions of Debian's git go with the base image; a pinned one would soon be gone from its archive.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/*

# A name is needed as well as a number: PostgreSQL asks for it.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data codebase \
    && install --directory --owner=codebase --group=codebase --mode=0700 /data
COPY --from=build /app /app
# Kingfisher reads only rules that belong to its user.
COPY --from=build --chown=10001:10001 /secret-rules /app/secret-rules

ENV PATH=/app/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    KF_RULE_CACHE_DIR=/app/secret-rules \
    CODEBASE_MCP_DATA_DIR=/data \
    CODEBASE_MCP_TRANSPORT=http \
    CODEBASE_MCP_HOST=0.0.0.0 \
    CODEBASE_MCP_PORT=3000 \
    CODEBASE_MCP_ALLOWED_HOSTS=localhost \
    CODEBASE_MCP_LOG_FORMAT=json \
    CODEBASE_MCP_RESIDENT_MINUTES=0

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:3000/health/live', timeout=4)"]
ENTRYPOINT ["codebase-mcp"]
CMD ["serve"]
