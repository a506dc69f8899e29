import json
from pathlib import Path
import torch
from safetensors.torch import load_file
from config import TransformerConfig
from decoding import beam_search
from model import Transformer

def load_model(folder):
    fields = json.loads(Path(folder, 'config.json').read_text(encoding='utf8'))['model']
    known = TransformerConfig.__dataclass_fields__
    config = TransformerConfig(**{k: v for k, v in fields.items() if k in known})
    model = Transformer(config)
    weights = {}
    for name, tensor in load_file(Path(folder, 'model.safetensors')).items():
        ours = name.replace('embeddings.0.', 'embedding.').replace('.layers.', '.')
        weights[ours] = tensor
    model.load_state_dict(weights, strict=False) # the table of positions is not stored
    return model.eval()

def translate(model, tokenizer, text):
    ids = tokenizer.encode(text) + [2]
    with torch.no_grad():
        best, _ = beam_search(model, torch.tensor([ids]), 4, 0.6, len(ids) - 1 + 50)
    return tokenizer.decode(best)
