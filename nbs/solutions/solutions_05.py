"Solutions of the exercises of chapter 05, the model"
from transformer_nb.multihead import causal_mask

def language_model(model, ids):
    """Exercise 2. An encoder layer has no bridge to another stack. All that kept it from
    being the layer of a language model was its mask.

    What remains of the model is what is today called decoder-only: the encoder's layers
    under the decoder's mask.
    """
    x = model.tgt_positions(model.tgt_embedding(ids))
    mask = causal_mask(ids.shape[1], ids.device)
    return model.output.logits(model.encoder(x, mask))

def kept_numbers(config, s, t):
    """Exercise 3. Each layer of the decoder keeps a key and a value per head for every
    source token (its attention to the memory) and for every target token written so far
    (its self-attention).
    """
    c = config
    per_token = c.n_decoder_layers * c.n_heads * (c.d_k + c.d_v)
    return per_token * (s + t)

def sees_the_future():
    """Exercise 4. Suppose that every vector entering a sub-layer of the decoder depends on
    inputs up to its own position only. The embedding and its position do.

    Self-attention under the causal mask mixes positions up to i, which depend on inputs up
    to i. Cross-attention takes its query from position i, and its keys and values from the
    source. The feed-forward network, dropout, norm and output map each work on position i
    alone, and so does the sum of the residual connection. So what leaves depends on inputs
    up to i only, and after the last sub-layer that is the claim. ∎

    (1) The proof never used the mask of the padding. (2) A norm over the sentence puts the
    mean of all positions, later ones too, into each of them. (3) Fewer positions are mixed,
    and none of them is later.
    """
    return False, True, False
