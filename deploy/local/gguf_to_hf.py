"""Writes the model of a GGUF file (Llama architecture, one file) as the folder that vLLM and the router's tokenizer load:
config.json, model.safetensors in bfloat16, tokenizer.json, tokenizer_config.json, chat template.

usage: gguf_to_hf.py FILE.gguf FOLDER

vLLM keeps a layer's rotary halves apart where GGUF has them interleaved, so the query and key rows are put back in order."""
import json
import sys
from pathlib import Path

import numpy
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.torch import save_file
from transformers import AutoTokenizer

NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
WHOLE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}


def field(reader, key):
    entry = reader.fields[key]
    value = entry.parts[entry.data[0]]
    return bytes(value).decode() if entry.types[0].name == "STRING" else value[0].item()


def halves(rows, heads):
    """Interleaved rotary rows of each head -> first half, second half."""
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def main():
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    reader = GGUFReader(str(source))
    if field(reader, "general.architecture") != "llama":
        sys.exit(f"{source}: not of the Llama architecture")
    heads, kv_heads = field(reader, "llama.attention.head_count"), field(reader, "llama.attention.head_count_kv")
    hidden = field(reader, "llama.embedding_length")
    tensors = {}
    for tensor in reader.tensors:
        name = WHOLE.get(tensor.name)
        values = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        if name is None and tensor.name.startswith("blk."):
            _, layer, part, _ = tensor.name.split(".")
            if part in ("attn_q", "attn_k"):
                values = halves(values, heads if part == "attn_q" else kv_heads)
            name = f"model.layers.{layer}.{NAMES[part]}.weight"
        if name is not None:
            tensors[name] = torch.from_numpy(numpy.ascontiguousarray(values)).to(torch.bfloat16)
    folder.mkdir(parents=True)
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
    bos, eos = field(reader, "tokenizer.ggml.bos_token_id"), field(reader, "tokenizer.ggml.eos_token_id")
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": field(reader, "llama.feed_forward_length"), "num_hidden_layers": field(reader, "llama.block_count"),
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": hidden // heads,
        "vocab_size": tensors["model.embed_tokens.weight"].shape[0], "max_position_embeddings": field(reader, "llama.context_length"),
        "hidden_act": "silu", "rms_norm_eps": field(reader, "llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": field(reader, "llama.rope.freq_base"), "bos_token_id": bos, "eos_token_id": eos,
        "tie_word_embeddings": "lm_head.weight" not in tensors, "torch_dtype": "bfloat16", "attention_bias": False, "mlp_bias": False}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": bos, "eos_token_id": eos, "do_sample": False}))
    tokenizer = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name)
    tokenizer.chat_template = field(reader, "tokenizer.chat_template")
    tokenizer.save_pretrained(str(folder))


if __name__ == "__main__":
    main()
