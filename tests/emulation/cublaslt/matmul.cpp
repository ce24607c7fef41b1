// SPDX-License-Identifier: Apache-2.0
// Stand-ins for cuBLASLt's products, with the signatures of its header. Descriptions hold what they were told; a
// product is a loop in the type of its sums, with its epilogue (epilogue.hpp) before the one rounding. What cuBLASLt
// refuses, or reads beside the matrices for, is refused here.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "../cudart/machine.hpp"
#include "../fault.hpp"
#include "epilogue.hpp"
#include "handles.hpp"

namespace {

using heddle::emulation::blas_handles;
using heddle::emulation::blas_refusal;
using heddle::emulation::epilogue;
using heddle::emulation::last_blas_refusal;
using heddle::emulation::machine;
using heddle::emulation::range;
using heddle::emulation::refusal;
using heddle::emulation::side;

struct description {
  cublasComputeType_t compute;
  cudaDataType_t factor;
  bool transpose_a = false, transpose_b = false;
  epilogue ending{};
};
struct matrix {
  cudaDataType_t element;
  std::uint64_t rows, columns;
  std::int64_t leading;
};
struct wishes {
  std::uint64_t workspace = 0;
  std::uint32_t align_a = 256, align_b = 256, align_c = 256, align_d = 256;  // cuBLASLt's defaults
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

/// What lies behind opaque pointers: those that are there.
template <class Opaque, class Held>
class table {
 public:
  Opaque* make(Held const& held) {
    auto one = std::make_unique<std::pair<Opaque, Held>>(Opaque{}, held);
    Opaque* const address = &one->first;
    all_[address] = std::move(one);
    return address;
  }
  Held& of(Opaque* one, char const* what) {
    auto const found = all_.find(one);
    if (found == all_.end())
      throw blas_refusal{CUBLAS_STATUS_INVALID_VALUE, std::string("no ") + what + ", or one that was destroyed"};
    return found->second->second;
  }
  void destroy(Opaque* one, char const* what) {
    (void)of(one, what);
    all_.erase(one);
  }

 private:
  std::map<Opaque*, std::unique_ptr<std::pair<Opaque, Held>>> all_;
};
table<cublasLtMatmulDescOpaque_t, description> descriptions;
table<cublasLtMatrixLayoutOpaque_t, matrix> matrices;
table<cublasLtMatmulPreferenceOpaque_t, wishes> preferences;

template <class Body>
cublasStatus_t call(Body const& body) {
  machine& all = machine::get();
  std::unique_lock<std::mutex> const lock(all.mutex);
  last_blas_refusal().clear();
  try {
    body(all);
    return CUBLAS_STATUS_SUCCESS;
  } catch (blas_refusal const& one) {
    last_blas_refusal() = one.text;
    return one.code;
  } catch (refusal const& one) {
    last_blas_refusal() = one.text;
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}
template <class Value>
Value value_of(void const* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof(Value))
    throw blas_refusal{CUBLAS_STATUS_INVALID_VALUE, "an attribute of " + std::to_string(bytes) + " bytes, which has " +
                                                        std::to_string(sizeof(Value))};
  Value value{};
  std::memcpy(&value, from, bytes);
  return value;
}
[[noreturn]] void refuse(std::string const& text) { throw blas_refusal{CUBLAS_STATUS_INVALID_VALUE, text}; }

std::size_t bytes_of(cudaDataType_t element) {
  switch (element) {
    case CUDA_R_64F:
      return 8;
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16BF:
    case CUDA_R_16F:
      return 2;
    default:
      throw blas_refusal{CUBLAS_STATUS_NOT_SUPPORTED, "elements of type " + std::to_string(static_cast<int>(element))};
  }
}

/// d = op(a)·op(b) and what it consists of, where it can be one.
struct problem {
  description what;
  matrix a, b, c, d;
  std::uint64_t m, n, k;
};
problem problem_of(cublasLtMatmulDesc_t what, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  char const* const name = "matrix layout";
  problem p{descriptions.of(what, "description of a product"),
            matrices.of(a, name),
            matrices.of(b, name),
            matrices.of(c, name),
            matrices.of(d, name),
            0,
            0,
            0};
  p.m = p.what.transpose_a ? p.a.columns : p.a.rows;
  p.k = p.what.transpose_a ? p.a.rows : p.a.columns;
  p.n = p.what.transpose_b ? p.b.rows : p.b.columns;
  if (p.k != (p.what.transpose_b ? p.b.columns : p.b.rows))
    refuse("a product over " + std::to_string(p.k) + " and " +
           std::to_string(p.what.transpose_b ? p.b.columns : p.b.rows) + " elements");
  for (matrix const* const one : {&p.c, &p.d})
    if (one->rows != p.m || one->columns != p.n)
      refuse("a result of " + std::to_string(one->rows) + " rows and " + std::to_string(one->columns) +
             " columns, where the operands give " + std::to_string(p.m) + " and " + std::to_string(p.n));
  for (matrix const* const one : {&p.b, &p.c, &p.d})
    if (one->element != p.a.element) throw blas_refusal{CUBLAS_STATUS_NOT_SUPPORTED, "operands of different types"};
  bool const wide = p.a.element == CUDA_R_64F;
  bool const rounds = p.what.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.element == CUDA_R_32F;
  if ((p.what.compute == CUBLAS_COMPUTE_64F) != wide || (p.what.factor == CUDA_R_64F) != wide ||
      (!wide && ((p.what.compute != CUBLAS_COMPUTE_32F && !rounds) || p.what.factor != CUDA_R_32F)))
    throw blas_refusal{CUBLAS_STATUS_NOT_SUPPORTED, "sums and factors of a type that does not go with the operands'"};
  p.what.ending.require(p.a.element, p.m);
  return p;
}

/// What the opaque words of an algorithm hold: the problem that it was chosen for, and what it was promised.
struct algorithm {
  std::uint64_t problem, workspace;
  std::array<std::uint32_t, 4> align;
  std::uint32_t align_vector;  ///< of the epilogue
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t));
std::uint64_t number_of(problem const& p) {
  std::uint64_t hash = 0x9E3779B97F4A7C15U;
  for (std::uint64_t const part :
       {p.m, p.n, p.k, std::uint64_t{p.what.transpose_a}, std::uint64_t{p.what.transpose_b},
        static_cast<std::uint64_t>(p.a.element), static_cast<std::uint64_t>(p.what.compute),
        static_cast<std::uint64_t>(p.a.leading), static_cast<std::uint64_t>(p.b.leading),
        static_cast<std::uint64_t>(p.c.leading), static_cast<std::uint64_t>(p.d.leading),
        std::uint64_t{p.what.ending.kind}, static_cast<std::uint64_t>(p.what.ending.leading)})
    hash = (hash ^ part) * 0x100000001B3U + (hash >> 29);
  return hash;
}

range columns_of(void const* data, matrix const& one, bool written) {
  std::size_t const size = bytes_of(one.element);
  return {reinterpret_cast<std::uintptr_t>(data),       one.rows * size, one.columns,
          static_cast<std::size_t>(one.leading) * size, written,         side::device};
}

/// What a sum takes of an operand.
template <class A, class T>
A operand(problem const&, T value) {
  return A(value);
}
/// To tf32, to nearest, ties away from zero: PTX's cvt.rna.tf32.f32.
template <>
float operand<float, float>(problem const& p, float value) {
  if (p.what.compute != CUBLAS_COMPUTE_32F_FAST_TF32 || value != value) return value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000U) & ~0x1FFFU);
}

template <class T, class A>
void multiply(problem const& p, A alpha, T const* a, T const* b, A beta, T const* c, T* d) {
  auto const leading = [](matrix const& one) { return static_cast<std::uint64_t>(one.leading); };
  // Beside the results, which may stand where c does.
  for (std::uint64_t j = 0; j < p.n; ++j)
    for (std::uint64_t i = 0; i < p.m; ++i) {
      A sum = 0;
      for (std::uint64_t l = 0; l < p.k; ++l)
        sum += operand<A>(p, p.what.transpose_a ? a[l + i * leading(p.a)] : a[i + l * leading(p.a)]) *
               operand<A>(p, p.what.transpose_b ? b[j + l * leading(p.b)] : b[l + j * leading(p.b)]);
      A const before = beta == A(0) ? A(0) : beta * A(c[i + j * leading(p.c)]);
      d[i + j * leading(p.d)] = T(p.what.ending.template of<T>(alpha * sum + before, i, j));
    }
  // Sums of what stands in memory: of operands that a product rounds nothing says which are taken.
  if (p.what.ending.kind == CUBLASLT_EPILOGUE_BGRADB)
    p.what.ending.template sum_up<T, A>(p.n, p.k, [&](auto j, auto l) {
      return p.what.transpose_b ? b[j + l * leading(p.b)] : b[l + j * leading(p.b)];
    });
}
template <class T, class A>
std::function<void()> bound(problem const& p, void const* alpha, void const* a, void const* b, void const* beta,
                            void const* c, void* d) {
  return [p, alpha = *static_cast<A const*>(alpha), a = static_cast<T const*>(a), b = static_cast<T const*>(b),
          beta = *static_cast<A const*>(beta), c = static_cast<T const*>(c),
          d = static_cast<T*>(d)] { multiply<T, A>(p, alpha, a, b, beta, c, d); };
}

}  // namespace

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t compute, cudaDataType_t factor) {
  return call([&](machine&) { *out = descriptions.make({compute, factor}); });
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t one) {
  return call([&](machine&) { descriptions.destroy(one, "description of a product"); });
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t one, cublasLtMatmulDescAttributes_t what,
                                              void const* value, size_t bytes) {
  return call([&](machine&) {
    description& held = descriptions.of(one, "description of a product");
    auto const turns = [&] { return value_of<cublasOperation_t>(value, bytes) != CUBLAS_OP_N; };
    if (what == CUBLASLT_MATMUL_DESC_TRANSA)
      held.transpose_a = turns();
    else if (what == CUBLASLT_MATMUL_DESC_TRANSB)
      held.transpose_b = turns();
    else if (what == CUBLASLT_MATMUL_DESC_EPILOGUE)
      held.ending.set_kind(value_of<std::uint32_t>(value, bytes));
    else if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
      held.ending.vector = value_of<void*>(value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
      held.ending.matrix = value_of<void*>(value, bytes);
    else if (what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
      held.ending.leading = value_of<std::int64_t>(value, bytes);
    else
      refuse("attribute " + std::to_string(static_cast<int>(what)) + " of a product, which the emulation lacks");
  });
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType_t element, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return call([&](machine&) {
    if (rows == 0 || columns == 0 || leading < static_cast<std::int64_t>(rows))
      refuse("a matrix of " + std::to_string(rows) + " rows and " + std::to_string(columns) +
             " columns that begin every " + std::to_string(leading) + " elements");
    (void)bytes_of(element);
    *out = matrices.make({element, rows, columns, leading});
  });
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t one) {
  return call([&](machine&) { matrices.destroy(one, "matrix layout"); });
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  return call([&](machine&) { *out = preferences.make({}); });
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t one) {
  return call([&](machine&) { preferences.destroy(one, "preference"); });
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t one,
                                                    cublasLtMatmulPreferenceAttributes_t what, void const* value,
                                                    size_t bytes) {
  return call([&](machine&) {
    wishes& held = preferences.of(one, "preference");
    switch (what) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        held.workspace = value_of<std::uint64_t>(value, bytes);
        return;
      case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        held.reductions = value_of<std::uint32_t>(value, bytes);
        return;
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        held.align_a = value_of<std::uint32_t>(value, bytes);
        return;
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        held.align_b = value_of<std::uint32_t>(value, bytes);
        return;
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        held.align_c = value_of<std::uint32_t>(value, bytes);
        return;
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        held.align_d = value_of<std::uint32_t>(value, bytes);
        return;
      default:
        refuse("attribute " + std::to_string(static_cast<int>(what)) + " of a preference, which the emulation lacks");
    }
  });
}

/// One algorithm, which takes all of the workspace that it may have.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t what,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  return call([&](machine&) {
    *found = 0;
    ++blas_handles::get().calls.asked;
    if (blas_handles::get().device_of(handle) < 0)
      throw blas_refusal{CUBLAS_STATUS_NOT_INITIALIZED, "no handle, or one that was destroyed"};
    if (wanted < 1) refuse("room for " + std::to_string(wanted) + " results");
    wishes const& held = preferences.of(wish, "preference");
    problem const p = problem_of(what, a, b, c, d);
    algorithm const chosen{number_of(p),
                           held.workspace,
                           {held.align_a, held.align_b, held.align_c, held.align_d},
                           p.what.ending.vector_alignment()};
    results[0] = {};
    std::memcpy(&results[0].algo, &chosen, sizeof chosen);
    results[0].workspaceSize = held.workspace;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *found = 1;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t what, void const* alpha, void const* a,
                              cublasLtMatrixLayout_t a_layout, void const* b, cublasLtMatrixLayout_t b_layout,
                              void const* beta, void const* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, cublasLtMatmulAlgo_t const* given, void* workspace,
                              size_t workspace_bytes, cudaStream_t handle_of_stream) {
  return call([&](machine& all) {
    int const device = blas_handles::get().device_of(handle);
    if (device < 0) throw blas_refusal{CUBLAS_STATUS_NOT_INITIALIZED, "no handle, or one that was destroyed"};
    problem const p = problem_of(what, a_layout, b_layout, c_layout, d_layout);
    if (alpha == nullptr || beta == nullptr || given == nullptr) refuse("no factor, or no algorithm");
    algorithm chosen{};
    std::memcpy(&chosen, given, sizeof chosen);
    if (chosen.problem != number_of(p)) refuse("an algorithm that was chosen for another product");
    if (workspace_bytes < chosen.workspace)
      refuse("a workspace of " + std::to_string(workspace_bytes) + " bytes for an algorithm that takes " +
             std::to_string(chosen.workspace));
    if (chosen.workspace != 0 && reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
      refuse("a workspace that does not begin at a multiple of 256 bytes");
    std::array<void const*, 4> const at{a, b, c, d};
    std::array<char const*, 4> const names{"a", "b", "c", "d"};
    for (std::size_t i = 0; i < at.size(); ++i)
      if (reinterpret_cast<std::uintptr_t>(at[i]) % chosen.align[i] != 0)
        refuse(std::string("operand ") + names[i] + ", which the algorithm was promised at a multiple of " +
               std::to_string(chosen.align[i]) + " bytes");
    if (p.what.ending.vector_alignment() < chosen.align_vector)
      refuse("a vector of the epilogue, which the algorithm was promised at a multiple of " +
             std::to_string(chosen.align_vector) + " bytes");
    heddle::emulation::stream_state& to = all.stream(handle_of_stream);
    if (to.device != device || machine::device() != device)
      refuse("a handle of device " + std::to_string(device) + " with " + to.name + " of device " +
             std::to_string(to.device) + ", while device " + std::to_string(machine::device()) + " is current");
    all.require_alive(device);

    std::function<void()> product;
    switch (p.a.element) {
      case CUDA_R_64F:
        product = bound<double, double>(p, alpha, a, b, beta, c, d);
        break;
      case CUDA_R_32F:
        product = bound<float, float>(p, alpha, a, b, beta, c, d);
        break;
      case CUDA_R_16BF:
        product = bound<__nv_bfloat16, float>(p, alpha, a, b, beta, c, d);
        break;
      default:
        product = bound<__half, float>(p, alpha, a, b, beta, c, d);
    }
    bool const adds =
        p.what.factor == CUDA_R_64F ? *static_cast<double const*>(beta) != 0 : *static_cast<float const*>(beta) != 0;
    std::vector<range> uses{columns_of(a, p.a, false), columns_of(b, p.b, false), columns_of(d, p.d, true)};
    if (adds && c != d) uses.push_back(columns_of(c, p.c, false));
    std::size_t const operands = uses.size();
    p.what.ending.add_uses(uses, bytes_of(p.a.element), p.m, p.n);
    for (std::size_t i = operands; i < uses.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if ((uses[i].written || uses[j].written) && overlap(uses[i], uses[j]))
          refuse("an epilogue's vector or matrix that stands where an operand does");
    if (chosen.workspace != 0)
      uses.push_back({reinterpret_cast<std::uintptr_t>(workspace), chosen.workspace, 1, 0, true, side::device});
    for (std::size_t i = 0; i + 1 < uses.size(); ++i)
      if (i < 2 && overlap(uses[i], uses[2])) refuse("a result that stands where an operand does");
    if (chosen.workspace != 0)
      for (std::size_t i = 0; i + 1 < uses.size(); ++i)
        if (overlap(uses[i], uses.back())) refuse("a workspace that stands where an operand does");
    std::string const text = "a product [" + std::to_string(p.m) + ", " + std::to_string(p.k) + "] x [" +
                             std::to_string(p.k) + ", " + std::to_string(p.n) + "] of cuBLASLt";
    ++blas_handles::get().calls.products[static_cast<cublasLtEpilogue_t>(p.what.ending.kind)];
    all.enqueue(to, {text, uses, [product, workspace, bytes = chosen.workspace] {
                       product();
                       // What it leaves there is nobody's to read.
                       if (bytes != 0) std::memset(workspace, 0xFF, bytes);
                     }});
  });
}
