#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of a GPT-2 in PyTorch on a GPU, as bench/run/device_step.cu has them: prints a JSON object.

Weights and AdamW's state are fp32, products and attention bf16 (autocast), attention is scaled_dot_product_attention, and AdamW is
fused: what one would write. --how compiled passes the model through torch.compile.
"""
import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(c, 2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.out(functional.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(o.vocabulary, o.width), nn.Embedding(o.context, o.width)
        self.h = nn.Sequential(*(Block(o.width, o.heads) for _ in range(o.layers)))
        self.ln_f = nn.LayerNorm(o.width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        logits = functional.linear(self.ln_f(self.h(self.wte(tokens) + self.wpe.weight)), self.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=("eager", "compiled"), required=True)
    for name in ("layers", "heads", "width", "sequences", "context", "vocabulary", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    o = parser.parse_args()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = GPT2(o).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    run = torch.compile(model) if o.how == "compiled" else model
    i = torch.arange(o.sequences * o.context, device="cuda")
    tokens = (i * 7919 % o.vocabulary).view(o.sequences, -1)
    targets = ((i + 1) * 7919 % o.vocabulary).view(o.sequences, -1)
    seconds, losses = [], []
    for step in range(3 + o.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = run(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.item()
        if step >= 3:
            seconds.append(time.perf_counter() - begin)
            losses.append(value)
    print(json.dumps({"version": torch.__version__, "tokens_per_step": o.sequences * o.context, "seconds": seconds, "losses": losses,
                      "device_bytes": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    main()
