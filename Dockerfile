# syntax=docker/dockerfile:1
#
# Three images from one file:
#   docker build -t slicewatch .                                dashboard and exporter (no Ray)
#   docker build -t slicewatch:headless --target headless .     exporter alone (no Streamlit either)
#   docker build -t slicewatch:demo --target demo .             all of it, with Ray, for the demo
#
# The base is pinned by version. Pin it by digest too where your policy asks for it
# (docker buildx imagetools inspect python:3.11.14-slim-bookworm prints the digest).
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

# --- environments: made where pip is, copied to where it is not used ---------------------------

FROM ${PYTHON_IMAGE} AS env-headless
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
# Without pip in it: the base image's own pip installs from outside, and stays behind.
RUN python -m venv --without-pip /opt/slicewatch
COPY constraints.txt requirements-headless.txt ./
RUN pip --python /opt/slicewatch/bin/python install -r requirements-headless.txt

FROM env-headless AS env-dashboard
COPY requirements-dashboard.txt ./
RUN pip --python /opt/slicewatch/bin/python install -r requirements-dashboard.txt

FROM env-dashboard AS env-demo
COPY requirements.txt ./
RUN pip --python /opt/slicewatch/bin/python install -r requirements.txt

# --- what every image has ----------------------------------------------------------------------

FROM ${PYTHON_IMAGE} AS base
LABEL org.opencontainers.image.title="slicewatch" \
      org.opencontainers.image.description="Which Ray TPU slices are hung, split or incomplete, why, and what to do" \
      org.opencontainers.image.licenses="Apache-2.0"
# A numeric user, so that runAsNonRoot can check it. HOME is /tmp; that and the
# history's folder are all that is written, so the root file system may be read-only.
RUN groupadd --gid 10001 slicewatch \
 && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin slicewatch \
 && install -d -o 10001 -g 10001 /var/lib/slicewatch \
 && python -m pip uninstall --yes --quiet --root-user-action=ignore setuptools wheel pip
ENV PATH=/opt/slicewatch/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    SLICEWATCH_HISTORY_PATH=/var/lib/slicewatch/history.sqlite \
    SLICEWATCH_HOST=0.0.0.0 \
    SLICEWATCH_PORT=8501
WORKDIR /app
COPY LICENSE pyproject.toml settings.py slicewatch.py ./
COPY cli ./cli
COPY fleet ./fleet
COPY diagnosis ./diagnosis
COPY collectors ./collectors
COPY exporter ./exporter
COPY history ./history
# Compiled here, since nothing can be written later.
RUN python -m compileall -q /app
EXPOSE 8501
USER 10001:10001
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ['SLICEWATCH_PORT'] + '/healthz', timeout=4)"]
ENTRYPOINT ["python", "-m", "slicewatch"]

FROM base AS headless
COPY --from=env-headless /opt/slicewatch /opt/slicewatch
CMD ["serve", "--headless"]

FROM base AS pages
COPY app.py ./
COPY .streamlit ./.streamlit
COPY pages ./pages
COPY charts ./charts
COPY docs/runbooks ./docs/runbooks

FROM pages AS demo
COPY simulator ./simulator
COPY --from=env-demo /opt/slicewatch /opt/slicewatch
CMD ["demo"]

FROM pages AS dashboard
COPY --from=env-dashboard /opt/slicewatch /opt/slicewatch
CMD ["serve"]
