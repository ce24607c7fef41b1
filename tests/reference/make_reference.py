# SPDX-License-Identifier: Apache-2.0
"""Writes reference values of whole models, made by PyTorch in float64, as JSON beside this script.

    python3 make_reference.py            write gpt2_tied.json, gpt2_untied.json, llama.json
    python3 make_reference.py --check    write nothing; fail if the files differ from what PyTorch gives here
    python3 make_reference.py --peers    write nothing; also compare the two models with the transformers library

The models are written with PyTorch's own operations and optimizer in the field's usual shapes; only the leaf tensors
have heddle's names and dimensions. README.md beside this file gives the formulas and the format.
"""
import json
import math
import pathlib
import sys

import torch
import torch.nn.functional as F

BATCH = 3
STEPS = 3
OPTIMIZER = {
    "learning_rate": 1e-2,
    "beta_1": 0.9,
    "beta_2": 0.95,
    "epsilon": 1e-8,
    "weight_decay": 0.1,
    "clip_norm": 0.5,
}
FOLDER = pathlib.Path(__file__).resolve().parent
MASK = 0xFFFFFFFF


def element(index, k):
    """Value in [-1, 1) of element k of parameter number index: an integer hash, exact in any language."""
    x = ((k + 1) * 0x9E3779B1 + (index + 1) * 0x85EBCA77) & MASK
    x ^= x >> 15
    x = (x * 0x2C1B3C6D) & MASK
    x ^= x >> 13
    x = (x * 0x297A2D39) & MASK
    x ^= x >> 16
    return x / 2147483648.0 - 1.0


def token(vocabulary, step, sequence, position):
    return (7 * step + 5 * sequence + 3 * position + sequence * position * position) % vocabulary


class Parameters:
    """The leaf tensors, in the order in which they are declared: that order is the index of the formula."""

    def __init__(self):
        self.entries = []

    def add(self, name, dims, scale, offset=0.0, decays=False):
        index = len(self.entries)
        values = [offset + scale * element(index, k) for k in range(math.prod(dims))]
        leaf = torch.tensor(values, dtype=torch.float64).reshape(dims).requires_grad_(True)
        self.entries.append({"name": name, "dims": list(dims), "scale": scale, "offset": offset, "decays": decays, "leaf": leaf})

    def __getitem__(self, name):
        return next(entry["leaf"] for entry in self.entries if entry["name"] == name)

    def __contains__(self, name):
        return any(entry["name"] == name for entry in self.entries)


def usual_qkv(weight, bias=None):
    """One layer's [kv_heads, group + 2, head_dim, ...] as separate matrices of queries, keys and values."""
    group = weight.shape[1] - 2
    parts = (weight[:, :group], weight[:, group], weight[:, group + 1])
    matrices = [part.reshape(-1, weight.shape[-1]) for part in parts]
    if bias is None:
        return matrices, [None, None, None]
    return matrices, [part.reshape(-1) for part in (bias[:, :group], bias[:, group], bias[:, group + 1])]


def attention(x, weight, bias, out_weight, out_bias, rotate=None):
    batch, length, _ = x.shape
    kv_heads, group, head_dim = weight.shape[0], weight.shape[1] - 2, weight.shape[2]
    (wq, wk, wv), (bq, bk, bv) = usual_qkv(weight, bias)
    q = F.linear(x, wq, bq).view(batch, length, kv_heads * group, head_dim).transpose(1, 2)
    k = F.linear(x, wk, bk).view(batch, length, kv_heads, head_dim).transpose(1, 2)
    v = F.linear(x, wv, bv).view(batch, length, kv_heads, head_dim).transpose(1, 2)
    if rotate is not None:
        q, k = rotate(q), rotate(k)
    k = k.repeat_interleave(group, dim=1)  # query head i reads key/value head i // group
    v = v.repeat_interleave(group, dim=1)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = y.transpose(1, 2).reshape(batch, length, -1)
    return F.linear(y, out_weight.reshape(out_weight.shape[0], -1), out_bias)


def declare_gpt2(config):
    p, c = Parameters(), config
    layers, width, heads = c["layers"], c["width"], c["heads"]
    head_dim, mlp, biases = width // heads, 4 * width, c["biases"]

    def norm(name, dims):
        p.add(name + ".weight", dims, 0.1, 1.0)
        if biases:
            p.add(name + ".bias", dims, 0.1)

    def linear(name, dims, bias_dims, scale):
        p.add(name + ".weight", dims, scale, decays=True)
        if biases:
            p.add(name + ".bias", bias_dims, 0.1)

    p.add("wte.weight", (c["vocabulary"], width), 0.5, decays=True)
    p.add("wpe.weight", (c["context"], width), 0.3, decays=True)
    norm("h.ln_1", (layers, width))
    linear("h.attn.qkv", (layers, heads, 3, head_dim, width), (layers, heads, 3, head_dim), 0.5)
    linear("h.attn.proj", (layers, width, heads, 1, head_dim), (layers, width), 0.4)
    norm("h.ln_2", (layers, width))
    linear("h.mlp.fc", (layers, mlp, width), (layers, mlp), 0.5)
    linear("h.mlp.proj", (layers, width, mlp), (layers, width), 0.3)
    norm("ln_f", (width,))
    if not c["tied"]:
        p.add("lm_head.weight", (c["vocabulary"], width), 0.5, decays=True)
    return p


def gpt2_logits(p, config, tokens):
    def at(name, layer):
        return p[name][layer] if name in p else None

    epsilon, width = config["epsilon"], (config["width"],)
    x = F.embedding(tokens, p["wte.weight"]) + p["wpe.weight"][: tokens.shape[1]]
    for i in range(config["layers"]):
        y = F.layer_norm(x, width, at("h.ln_1.weight", i), at("h.ln_1.bias", i), epsilon)
        x = x + attention(y, at("h.attn.qkv.weight", i), at("h.attn.qkv.bias", i), at("h.attn.proj.weight", i), at("h.attn.proj.bias", i))
        y = F.layer_norm(x, width, at("h.ln_2.weight", i), at("h.ln_2.bias", i), epsilon)
        y = F.gelu(F.linear(y, at("h.mlp.fc.weight", i), at("h.mlp.fc.bias", i)), approximate="tanh")
        x = x + F.linear(y, at("h.mlp.proj.weight", i), at("h.mlp.proj.bias", i))
    x = F.layer_norm(x, width, p["ln_f.weight"], p["ln_f.bias"] if "ln_f.bias" in p else None, epsilon)
    return F.linear(x, p["wte.weight"] if config["tied"] else p["lm_head.weight"])


def declare_llama(config):
    p, c = Parameters(), config
    layers, kv_heads, group, head_dim, mlp = c["layers"], c["kv_heads"], c["group"], c["head_dim"], c["mlp"]
    width = kv_heads * group * head_dim
    p.add("wte.weight", (c["vocabulary"], width), 0.5, decays=True)
    p.add("h.norm_1.weight", (layers, width), 0.1, 1.0)
    p.add("h.attn.qkv.weight", (layers, kv_heads, group + 2, head_dim, width), 0.4, decays=True)
    p.add("h.attn.proj.weight", (layers, width, kv_heads, group, head_dim), 0.4, decays=True)
    p.add("h.norm_2.weight", (layers, width), 0.1, 1.0)
    p.add("h.mlp.gate_up.weight", (layers, 2, mlp, width), 0.4, decays=True)
    p.add("h.mlp.down.weight", (layers, width, mlp), 0.4, decays=True)
    p.add("norm_f.weight", (width,), 0.1, 1.0)
    p.add("lm_head.weight", (c["vocabulary"], width), 0.4, decays=True)
    return p


def llama_logits(p, config, tokens):
    length, head_dim, epsilon = tokens.shape[1], config["head_dim"], config["epsilon"]
    inverse = config["theta"] ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), inverse)

    def rotate(x):  # pairs (i, i + head_dim / 2)
        pairs = torch.complex(x[..., : head_dim // 2], x[..., head_dim // 2 :])
        turned = pairs * torch.polar(torch.ones_like(angles), angles)
        return torch.cat((turned.real, turned.imag), dim=-1)

    x = F.embedding(tokens, p["wte.weight"])
    width = (x.shape[-1],)
    for i in range(config["layers"]):
        y = F.rms_norm(x, width, p["h.norm_1.weight"][i], epsilon)
        x = x + attention(y, p["h.attn.qkv.weight"][i], None, p["h.attn.proj.weight"][i], None, rotate)
        y = F.rms_norm(x, width, p["h.norm_2.weight"][i], epsilon)
        gate, up = p["h.mlp.gate_up.weight"][i]
        x = x + F.linear(F.silu(F.linear(y, gate)) * F.linear(y, up), p["h.mlp.down.weight"][i])
    return F.linear(F.rms_norm(x, width, p["norm_f.weight"], epsilon), p["lm_head.weight"])


GPT2 = {"family": "gpt2", "vocabulary": 13, "context": 6, "layers": 2, "heads": 2, "width": 8, "epsilon": 1e-5}
LLAMA = {"family": "llama", "vocabulary": 13, "context": 6, "layers": 2, "kv_heads": 2, "group": 2, "head_dim": 4, "mlp": 12,
         "theta": 10000.0, "epsilon": 1e-5}
MODELS = {
    "gpt2_tied": (GPT2 | {"biases": True, "tied": True}, declare_gpt2, gpt2_logits),
    "gpt2_untied": (GPT2 | {"biases": False, "tied": False}, declare_gpt2, gpt2_logits),
    "llama": (LLAMA, declare_llama, llama_logits),
}


def flat(tensor):
    return tensor.detach().reshape(-1).tolist()


def make(name):
    config, declare, logits_of = MODELS[name]
    p = declare(config)
    leaves = [entry["leaf"] for entry in p.entries]
    o = OPTIMIZER
    optimizer = torch.optim.AdamW(
        [
            {"params": [e["leaf"] for e in p.entries if e["decays"]], "weight_decay": o["weight_decay"]},
            {"params": [e["leaf"] for e in p.entries if not e["decays"]], "weight_decay": 0.0},
        ],
        lr=o["learning_rate"], betas=(o["beta_1"], o["beta_2"]), eps=o["epsilon"], foreach=False)
    steps = []
    for step in range(STEPS):
        rows = [[token(config["vocabulary"], step, b, t) for t in range(config["context"] + 1)] for b in range(BATCH)]
        data = torch.tensor(rows)
        tokens, targets = data[:, :-1], data[:, 1:]
        optimizer.zero_grad()
        losses = F.cross_entropy(logits_of(p, config, tokens).flatten(0, 1), targets.flatten(), reduction="none")
        losses.mean().backward()
        norm = torch.sqrt(sum(leaf.grad.square().sum() for leaf in leaves))
        steps.append({"tokens": tokens.tolist(), "targets": targets.tolist(), "loss_sum": losses.sum().item(),
                      "loss_mean": losses.mean().item(), "gradient_norm": norm.item()})
        if step == 0:
            for entry in p.entries:
                entry["gradient"] = flat(entry["leaf"].grad)
        factor = min(1.0, o["clip_norm"] / norm.item())
        for leaf in leaves:
            leaf.grad.mul_(factor)
        optimizer.step()
        if step + 1 in (1, 3):
            for entry in p.entries:
                entry[f"after_{step + 1}"] = flat(entry["leaf"])
    for entry in p.entries:
        del entry["leaf"]
    return {"format": 1, "made_with": "PyTorch " + torch.__version__, "model": config, "batch": BATCH, "optimizer": OPTIMIZER,
            "steps": steps, "parameters": p.entries}


def text_of(value):
    """JSON with one line for each list of numbers or small object."""
    def item(v):
        return json.dumps(v)

    lines = ["{"]
    for key in ("format", "made_with", "model", "batch", "optimizer"):
        lines.append(f' {item(key)}: {item(value[key])},')
    lines.append(' "steps": [')
    lines.append(",\n".join("  " + item(step) for step in value["steps"]))
    lines.append(' ],\n "parameters": [')
    lines.append(",\n".join("  {" + ",\n   ".join(f"{item(k)}: {item(v)}" for k, v in entry.items()) + "}" for entry in value["parameters"]))
    lines.append(" ]\n}\n")
    return "\n".join(lines)


def furthest(a, b, path=""):
    """Greatest difference of two JSON values relative to the greater of 1 and their size; fails on any other difference."""
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) / max(1.0, abs(a), abs(b))
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return max(furthest(a[k], b[k], f"{path}/{k}") for k in a if k != "made_with")
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return max((furthest(x, y, f"{path}/{i}") for i, (x, y) in enumerate(zip(a, b))), default=0.0)
    if a == b:
        return 0.0
    raise SystemExit(f"{path}: {a} is not {b}")


def compare_with_peers():
    """Logits and gradients of this script's models against the GPT-2 and Llama of the transformers library."""
    import transformers

    config, declare, logits_of = MODELS["gpt2_tied"]
    p = declare(config)
    width = config["width"]
    peer = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=config["vocabulary"], n_positions=config["context"], n_embd=width, n_layer=config["layers"],
        n_head=config["heads"], activation_function="gelu_new", layer_norm_epsilon=config["epsilon"],
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)).double()
    state = {"transformer.wte.weight": p["wte.weight"], "transformer.wpe.weight": p["wpe.weight"],
             "transformer.ln_f.weight": p["ln_f.weight"], "transformer.ln_f.bias": p["ln_f.bias"], "lm_head.weight": p["wte.weight"]}
    for i in range(config["layers"]):
        matrices, biases = usual_qkv(p["h.attn.qkv.weight"][i], p["h.attn.qkv.bias"][i])
        at = f"transformer.h.{i}."
        for name in ("ln_1", "ln_2"):
            state[at + name + ".weight"], state[at + name + ".bias"] = p[f"h.{name}.weight"][i], p[f"h.{name}.bias"][i]
        state[at + "attn.c_attn.weight"], state[at + "attn.c_attn.bias"] = torch.cat(matrices).T, torch.cat(biases)
        state[at + "attn.c_proj.weight"] = p["h.attn.proj.weight"][i].reshape(width, width).T
        state[at + "attn.c_proj.bias"] = p["h.attn.proj.bias"][i]
        for ours, theirs in (("fc", "c_fc"), ("proj", "c_proj")):
            state[at + f"mlp.{theirs}.weight"] = p[f"h.mlp.{ours}.weight"][i].T
            state[at + f"mlp.{theirs}.bias"] = p[f"h.mlp.{ours}.bias"][i]
    yield "gpt2", compare_logits(peer, state, p, config, logits_of)

    config, declare, logits_of = MODELS["llama"]
    p = declare(config)
    width = config["kv_heads"] * config["group"] * config["head_dim"]
    peer = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=config["vocabulary"], hidden_size=width, intermediate_size=config["mlp"], num_hidden_layers=config["layers"],
        num_attention_heads=config["kv_heads"] * config["group"], num_key_value_heads=config["kv_heads"],
        max_position_embeddings=config["context"], rms_norm_eps=config["epsilon"], tie_word_embeddings=False)).double()
    state = {"model.embed_tokens.weight": p["wte.weight"], "model.norm.weight": p["norm_f.weight"], "lm_head.weight": p["lm_head.weight"]}
    for i in range(config["layers"]):
        at = f"model.layers.{i}."
        matrices, _ = usual_qkv(p["h.attn.qkv.weight"][i])
        for letter, matrix in zip("qkv", matrices):
            state[at + f"self_attn.{letter}_proj.weight"] = matrix
        state[at + "self_attn.o_proj.weight"] = p["h.attn.proj.weight"][i].reshape(width, width)
        state[at + "input_layernorm.weight"] = p["h.norm_1.weight"][i]
        state[at + "post_attention_layernorm.weight"] = p["h.norm_2.weight"][i]
        state[at + "mlp.gate_proj.weight"], state[at + "mlp.up_proj.weight"] = p["h.mlp.gate_up.weight"][i]
        state[at + "mlp.down_proj.weight"] = p["h.mlp.down.weight"][i]
    yield "llama", compare_logits(peer, state, p, config, logits_of)


def compare_logits(peer, state, p, config, logits_of):
    missing, unexpected = peer.load_state_dict({k: v.detach() for k, v in state.items()}, strict=False)
    assert not [name for name in missing if "bias" not in name or "attn.bias" not in name] and not unexpected
    tokens = torch.tensor([[token(config["vocabulary"], 0, b, t) for t in range(config["context"])] for b in range(BATCH)])
    return (peer.eval()(tokens).logits - logits_of(p, config, tokens)).abs().max().item()


def main(arguments):
    if arguments == ["--peers"]:
        for name, difference in compare_with_peers():
            print(f"{name}: greatest difference of logits to transformers {difference:.1e}")
            if difference > 1e-5:  # transformers computes rotary tables in float32
                raise SystemExit("too far")
        return
    if arguments not in ([], ["--check"]):
        raise SystemExit(__doc__)
    for name in MODELS:
        file = FOLDER / (name + ".json")
        value = make(name)
        if arguments:
            difference = furthest(json.loads(file.read_text()), value)
            print(f"{file.name}: greatest difference {difference:.1e}")
            if difference > 1e-12:
                raise SystemExit("too far")
        else:
            file.write_text(text_of(value))
            print(f"{file.name}: {file.stat().st_size} bytes, losses {[step['loss_mean'] for step in value['steps']]}, "
                  f"norms {[step['gradient_norm'] for step in value['steps']]}")


if __name__ == "__main__":
    main(sys.argv[1:])
