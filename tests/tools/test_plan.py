#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks tools/plan about small plans: test_plan.py ROOT"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])
TOOL = ROOT / "tools" / "plan"
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools" / "plan_program"))
import plan  # noqa: E402  (the script behind the tool)

MODEL = ("--model gpt2 --vocabulary 25 --context 32 --layers 4 --heads 4 --width 32 --accumulate 4").split()
# 262,144 ranks: what walked over them, in the compiler or in the program, would not end in the time a test has.
QUESTION = MODEL + ["--mesh", "dp=65536,pp=2,tp=2", "--micro-batch", "2"]


class Plan(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.at = pathlib.Path(folder.name)
        cls.plan = json.loads(cls.answered(*QUESTION, "--json", "-").stdout)

    @classmethod
    def ask(cls, *arguments, **variables):
        return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                              env=os.environ | {"HEDDLE_BUILD": str(cls.at / "build")} | variables)

    @classmethod
    def answered(cls, *arguments):
        ended = cls.ask(*arguments)
        if ended.returncode != 0:
            raise AssertionError(ended.stdout + ended.stderr)
        return ended

    def refused(self, words, *arguments, status=2, **variables):
        ended = self.ask(*arguments, **variables)
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        for word in words:
            self.assertIn(str(word), ended.stderr)
        self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)
        self.assertTrue(ended.stderr.startswith("tools/plan: "))
        self.assertTrue(ended.stderr.rstrip("\n").isprintable(), ended.stderr)
        return ended

    def question_refused(self, words, *arguments):
        """As `refused`, without a process for each of many questions."""
        with self.assertRaises(plan.refused) as caught:
            plan.checked(plan.read(list(map(str, arguments))))
        for word in words:
            self.assertIn(str(word), str(caught.exception))
        self.assertTrue(str(caught.exception).isprintable())

    def programs(self):
        return {path.name for path in (self.at / "build-plan" / "programs").iterdir()}

    def test_known_constants(self):
        known = self.plan
        # 25·32 + 32·32 + 4·(12·32² + 13·32) + 2·32: the published formula of a tied GPT-2 with positions and biases.
        self.assertEqual(known["parameters"], 52704)
        self.assertEqual(known["ranks"], 4 * 65536)
        self.assertEqual(known["pipeline"]["bubble"], {"numerator": 1, "denominator": 5})  # (p-1)/(m+p-1)
        self.assertEqual(known["batch"]["micro_batch"], 2)
        # Per micro-batch and layer 2 each way (arXiv 2205.05198), and the embedding or the head: 2 × 32 × 32 floats, of
        # which each of two ranks sends half. 4 micro-batches, 2 layers a stage.
        for stage in (0, 1):
            for operation in ("reduce_scatter", "all_gather"):
                of_ops = [c for c in known["collective"] if c["op"] and c["axis"] == "tp" and c["operation"] == operation
                          and any(first <= stage <= last for first, last in c["stages"])]
                self.assertEqual(sum(c["calls"] for c in of_ops), 4 * (2 * 4 + 1))
                self.assertEqual(sum(c["bytes"] for c in of_ops), 4 * (2 * 4 + 1) * 2 * 32 * 32 * 4 // 2)
        in_flight = [stage["micro_batches_in_flight"] for stage in known["memory"]]
        self.assertEqual(in_flight, [2, 1])
        self.assertEqual(known["request"]["mesh"], {"dp": 65536, "pp": 2, "tp": 2})

    def test_the_question_of_the_readme_has_the_answer_of_its_page(self):
        """A trillion parameters on 3072 ranks; every line of the page's first two listings."""
        command = re.search(r"^tools/plan (--model gpt2 --layers 128 (?:.|\n)*?)\n```", (ROOT / "README.md").read_text(), re.MULTILINE)
        page = (ROOT / "docs" / "reference" / "plan-tool.md").read_text()
        self.assertIn(f"tools/plan {command[1]}\n", page)
        said = self.answered(*command[1].replace("\\\n", " ").split()).stdout.splitlines()
        listings = re.findall(r"```text\n((?:.|\n)*?)```", page)[:2]
        lines = [line for listing in listings for line in listing.splitlines() if line != "…"]
        self.assertGreater(len(lines), 15)
        for line in lines:
            self.assertIn(line, said)
        # 12·128·25600² + 13·128·25600 + (51200 + 2048)·25600 + 2·25600, and (p-1)/(m+p-1) of 64 stages and 512 micro-batches.
        self.assertIn("parameters  1,008,038,758,400, fp32", said)
        self.assertTrue(any("bubble 63/575" in line for line in said))

    def test_text_and_json_agree(self):
        text = self.answered(*QUESTION).stdout
        self.assertIn("dp 65536 × pp 2 × tp 2 = 262144 ranks", text)
        self.assertIn("parameters  52,704, fp32", text)
        self.assertIn("2 stages, 1F1B, bubble 1/5 (20.0 %)", text)
        memory, traffic = re.findall(r"^  total +(\S+) +(\S+)$", text, re.MULTILINE)
        self.assertEqual(list(memory), [f"{stage['total']:,}" for stage in self.plan["memory"]])
        self.assertEqual(list(traffic), [f"{stage['most_bytes']:,}" for stage in self.plan["traffic"]])
        for stage in self.plan["memory"]:
            for category, bytes_of in stage["bytes"].items():
                self.assertEqual(sum(row["bytes"] * row["times"] for row in stage["rows"] if row["category"] == category),
                                 bytes_of)
        first = [row for row in self.plan["memory"][0]["rows"] if row["category"] == "optimizer state"]
        self.assertEqual([(row["what"], row["element"]) for row in first],
                         [("first moment", "fp32"), ("second moment", "fp32")])
        # The ledger's lines: optimizer slots, element types, how long what lives, as many as JSON has.
        stages = [{(row["category"], row["what"], row["element"]): row for row in stage["rows"]} for stage in self.plan["memory"]]
        every = {line for stage in stages for line in stage}
        for what in ("first moment, fp32", "second moment, fp32", "saved by modules until their backward, fp32",
                     "ids of a step, int32"):
            self.assertIn(what, {f"{what}, {element}" for _, what, element in every})
        for category, what, element in every:
            row = re.search(rf"^    {what}, {element} +([\d,]+)(?: \((\d+) ×\))? +([\d,]+)(?: \((\d+) ×\))?$", text, re.MULTILINE)
            self.assertTrue(row, (what, text))
            for stage, (total, times) in zip(stages, (row.groups()[:2], row.groups()[2:])):
                line = stage.get((category, what, element), {"bytes": 0, "times": int(times or 1)})
                self.assertEqual((total, int(times or 1)), (f"{line['bytes'] * line['times']:,}", line["times"]))
        for category in ("parameters", "gradients", "optimizer state", "activations"):
            row = re.search(rf"^  {category} +(\S+) +(\S+)$", text, re.MULTILINE)
            self.assertEqual(list(row.groups()), [f"{stage['bytes'][category]:,}" for stage in self.plan["memory"]])

    def test_reasons_explain_all_traffic(self):
        """The collectives of a stage's first rank sum up to what that rank sends, axis by axis and operation by operation."""
        self.reasons_explain_all(self.plan)

    def reasons_explain_all(self, answered):
        for stage in answered["traffic"]:
            expected = {(axis, operation): sent for axis, classes in stage["axes"].items()
                        for operation, sent in classes[0]["sent"].items()}
            found = {}
            for c in answered["collective"]:
                self.assertTrue(c["why"])
                if any(first <= stage["stages"][0] <= last for first, last in c["stages"]):
                    sum_ = found.setdefault((c["axis"], c["operation"]), {"calls": 0, "bytes": 0})
                    sum_["calls"] += c["calls"]
                    sum_["bytes"] += c["bytes"]
            self.assertEqual(found, expected)

    def test_why(self):
        text = self.answered(*QUESTION, "--why").stdout
        for c in self.plan["collective"]:
            if c["operation"] != "receive":
                self.assertIn(f"{c['bytes']:,}", text)
                self.assertIn(c["why"], text)

    def test_one_parameter_and_one_activation(self):
        text = self.answered(*QUESTION, "--parameter", "h.attn.proj.weight", "--activation=h.attn.proj product").stdout
        self.assertIn("[layers:pp, embed, heads:tp, group, head_dim] partial dp", text)
        self.assertIn("the output is a sum over heads, which shard<heads, tp> splits over tp", text)
        self.assertIn("[batch:dp, sequence, embed] partial tp → [batch:dp, sequence:tp, embed]", text)
        # All layouts of the activation, those of its cotangents too, which an op that reads tokens has for its output alone.
        activation = next(a for a in self.plan["activation"] if (a["name"], a["op"]) == ("h.attn.proj", "product"))
        for title, key in (("input, between ops", "input"), ("input, as the op reads it", "input_compute"),
                           ("the op's iteration space", "space"), ("output, as it comes out", "output_pending"),
                           ("output, between ops", "output"), ("output's cotangent, as it is read", "output_cotangent"),
                           ("input's cotangent, as it comes out", "input_cotangent")):
            row = re.search(rf"^ +{re.escape(title)} {{2,}}(\S.*?) {{2,}}", text, re.MULTILINE)
            self.assertEqual(row.group(1), activation[key]["layout"], title)
        self.assertEqual([("output_cotangent" in a, "input_cotangent" in a) for a in self.plan["activation"]
                          if a["name"] == "wte"], [(True, False)])
        parameter = next(p for p in self.plan["parameter"] if p["name"] == "h.attn.proj.weight")
        self.assertEqual(parameter["compute"]["local_shape"], [2, 32, 2, 1, 8])
        self.assertIn("2 × 32 × 2 × 1 × 8", text)
        tied = self.answered(*QUESTION, "--parameter", "lm_head.weight").stdout
        self.assertIn("parameter wte.weight, lm_head.weight: vocab 25 (stored as 26) × embed 32", tied)
        self.assertIn("the first and the last stage use one parameter (a tie)", tied)
        self.refused(["--parameter", "'nothing'", "h.attn.qkv.bias"], *QUESTION, "--parameter", "nothing")
        self.refused(["--activation", "'; ls'", "lm_head"], *QUESTION, "--activation", "; ls")

    def test_the_cache(self):
        before = self.programs()
        self.assertEqual(self.answered(*QUESTION).stderr, "")  # compiles nothing
        self.assertEqual(json.loads(self.answered(*reversed_options(QUESTION), "--json", "-").stdout)["traffic"],
                         self.plan["traffic"])
        file = self.at / "plan.json"
        self.answered(*QUESTION, "--json", file)
        self.assertEqual(json.loads(file.read_text()), self.plan)
        self.assertEqual(self.programs(), before)

    def test_every_position_has_one_class(self):
        """Of chunks that are not all of one length, the first ranks of a group have the longer ones."""
        several = False
        for stage in self.plan["traffic"]:
            classes = [c["positions"] for c in stage["axes"]["dp"]]
            self.assertEqual((classes[0][0], classes[-1][1]), (0, 65535))
            for (_, end), (start, _) in zip(classes, classes[1:]):
                self.assertEqual(start, end + 1)
                several = True
            self.assertGreaterEqual(stage["most_bytes"], stage["least_bytes"])
        self.assertTrue(several)

    def test_memory_that_does_not_fit(self):
        needed = self.plan["peak_bytes"]
        self.answered(*QUESTION, "--fits", needed)
        ended = self.ask(*QUESTION, "--fits", needed - 1)
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"plan_error<fits<{needed - 1}>, must_not_be_less_than_the_bytes_of_a_rank<{needed}>, "
                      "on_pipeline_stage<0>", ended.stderr)

    def test_logits_in_chunks(self):
        """The last stage has a chunk's logits, and four numbers a token, in scratch: of half of a vocabulary."""
        question = [*QUESTION[:3], 4096, *QUESTION[4:]]
        one, chunks = (json.loads(self.answered(*question, "--logit-chunk", tokens * 2048 * 4, "--json", "-").stdout)["memory"]
                       for tokens in (64, 16))
        self.assertEqual([w["bytes"]["activations"] - p["bytes"]["activations"] for w, p in zip(one, chunks)], [0, 0])
        self.assertEqual([w["bytes"]["scratch"] - p["bytes"]["scratch"] for w, p in zip(one, chunks)],
                         [0, (64 - 16) * (2048 + 1 + 3) * 4])

    def test_precision(self):
        """Mixed precision: each line of its own type, and the bytes of each collective by the type that travels. Of the two
        data axes the state is split over one, and that one is named as the chooser."""
        question = MODEL + ["--mesh", "dp_replicate=2,dp=4,pp=2,tp=2", "--zero", "1:dp", "--precision", "bf16_mixed"]
        ended = self.answered(*question, "--json", self.at / "mixed.json", "--parameter", "wpe.weight")
        mixed = json.loads((self.at / "mixed.json").read_text())
        self.reasons_explain_all(mixed)
        self.assertEqual(mixed["rest_layouts_by"], "zero<1, dp>")
        self.assertIn("rest layouts by zero<1, dp>\n", ended.stdout)
        types = {(row["category"], row["what"]): row["element"] for row in mixed["memory"][0]["rows"]}
        self.assertEqual({what: types[category, what] for category, what in types if category in (
            "parameters", "gradients", "optimizer state", "buckets")},
            {"at rest": "bf16", "unreduced, of the unit that computes": "bf16", "accumulated": "fp32", "reduced": "fp32",
             "master weights": "fp32", "first moment": "fp32", "second moment": "fp32", "gradients on their way": "bf16"})
        self.assertEqual([mixed[key] for key in ("element_bytes", "gradient_bytes", "travelling_gradient_bytes",
                                                 "optimizer_state_bytes")], [2, 4, 2, 4])
        # 16 of the positions × 32, of 2 bytes; of the state's 4 a data rank has a fourth, twice, and of the masters' once.
        self.assertRegex(ended.stdout, r"at rest .* 1,024\n")
        self.assertRegex(ended.stdout, r"gradient, reduced .* 512\n")
        self.assertRegex(ended.stdout, r"optimizer state, 2 of .* 1,024\n")
        self.assertRegex(ended.stdout, r"master weights .* 512\n")
        self.refused(["--precision: there is no 'fp8'", "bf16_mixed"], *MODEL, "--mesh", "1", "--precision", "fp8")

    def test_frozen_parts(self):
        """All but the final norm: 2 × 32 of 52,704 parameters have gradients and state, and nothing else is reduced."""
        question = [*QUESTION, "--frozen", "wte,wpe,h,lm_head"]
        text = self.answered(*question).stdout
        self.assertIn("parameters  52,704, fp32, of which 52,640 are frozen", text)
        tuned = json.loads(self.answered(*question, "--json", "-").stdout)
        self.assertEqual((tuned["parameters"], tuned["trained_parameters"]), (52704, 64))
        self.assertEqual([stage["bytes"]["gradients"] for stage in tuned["memory"]], [0, 64 * 4])
        self.assertEqual([stage["bytes"]["parameters"] for stage in tuned["memory"]],
                         [stage["bytes"]["parameters"] for stage in self.plan["memory"]])
        for p in tuned["parameter"]:
            self.assertEqual(p["trained"], p["name"].startswith("ln_f."))
            self.assertEqual("gradient" in p, p["trained"])
        self.assertEqual({name for c in tuned["collective"] for name in c.get("parameters", [])},
                         {"ln_f.weight", "ln_f.bias"})
        # No backward reaches the first stage, nor the layers of the second.
        of_layers = [c for c in tuned["collective"] if c["phase"] == "backward" and c["where"].startswith("h.")]
        self.assertEqual(of_layers, [])
        saved = [[row["bytes"] > 0 for row in stage["rows"] if row["what"].startswith("saved by")] for stage in tuned["memory"]]
        self.assertEqual(saved, [[], [True]])
        self.assertIn("; tied; frozen", self.answered(*question, "--parameter", "wte.weight").stdout)
        self.refused(["must be the name of a module within 'Model'", "h.mpl"], *MODEL, "--mesh", 1, "--frozen", "h.mpl", status=1)
        self.refused(["frozen in all its uses or in none", "wte.weight", "lm_head.weight"], *MODEL, "--mesh", 1, "--frozen",
                     "wte", status=1)

    def test_a_plan_that_cannot_work(self):
        question = MODEL + ["--mesh", "tp=8"]
        said = self.refused(["plan_error<size_of<heads, 4>, must_be_a_multiple_of<8>, use_a_size_of<8>, "
                             "or_pad_or_shard_another_dimension_than<heads>>"], *question, status=1)
        known = self.programs()
        self.assertEqual(self.refused([], *question, status=1).stderr, said.stderr)  # known, so not compiled again
        self.assertEqual(self.programs(), known)

    def test_sentences_are_found_in_a_compilers_output(self):
        sentence = "dim<Name, Size>: 'Size' must be at least 1; leave the dimension out or give it a size"
        for log, found in (
            (f"a.hpp: In instantiation of ‘struct heddle::detail::x<1>’:\na.hpp:5:9: error: static assertion failed: {sentence}\n"
             "  5 |   static_assert(\n", sentence),
            (f"a.hpp:5:9: error: static_assert failed due to requirement '0UL > 0' \"{sentence}\"\n  static_assert(\n",
             sentence),
            ("a.hpp: In instantiation of ‘struct heddle::detail::axis<heddle::cp>’:\n"
             "a.hpp:5:9: error: static assertion failed: the axis named here\n", "the axis named here [struct detail::axis<cp>]"),
            ("error: invalid application of ‘sizeof’ to incomplete type ‘heddle::plan_error<heddle::size_of<heddle::heads, 52>, "
             "heddle::must_be_a_multiple_of<8> >’\n", "plan_error<size_of<heads, 52>, must_be_a_multiple_of<8>>"),
            ("error: invalid application of 'sizeof' to an incomplete type 'heddle::plan_error<heddle::fits<8UL>>'\n",
             "plan_error<fits<8>>"),
            ("error: implicit instantiation of undefined template 'heddle::model_error<heddle::gpt2_config, "
             "heddle::config_width<64>>'\n", "model_error<gpt2_config, config_width<64>>"),
            ("a.hpp:1:1: error: expected ';'\n", None)):
            self.assertEqual(plan.reason_of(log), found)

    def test_questions_that_are_refused(self):
        gpt = ("--model", "gpt2")
        self.refused(["--model: must be given"], "--mesh", "dp=2")
        self.question_refused(["--mesh: must be given"], *gpt)
        self.question_refused(["'gpt5'", "gpt2, llama"], "--model", "gpt5", "--mesh", 1)
        self.question_refused(["no option '--frobnicate'"], *gpt, "--mesh", 1, "--frobnicate", 1)
        self.question_refused(["--mesh: needs a value"], *gpt, "--mesh")
        self.question_refused(["--layers: is given twice"], *gpt, "--layers", 1, "--layers", 2)
        self.question_refused(["--kv-heads", "gpt2"], *gpt, "--mesh", 1, "--kv-heads", 2)
        for wrong in ("0", "-1", "1e3", "٣", "99999999999999999999", ""):
            self.question_refused(["--layers", "whole number from 1"], *gpt, "--mesh", 1, "--layers", wrong)
        self.question_refused(["--mesh", "'dp'"], *gpt, "--mesh", "dp=2,dp=2")
        self.question_refused(["--mesh", "write --mesh dp=2"], *gpt, "--mesh", "dp")
        self.question_refused(["'cp'", "--rules"], *gpt, "--mesh", "cp=2")
        self.question_refused(["9 axes"], *gpt, "--mesh", ",".join(f"x{n}=1" for n in range(9)))
        self.question_refused(["--rules", "'tpp'"], *gpt, "--mesh", "tp=2", "--rules", "heads:tpp")
        self.question_refused(["--rules", "'head'", "heads"], *gpt, "--mesh", "tp=2", "--rules", "head:tp")
        self.question_refused(["--sequence-parallel", "--rules"], *gpt, "--mesh", "tp=2", "--rules", "heads:tp",
                     "--sequence-parallel", "on")
        self.question_refused(["--zero", "'4'"], *gpt, "--mesh", "dp=2", "--zero", 4)
        self.question_refused(["--zero", "dp=N"], *gpt, "--mesh", "tp=2", "--zero", 1)
        self.question_refused(["--zero", "'tp'", "dp"], *gpt, "--mesh", "dp=2,tp=2", "--zero", "1:tp")
        self.question_refused(["--zero", "'dp' twice"], *gpt, "--mesh", "dp=2", "--zero", "3:dp,dp")
        self.question_refused(["--global-batch: 6", "4 data ranks", "4 or 8"], *gpt, "--mesh", "dp=4", "--global-batch", 6)
        self.question_refused(["--global-batch 24"], *gpt, "--mesh", "dp=4", "--global-batch", 16, "--micro-batch", 3,
                     "--accumulate", 2)
        self.question_refused(["--accumulate", "65536"], *gpt, "--mesh", "dp=4", "--accumulate", 65537)
        self.question_refused(["--logit-chunk", "number of bytes"], *gpt, "--mesh", 1, "--logit-chunk", "0")
        self.question_refused(["2^63 bytes"], *gpt, "--mesh", 1, "--layers", 1024, "--width", 4096, "--context", 1 << 20,
                              "--micro-batch", 1 << 20)
        # The largest that anybody has published, sixteen times over, is not.
        plan.checked(plan.read("--model gpt2 --layers 128 --width 25600 --heads 160 --vocabulary 51200 --context 2048 --mesh "
                               "dp=1024,pp=64,tp=8 --micro-batch 1 --accumulate 512".split()))
        self.question_refused(["--bucket", "25MiB"], *gpt, "--mesh", "dp=4", "--bucket", "25 MB")
        self.question_refused(["--frozen", "'wte wpe'"], *gpt, "--mesh", 1, "--frozen", "wte wpe")
        self.question_refused(["--frozen", "'h' twice"], *gpt, "--mesh", 1, "--frozen", "h,wte,h")
        self.question_refused(["--fits", "2^60"], *gpt, "--mesh", 1, "--fits", 2**60 + 1)
        self.assertEqual(plan.checked(plan.read(["--model=gpt2", "--mesh=1", f"--fits={2**60}"]))["fits"], 2**60)
        self.question_refused(["--dropout", "below 1", "15 decimals"], *gpt, "--mesh", 1, "--dropout", "0." + 16 * "9")
        self.refused(["CXX", "no-such-compiler"], *gpt, "--mesh", 1, CXX="no-such-compiler")

    def test_output_that_is_lost(self):
        os.mkfifo(self.at / "pipe")
        self.refused(["pipe", "not a regular file"], *QUESTION, "--json", self.at / "pipe")
        self.refused(["--json"], *QUESTION, "--json", "")
        with open("/dev/full", "w") as full:
            ended = subprocess.run([TOOL, *map(str, QUESTION)], stdout=full, stderr=subprocess.PIPE, text=True,
                                   env=os.environ | {"HEDDLE_BUILD": str(self.at / "build")})
        self.assertEqual(ended.returncode, 2)
        self.assertIn("standard output", ended.stderr)

    def test_hostile_input(self):
        mark = self.at / "mark"
        for text in (f"2;touch {mark}", f"$(touch {mark})", f"`touch {mark}`", f"2> {mark}", '2"; int x[', "2>{};}/*",
                     "2\n#include <x>", "\x1b[2J", "../../etc", "x" * 5000, "__import__('os')"):
            for option in ("--model", "--layers", "--mesh", "--rules", "--zero", "--padding", "--precision", "--schedule",
                           "--bucket", "--fits", "--reduce", "--tied", "--dropout", "--global-batch", "--frozen"):
                arguments = dict([("--model", "gpt2"), ("--mesh", "dp=2")]) | {option: text}
                self.question_refused([option], *[word for pair in arguments.items() for word in pair])
            self.question_refused(["--mesh"], "--model", "gpt2", "--mesh", f"dp={text}")
            self.question_refused(["--mesh"], "--model", "gpt2", "--mesh", f"{text}=2")
            self.question_refused(["--zero"], "--model", "gpt2", "--mesh", "dp=2", "--zero", f"1:{text}")
            self.question_refused(["no option"], "--model", "gpt2", "--mesh", "1", f"--{text}", "1")
        for text in (f"2;touch {mark}", f"$(touch {mark})"):
            self.refused(["--mesh"], "--model", "gpt2", "--mesh", text)  # through the shell script
        self.assertFalse(mark.exists())

    def test_only_checked_words_enter_a_program(self):
        question = plan.checked(plan.read([
            "--model", "llama", "--mesh", "data=4,tp=2", "--rules", "heads:tp,batch:data", "--zero", "1:data", "--padding",
            "vocab:128,mlp", "--bucket", "1MiB", "--reduce", "per-micro-batch", "--precision", "fp64", "--schedule", "gpipe",
            "--tied", "on", "--dropout", "0.1", "--global-batch", "32", "--micro-batch", "2", "--activation", '"; evil']))
        text = plan.program_text(question)
        self.assertNotIn("evil", text)
        for line in ('struct axis_data : hd::axis_name<"data"> {};', "using model = hd::llama<hd::llama_config{.tied = true, .dropout = 0.1}>;"):
            self.assertIn(line, text.splitlines())
        self.assertIn("hd::mesh<hd::axis<axis_data, 4>, hd::axis<hd::tp, 2>>, hd::rules<hd::shard<hd::heads, hd::tp>, "
                      "hd::shard<hd::batch, axis_data>>, hd::micro_batch<2>, hd::accumulate<4>, hd::precision<hd::fp64>, "
                      "hd::pipeline<hd::gpipe>, hd::zero<1, axis_data>, hd::padding<hd::pad<hd::vocab, 128>, "
                      "hd::pad<hd::mlp, 1>>, hd::bucket<1048576>, hd::reduce_gradients<hd::per_micro_batch>>", text)

    def test_what_a_model_takes_enters_its_program(self):
        text = plan.program_text(plan.checked(plan.read([
            "--model", "gpt2", "--mesh", "tp=2", "--biased", "off", "--dropout", "0.2", "--sequence-parallel", "off",
            "--micro-batch", "2"])))
        self.assertIn("hd::gpt2_config{.biased = false, .dropout = 0.2}", text)
        self.assertIn("hd::sequence_parallel<false>", text)

    def test_help_names_every_option(self):
        told = self.answered("--help").stdout
        for option in ("model", "mesh", "rules", "sequence-parallel", "micro-batch", "accumulate", "global-batch", "schedule",
                       "zero", "bucket", "reduce", "logit-chunk", "precision", "padding", "fits", "why", "parameter", "activation", "json",
                       "layers", "width", "heads", "vocabulary", "context", "mlp", "tied", "biased", "dropout", "kv-heads", "frozen"):
            self.assertIn(f"--{option} ", told)


def reversed_options(arguments):
    pairs = [arguments[i:i + 2] for i in range(0, len(arguments), 2)]
    return [word for pair in reversed(pairs) for word in pair]


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
