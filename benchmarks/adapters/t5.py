"transformers, T5ForConditionalGeneration"
from transformers import T5Config, T5ForConditionalGeneration
vocab_size, pad, bos, eos = 40, 0, 3, 1
def make():
    return T5ForConditionalGeneration(T5Config(
        vocab_size=40, d_model=16, d_kv=4, d_ff=32, num_layers=2, num_heads=4,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=3))
def logits(model, src, tgt):
    return model(input_ids=src, attention_mask=(src != 0).long(),
                 decoder_input_ids=tgt, use_cache=False).logits
def greedy(model, src, max_len): # with its cache
    return model.generate(src, attention_mask=(src != 0).long(), num_beams=1, do_sample=False,
                          max_new_tokens=max_len)[:, 1:].tolist()
