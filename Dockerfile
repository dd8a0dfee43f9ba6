# clframe on a CPU: docker build -t clframe . && docker run --rm clframe
#   docker run --rm -v "$PWD/runs:/home/user/runs" clframe fit strategy=ewc stream=split_mnist
FROM python:3.11-slim

# torch's wheels for CPUs only; the default ones bring gigabytes of CUDA.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

RUN useradd --create-home user
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY clframe clframe
COPY configs configs
COPY plugins_contrib plugins_contrib
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" . \
    && rm -rf /source

USER user
WORKDIR /home/user
RUN clframe list > /dev/null
ENTRYPOINT ["clframe"]
CMD ["doctor"]
