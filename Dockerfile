# The book in JupyterLab, with PyTorch for the CPU:
#   docker build -t transformer_nb . && docker run -p 8888:8888 transformer_nb
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home reader
USER reader
WORKDIR /home/reader/book
COPY --chown=reader constraints.txt .
RUN python -m venv .venv && .venv/bin/pip install --no-cache-dir \
    "$(grep '^torch==' constraints.txt)" --index-url https://download.pytorch.org/whl/cpu
COPY --chown=reader . .
RUN make .venv/ready && .venv/bin/jupyter trust nbs/*.ipynb
EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "nbs/00_introduction.ipynb"]
