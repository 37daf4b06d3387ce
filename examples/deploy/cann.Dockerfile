# The programs for Ascend devices, in an image with CANN. Driver and devices come from the host: the
# Ascend container runtime or the device plugin of Kubernetes brings them in.
#
#   docker build -f examples/deploy/cann.Dockerfile -t goascend:cann .
#   docker run --rm -e ASCEND_VISIBLE_DEVICES=0 --runtime ascend goascend:cann npuinfo -smoke
ARG CANN=ascendai/cann:8.1.rc1-910b-ubuntu22.04-py3.10
FROM golang:1.26-bookworm AS go

# The programs are built in CANN's image, so that they need no newer C library than it has.
FROM ${CANN} AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY --from=go /usr/local/go /usr/local/go
ENV PATH=/usr/local/go/bin:${PATH} GOTOOLCHAIN=local
WORKDIR /src
COPY go.mod go.sum go.work ./
COPY examples/go.mod examples/go.sum examples/
COPY internal/tools/go.mod internal/tools/go.sum internal/tools/
RUN go mod download
COPY . .
RUN --mount=type=cache,target=/cache \
    GOCACHE=/cache go build -trimpath -buildvcs=false -o /out/ ./examples/serve ./examples/trainstep ./examples/generate ./examples/launch ./examples/npuinfo

FROM ${CANN}
COPY --from=build /out/ /usr/local/bin/
# CANN's variables; set_env.sh of the toolkit sets them from here on.
ENTRYPOINT ["bash", "-c", "source ${ASCEND_TOOLKIT_HOME:-/usr/local/Ascend/ascend-toolkit/latest}/set_env.sh 2>/dev/null || source /usr/local/Ascend/ascend-toolkit/set_env.sh; exec \"$@\"", "--"]
CMD ["npuinfo"]
