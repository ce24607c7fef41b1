#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The models of bench/peers/step.cpp in PyTorch: milliseconds of each training step, by the clock and of the process on
all cores, and the loss, one step a line.

torch_step.py MODEL THREADS STEPS    MODEL: tiny, gpt2-124m-64 or gpt2-124m-256; three more steps are not counted
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads, context, biased):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=biased), nn.Linear(width, width, bias=biased)
        self.fc, self.out = nn.Linear(width, 4 * width, bias=biased), nn.Linear(4 * width, width, bias=biased)
        # A plain attribute: hidden from the module's buffers.
        self.mask = [torch.ones(context, context).tril().view(1, 1, context, context) == 0]

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(c, 2))
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        y = functional.softmax(scores.masked_fill(self.mask[0], float("-inf")), dim=-1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        h = self.fc(self.ln_2(x))
        # torch 1.13's own kernel for GPT-2's form of GELU.
        return x + self.out(functional.gelu(h, approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, vocabulary, context, layers, heads, width, biased):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.Sequential(*(Block(width, heads, context, biased) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        logits = self.ln_f(self.h(x)) @ self.wte.weight.t()
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


MODELS = {
    "tiny": (12, dict(vocabulary=65, context=64, layers=4, heads=4, width=128, biased=False)),
    "gpt2-124m-64": (4, dict(vocabulary=50257, context=64, layers=12, heads=12, width=768, biased=True)),
    "gpt2-124m-256": (4, dict(vocabulary=50257, context=256, layers=12, heads=12, width=768, biased=True)),
}


def main():
    name, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    batch, sizes = MODELS[name]
    model = GPT2(**sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    i = torch.arange(batch * sizes["context"])
    tokens = (i * 7919 % sizes["vocabulary"]).view(batch, -1)
    targets = ((i + 1) * 7919 % sizes["vocabulary"]).view(batch, -1)
    for step in range(3 + steps):
        begin, worked = time.perf_counter(), time.process_time()
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.item()
        if step >= 3:
            spent, worked = time.perf_counter() - begin, time.process_time() - worked
            print(f"{1e3 * spent:.3f} {1e3 * worked:.3f} {value:.4f}", flush=True)


if __name__ == "__main__":
    main()
