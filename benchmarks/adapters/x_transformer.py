"x-transformers 2.31.10, XTransformer"
from x_transformers import XTransformer
vocab_size, pad, bos, eos = 40, 0, 1, 2
def make():
    return XTransformer(dim=16, enc_num_tokens=40, enc_depth=2, enc_heads=4, enc_max_seq_len=60,
                        dec_num_tokens=40, dec_depth=2, dec_heads=4, dec_max_seq_len=60,
                        enc_attn_dim_head=4, dec_attn_dim_head=4)
def logits(model, src, tgt):
    mask = src != 0
    memory = model.encoder(src, mask=mask, return_embeddings=True)
    return model.decoder.net(tgt, context=memory, context_mask=mask)
