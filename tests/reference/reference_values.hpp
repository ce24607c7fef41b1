// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/error.hpp>

/// Reads the reference values beside this header: whole models as an independent framework computes them in fp64.
/// README.md has the formulas and the format.
namespace heddle::reference {

/// Element `k` (row-major, in the parameter's global dimensions) of parameter number `index`, in [-1, 1): an integer
/// hash, so that every language and compiler gives the same bits.
inline double element(std::size_t index, std::size_t k) {
  auto x = static_cast<std::uint32_t>((k + 1) * 0x9E3779B1ull + (index + 1) * 0x85EBCA77ull);
  x ^= x >> 15;
  x *= 0x2C1B3C6Du;
  x ^= x >> 13;
  x *= 0x297A2D39u;
  x ^= x >> 16;
  return static_cast<double>(x) / 2147483648.0 - 1.0;
}

struct parameter_values {
  std::string name;
  std::vector<std::size_t> dims;  ///< global sizes, row-major, layers first
  double scale = 0;
  double offset = 0;
  bool decays = false;           ///< weight decay applies
  std::size_t index = 0;         ///< number of the parameter in the file
  std::vector<double> gradient;  ///< of the mean loss at step 0, before clipping
  std::vector<double> after_1;   ///< values after one AdamW step
  std::vector<double> after_3;   ///< values after three

  /// Initial value of element `k`.
  double initial(std::size_t k) const { return offset + scale * element(index, k); }
};

struct step_values {
  std::vector<std::vector<std::int32_t>> tokens;   ///< [batch][sequence]
  std::vector<std::vector<std::int32_t>> targets;  ///< [batch][sequence]
  double loss_sum = 0;                             ///< nats, over all tokens of the step
  double loss_mean = 0;
  double gradient_norm = 0;  ///< of the gradient of the mean loss, before clipping
};

struct optimizer_values {
  double learning_rate = 0, beta_1 = 0, beta_2 = 0, epsilon = 0, weight_decay = 0, clip_norm = 0;
};

struct model_values {
  std::map<std::string, double> model;  ///< the sizes and constants; booleans are 0 or 1
  std::size_t batch = 0;
  optimizer_values optimizer;
  std::vector<step_values> steps;
  std::vector<parameter_values> parameters;

  /// The parameter of that name; an error lists the names there are.
  parameter_values const& operator[](std::string_view name) const {
    std::string names;
    for (auto const& parameter : parameters) {
      if (parameter.name == name) return parameter;
      names += " " + parameter.name;
    }
    throw error("reference values: no parameter '" + std::string(name) + "'; there are" + names);
  }
};

/// Reads `folder`/`name`.json, where `name` is gpt2_tied, gpt2_untied or llama.
inline model_values load(std::string const& folder, std::string const& name) {
  std::string const path = folder + "/" + name + ".json";
  std::ifstream in(path);
  if (!in) throw error(path + ": cannot be opened; give the folder of make_reference.py");
  auto const json = nlohmann::json::parse(in);
  if (json.at("format") != 1) throw error(path + ": 'format' must be 1; run make_reference.py of the same commit");

  model_values out;
  for (auto const& [key, value] : json.at("model").items()) {
    if (value.is_number()) out.model[key] = value.get<double>();
    if (value.is_boolean()) out.model[key] = value.get<bool>() ? 1 : 0;
  }
  json.at("batch").get_to(out.batch);
  auto const& optimizer = json.at("optimizer");
  optimizer.at("learning_rate").get_to(out.optimizer.learning_rate);
  optimizer.at("beta_1").get_to(out.optimizer.beta_1);
  optimizer.at("beta_2").get_to(out.optimizer.beta_2);
  optimizer.at("epsilon").get_to(out.optimizer.epsilon);
  optimizer.at("weight_decay").get_to(out.optimizer.weight_decay);
  optimizer.at("clip_norm").get_to(out.optimizer.clip_norm);
  for (auto const& step : json.at("steps")) {
    auto& values = out.steps.emplace_back();
    step.at("tokens").get_to(values.tokens);
    step.at("targets").get_to(values.targets);
    step.at("loss_sum").get_to(values.loss_sum);
    step.at("loss_mean").get_to(values.loss_mean);
    step.at("gradient_norm").get_to(values.gradient_norm);
  }
  for (auto const& parameter : json.at("parameters")) {
    auto& values = out.parameters.emplace_back();
    values.index = out.parameters.size() - 1;
    parameter.at("name").get_to(values.name);
    parameter.at("dims").get_to(values.dims);
    parameter.at("scale").get_to(values.scale);
    parameter.at("offset").get_to(values.offset);
    parameter.at("decays").get_to(values.decays);
    parameter.at("gradient").get_to(values.gradient);
    parameter.at("after_1").get_to(values.after_1);
    parameter.at("after_3").get_to(values.after_3);
  }
  return out;
}

}  // namespace heddle::reference
