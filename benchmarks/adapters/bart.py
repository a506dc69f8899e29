"transformers, BartForConditionalGeneration"
from transformers import BartConfig, BartForConditionalGeneration
vocab_size, pad, bos, eos = 40, 1, 0, 2
def make():
    return BartForConditionalGeneration(BartConfig(
        vocab_size=40, d_model=16, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=32,
        decoder_ffn_dim=32, encoder_attention_heads=4, decoder_attention_heads=4,
        max_position_embeddings=60, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        decoder_start_token_id=0, forced_eos_token_id=None))
def logits(model, src, tgt):
    return model(input_ids=src, attention_mask=(src != 1).long(),
                 decoder_input_ids=tgt, use_cache=False).logits
def greedy(model, src, max_len): # with its cache
    return model.generate(src, attention_mask=(src != 1).long(), num_beams=1, do_sample=False,
                          max_new_tokens=max_len)[:, 1:].tolist()
