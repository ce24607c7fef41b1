// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/backend/cuda/device_memory.hpp>
#include <heddle/backend/cuda/grid.hpp>
#include <heddle/tensor/adamw_factors.hpp>
#include <heddle/tensor/listed_parameter.hpp>
#include <heddle/tensor/step_numbers.hpp>
#include <optimizer/adamw.cuh>
#include <span>
#include <vector>

namespace heddle::cuda {

/// `host::adamw_list` on a device: the list is a table in its memory, and what is updated together is one launch. No
/// argument of a launch changes from step to step.
template <class Backend, class Value, class Master, class Gradient>
class adamw_list {
  using tensor = kernels::adamw_tensor<Value, Gradient>;
  using factors = adamw_factors<Master>;
  static_assert(std::is_same_v<Master, kernels::accumulator_t<Value>>,
                "adamw_list<Backend, Value, Master, Gradient>: 'Master' must be the type that 'Value' is computed with "
                "in, of which the kernel's state is; give the parameters float masters, or double ones of their own");

 public:
  using coefficients = std::array<adamw_coefficients, 2>;
  using parameter = listed_parameter<Value, Master, Gradient, 2>;

  explicit adamw_list(std::span<parameter const> all)
      : tensors_(all.size()), chunks_(chunks_of(all)), given_(1), factors_(coefficients{}.size()) {
    std::vector<tensor> tensors;
    std::vector<kernels::tensor_chunk> chunks;
    for (parameter const& p : all) {
      std::size_t const n = tensors.size();
      tensors.push_back({p.w, p.g, p.state[0], p.state[1], p.rounded, detail::signed_of(p.size), p.decays ? 1 : 0});
      first_chunk_.push_back(chunks.size());
      for (std::size_t begin = 0; begin < p.size; begin += length)
        chunks.push_back({detail::signed_of(begin), detail::int_of(n)});
      for (memory_use const& one :
           {use_of(reads(tensors_.data() + n, 1)), use_of(writes(p.w, p.size)), use_of(reads(p.g, p.size)),
            use_of(writes(p.state[0], p.size)), use_of(writes(p.state[1], p.size)),
            use_of(writes(p.rounded, p.rounded == nullptr ? 0 : p.size))})
        uses_.push_back(one);
    }
    first_chunk_.push_back(chunks.size());
    device_memory::from_host(static_cast<tensor const*>(tensors.data()), tensors_.data(), tensors.size());
    device_memory::from_host(static_cast<kernels::tensor_chunk const*>(chunks.data()), chunks_.data(), chunks.size());
  }
  [[nodiscard]] std::size_t bytes() const {
    return tensors_.bytes() + chunks_.bytes() + given_.bytes() + factors_.bytes();
  }

  void begin_step(coefficients const& given) {
    *given_.host() = given;
    given_.upload();
  }
  void prepare(step_numbers* now) {
    std::size_t const count = factors_.size();
    auto const* const given = reinterpret_cast<adamw_coefficients const*>(given_.data());
    detail::run<kernels::prepare_adamw<detail::plain_t<Master>, detail::threads>>(
        1, reads(given, count), count, reads(&now->gradient_scale, 1), reads(&now->skips, 1), writes(&now->updates, 1),
        writes(factors_.data(), count));
  }
  void update(std::size_t first, std::size_t last, step_numbers const* now) const {
    std::size_t const begin = first_chunk_[first], count = first_chunk_[last] - begin;
    if (count == 0) return;
    detail::run<kernels::adamw<detail::plain_t<Value>, detail::plain_t<Gradient>, detail::threads>>(
        kernels::row_grid(detail::signed_of(count)),
        carries(static_cast<tensor const*>(tensors_.data()),
                std::span<memory_use const>(uses_).subspan(uses_of_one * first, uses_of_one * (last - first))),
        reads(chunks_.data() + begin, count), length, reads(factors_.data(), factors_.size()), reads(&now->skips, 1));
  }

 private:
  /// Elements of a block. A multiple of 8, so that chunks of aligned tensors are aligned.
  static constexpr std::size_t length = 16384;
  static constexpr std::size_t uses_of_one = 6;
  static std::size_t chunks_of(std::span<parameter const> all) {
    std::size_t count = 0;
    for (parameter const& p : all) count += (p.size + length - 1) / length;
    return count;
  }

  device_arena<tensor> tensors_;
  device_arena<kernels::tensor_chunk> chunks_;
  device_memory::mirror<coefficients> given_;
  device_arena<factors> factors_;
  std::vector<std::size_t> first_chunk_;  ///< of each parameter, and the end
  std::vector<memory_use> uses_;          ///< of each parameter's update
};

}  // namespace heddle::cuda
