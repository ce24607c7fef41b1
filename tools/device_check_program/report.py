# SPDX-License-Identifier: Apache-2.0
"""The results of tools/device-check as Markdown."""


def table(head, rows):
    if not rows:
        return "none\n"
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def rate(value, unit):
    scale, name = (1e12, "TFLOP/s") if unit == "flop" else (1e9, "GB/s")
    return f"{value / scale:,.1f} {name}"


def gibibytes(value):
    return f"{value / 2**30:.2f} GiB"


def verdict(one):
    return "passed" if one["passed"] else "**failed**"


def markdown(result):
    device = result["device"]
    parts = [f"# heddle on {device.get('name', 'a device')}\n",
             ("Run on the emulated device, at tiny sizes: a test of the command. **No figure here says anything of speed.**\n"
              if result["emulated"] else
              f"Compute capability {device['capability']}, driver {device['driver']}, {device['nvcc']}; {device['processor_cores']} cores.\n"
              if device else ""),
             f"Begun {result['begun']}, heddle {result['version']}; {result['seconds']:.0f} s of at most {result['minutes']:g} minutes" +
             ("." if result["complete"] else "; **it has not ended**.") + "\n",
             "## Tests\n",
             table(("test", "result", "seconds"), [(one["name"], verdict(one), one["seconds"]) for one in result["tests"]])]
    for one in result["tests"] + result["sanitizer"]:
        if one["said"]:
            parts.append(f"{one['name']}:\n\n```text\n" + "\n".join(one["said"]) + "\n```\n")
    training = result["training"]
    if training is not None:
        if "tolerance" in training:
            parts.append(f"{training['steps']} steps of `tiny` in fp32, {verdict(training)}: the losses of device and host are at most "
                         f"{training['largest_relative_difference']:.1e} of the loss apart (bound {training['tolerance']:g}); validation "
                         f"loss {training['device_validation_loss']:.4f}, the host's {training['host_validation_loss']:.4f}.\n")
        else:
            parts.append("Training `tiny` **failed**:\n\n```text\n" + "\n".join(training["said"]) + "\n```\n")
    limits = result["limits"]
    parts.append("## Kernels\n")
    if limits and not result["emulated"]:
        measured = [text + rate(limits[key], unit) for key, text, unit in (
            ("copy_bytes_per_second", "a copy within the device's memory (read and written) ", "byte"),
            ("product_flop_per_second", "a bf16 product of 8192³ ", "flop")) if key in limits]
        parts.append(f"The limits, the better of before and after: {', '.join(measured)}.\n")
    parts.append(table(("primitive", "type", "µs", "rate", "share of the limit"),
                       [(one["name"], one["type"], f"{1e6 * one['seconds']:.1f}", rate(one["per_second"], one["unit"]),
                         f"{one['share']:.2f}") for one in result["kernels"]]))
    parts.append("Attention counts half of the square of queries and keys here, as much as is computed under the causal mask.\n")
    parts += ["## Training steps in bf16_mixed\n",
              table(("model", "ms a step", "tokens/s", "model FLOP/s", "of the measured product", "ledger", "device had less", "ledger met"),
                    [(one["name"], f"{1e3 * one['seconds']:.1f}", f"{one['tokens_per_second']:,.0f}",
                      rate(one["flop_per_second"], "flop"), "" if one["utilisation"] is None else f"{one['utilisation']:.2f}",
                      gibibytes(one["ledger_bytes"]), gibibytes(one["device_bytes"]), verdict(one)) for one in result["steps"]]),
              "Model FLOP/s count attention's whole square, as the usual closed form does, though half of it is computed.\n",
              "## The same models in PyTorch\n",
              table(("model", "how", "version", "ms a step", "tokens/s", "memory", "times heddle's step"),
                    [(one["name"], one["how"], one["version"], f"{1e3 * one['seconds']:.1f}", f"{one['tokens_per_second']:,.0f}",
                      gibibytes(one["device_bytes"]),
                      "" if one["times_slower_than_heddle"] is None else f"{one['times_slower_than_heddle']:.2f}")
                     for one in result["peers"]]),
              "## compute-sanitizer\n",
              table(("test", "tool", "result", "seconds"),
                    [(one["name"], one["tool"], verdict(one), one["seconds"]) for one in result["sanitizer"]]),
              "## Left out\n", table(("what", "why"), [(one["what"], one["why"]) for one in result["cut"]])]
    return "\n".join(part for part in parts if part)
