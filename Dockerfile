# Images of crumbmesh: static binaries, uid 65532. What serves has no shell, no
# package manager, and nothing to write to but /var/lib/crumbmesh.
#
#   docker build -t crumbmesh .                               the four services and the command line
#   docker build -t crumbmesh/toolexec --target toolexec .    the same over a shell, for tools that are programs
#   docker build -t crumbmesh/publisher --target publisher .  the Go worker of examples/publisher
#
# `make image` builds them from this file too, where no registry can be reached: it
# puts binaries of its own in the place of the stage `build`.

# Programs of exec tools find what is in their image: `--build-arg TOOLS=python:3.13-slim`.
ARG TOOLS=debian:12-slim

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN deploy/image/stage /out

FROM ${TOOLS} AS toolexec
COPY --from=build /out/bin/crumb /usr/local/bin/crumb
USER 65532:65532
WORKDIR /project
ENTRYPOINT ["/usr/local/bin/crumb"]
CMD ["toolexec"]

# A worker in Go is one binary; `crumb` is for the health check of an engine that runs
# a command for it. This one reads and publishes in /work.
FROM scratch AS publisher
COPY --from=build /out/etc/ /etc/
COPY --from=build /out/bin/crumb /out/bin/publisher /usr/local/bin/
COPY --from=build --chown=65532:65532 /out/home/ /
USER 65532:65532
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/publisher"]

FROM scratch AS crumb
COPY --from=build /out/etc/ /etc/
COPY --from=build /out/bin/crumb /usr/local/bin/crumb
COPY --from=build --chown=65532:65532 /out/state/ /var/lib/
USER 65532:65532
WORKDIR /var/lib/crumbmesh
ENTRYPOINT ["/usr/local/bin/crumb"]
CMD ["--help"]
