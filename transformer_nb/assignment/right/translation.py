import json
from pathlib import Path
import torch
from safetensors.torch import load_file
from config import TransformerConfig
from decoding import beam_search
from model import Transformer

PAD, BOS, EOS = 0, 1, 2
PAPER = dict(family='Transformer', positions='sinusoidal', activation='relu', norm_eps=None,
             n_kv_heads=None, scale_embeddings=True) # what the names of weights do not tell

def load_model(folder): # whose weights are named as the layers of the package
    record = json.loads(Path(folder, 'config.json').read_text(encoding='utf8'))
    fields = record | record['model']
    for name, value in PAPER.items():
        assert fields.get(name, value) == value, f'{folder}: {name} is {fields[name]}'
    sizes = {name: fields[name] for name in TransformerConfig.__dataclass_fields__}
    model = Transformer(TransformerConfig(**sizes))
    weights = {name.replace('embeddings.0.', 'embedding.').replace('.layers.', '.'): tensor
               for name, tensor in load_file(Path(folder, 'model.safetensors')).items()}
    assert weights.keys() == model.state_dict().keys(), f'{folder} is another model'
    model.load_state_dict(weights)
    return model.eval()

def translate(model, tokenizer, text):
    ids = tokenizer.encode(text)
    best, _ = beam_search(model, torch.tensor([ids + [EOS]]), 4, 0.6, len(ids) + 50)
    return tokenizer.decode(best)
