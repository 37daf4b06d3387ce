# The programs on the emulator: they need no Ascend hardware and no CANN.
#
#   docker build -f examples/deploy/emulator.Dockerfile -t goascend:emulator .
#   docker run --rm -p 8080:8080 goascend:emulator
FROM golang:1.26-bookworm AS build
WORKDIR /src
# Modules change less often than sources, so they are a layer of their own.
COPY go.mod go.sum go.work ./
COPY examples/go.mod examples/go.sum examples/
COPY internal/tools/go.mod internal/tools/go.sum internal/tools/
RUN go mod download
COPY . .
RUN --mount=type=cache,target=/cache \
    GOCACHE=/cache go build -trimpath -buildvcs=false -tags emu -o /out/ ./examples/serve ./examples/trainstep ./examples/generate ./examples/launch ./examples/npuinfo

FROM debian:bookworm-slim
COPY --from=build /out/ /usr/local/bin/
USER 65534:65534
# Without -model serve trains a small model on its own sources.
EXPOSE 8080
# The image has no HTTP client; bash can open a connection.
HEALTHCHECK --interval=5s --start-period=60s CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '200 OK' <&3"]
ENTRYPOINT ["serve"]
CMD ["-listen", ":8080"]
