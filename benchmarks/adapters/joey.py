"joeynmt 2.3.0, as its configs/transformer_*.yaml build it"
from types import SimpleNamespace
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary
vocab_size, pad, bos, eos = 40, 1, 2, 3
special = SimpleNamespace(unk_token='<unk>', pad_token='<pad>', bos_token='<s>', eos_token='</s>',
                          sep_token=None, unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None,
                          lang_tags=[])
words = Vocabulary([f'w{i}' for i in range(36)], special)
side = dict(type='transformer', num_layers=2, num_heads=4, hidden_size=16, ff_size=32,
            dropout=0.1, embeddings=dict(embedding_dim=16, scale=True), layer_norm='post')
def make():
    return build_model(dict(encoder=side, decoder=side, tied_embeddings=True, tied_softmax=True,
                            initializer='xavier_uniform', embed_initializer='xavier_uniform',
                            bias_initializer='zeros'), words, words)
def logits(model, src, tgt):
    mask, tgt_mask = (src != 1)[:, None], (tgt != 1)[:, None]
    return model._encode_decode(src, tgt, mask, (src != 1).sum(1), tgt_mask)[0]
