# The two programs and nothing else: no shell, no libraries, no certificates (those of the API server come with the pod's ServiceAccount).
# `make dist` builds the static programs and puts the same image into dist/ without docker; this file is for those who build images with docker, podman or
# buildah: docker build --build-arg FOLDER=target/x86_64-unknown-linux-gnu/release --tag podgroup .
FROM scratch
ARG FOLDER=target/x86_64-unknown-linux-gnu/release
COPY --chmod=755 ${FOLDER}/podgroup-controller ${FOLDER}/podgroup-scheduler /
# The chart's user; any other that is not root does as well.
USER 65532:65532
ENTRYPOINT ["/podgroup-controller"]
