"labml-nn 0.5.1, labml_nn.transformers, time first"
from labml_nn.transformers import Decoder, Encoder, MultiHeadAttention, TransformerLayer
from labml_nn.transformers.feed_forward import FeedForward
from labml_nn.transformers.models import (
    EmbeddingsWithPositionalEncoding, EncoderDecoder, Generator)
from labml_nn.transformers.utils import subsequent_mask
vocab_size, pad, bos, eos = 40, 0, 1, 2
def layer(**more):
    return TransformerLayer(d_model=16, self_attn=MultiHeadAttention(4, 16, 0.1),
                            feed_forward=FeedForward(16, 32, 0.1), dropout_prob=0.1, **more)
def make():
    decoder = Decoder(layer(src_attn=MultiHeadAttention(4, 16, 0.1)), 2)
    embed = [EmbeddingsWithPositionalEncoding(16, 40) for _ in range(2)]
    return EncoderDecoder(Encoder(layer(), 2), decoder, *embed, Generator(40, 16))
def logits(model, src, tgt):
    src, mask = src.T, (src != 0).T[None] # (1, s, b)
    return model.generator(model(src, tgt.T, mask, subsequent_mask(len(tgt.T)))).transpose(0, 1)
