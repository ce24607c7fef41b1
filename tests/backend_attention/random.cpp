// SPDX-License-Identifier: Apache-2.0
#include <heddle/backend/host/random.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace random_test {

using heddle::index_map;
using heddle::random_key;
using heddle::host::random;

namespace {

constexpr random_key key{11, 5, 3};

/// The block [begin, begin + count) of each dimension of a row-major global tensor, padded at the end to `extent`.
index_map block_of(std::vector<std::size_t> const& global, std::vector<std::size_t> const& begin,
                   std::vector<std::size_t> const& count, std::vector<std::size_t> const& extent) {
  index_map map;
  map.rank = global.size();
  std::uint64_t stride = 1;
  for (std::size_t k = map.rank; k-- > 0;) {
    map.extent[k] = extent[k];
    map.valid[k] = count[k];
    map.stride[k] = stride;
    map.origin += begin[k] * stride;
    stride *= global[k];
  }
  return map;
}
index_map whole(std::vector<std::size_t> const& global) {
  return block_of(global, std::vector<std::size_t>(global.size(), 0), global, global);
}

template <class T>
std::vector<bool> mask_of(index_map const& map, double p, random_key const& k = key) {
  std::vector<T> const ones(map.size(), T(1));
  std::vector<T> y(map.size(), T(-1));
  random::dropout(ones.data(), nullptr, y.data(), map, k, p);
  std::vector<bool> mask(map.size());
  for (std::size_t i = 0; i < y.size(); ++i) mask[i] = y[i] != T(0);
  return mask;
}

double share(std::vector<bool> const& mask) {
  std::size_t kept = 0;
  for (bool b : mask) kept += b;
  return static_cast<double>(kept) / static_cast<double>(mask.size());
}

}  // namespace

TEST_CASE("RN-2: masks agree inside a tp group on replicated values and differ everywhere else") {
  // Global activation [dp 2 x 64, 1024], so 65536 elements on each rank where it is replicated over tp.
  std::vector<std::vector<bool>> replicated, sharded;
  for (std::size_t dp = 0; dp < 2; ++dp)
    for (std::size_t tp = 0; tp < 2; ++tp) {
      replicated.push_back(mask_of<float>(block_of({128, 1024}, {64 * dp, 0}, {64, 1024}, {64, 1024}), 0.5));
      sharded.push_back(mask_of<float>(block_of({128, 2048}, {64 * dp, 1024 * tp}, {64, 1024}, {64, 1024}), 0.5));
    }
  CHECK(replicated[0] == replicated[1]);
  CHECK(replicated[2] == replicated[3]);
  CHECK(replicated[0] != replicated[2]);
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = a + 1; b < 4; ++b) {
      std::vector<bool> same(65536);
      for (std::size_t i = 0; i < same.size(); ++i) same[i] = sharded[a][i] == sharded[b][i];
      CHECK(std::fabs(share(same) - 0.5) < 3 * 0.5 / 256);  // independent, not merely different
    }
  for (auto const& mask : replicated) CHECK(std::fabs(share(mask) - 0.5) < 3 * 0.5 / 256);  // 3 sigma of 65536 draws
  for (auto const& mask : sharded) CHECK(std::fabs(share(mask) - 0.5) < 3 * 0.5 / 256);
}

TEST_CASE("RN-3: four neighbours have four bits, contiguous and transposed") {
  auto const identical_groups = [](std::vector<bool> const& mask) {
    std::size_t identical = 0;
    for (std::size_t i = 0; i < mask.size(); i += 4)
      identical += mask[i] == mask[i + 1] && mask[i] == mask[i + 2] && mask[i] == mask[i + 3];
    return static_cast<double>(identical) / static_cast<double>(mask.size() / 4);
  };
  std::vector<bool> const plain = mask_of<float>(whole({1024, 1024}), 0.5);
  index_map transposed = whole({1024, 1024});
  transposed.stride = {1, 1024};
  std::vector<bool> const turned = mask_of<float>(transposed, 0.5);
  CHECK(std::fabs(identical_groups(plain) - 0.125) < 0.005);
  CHECK(std::fabs(identical_groups(turned) - 0.125) < 0.005);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 1024; ++i)
    for (std::size_t j = 0; j < 1024; ++j) wrong += plain[i * 1024 + j] != turned[j * 1024 + i];
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("every layout draws the slice of the whole", T, float, double) {
  std::vector<std::size_t> const global{5, 7, 9};
  index_map const all = whole(global);
  std::vector<T> normal(all.size()), uniform(all.size()), dropped(all.size()), input(all.size());
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<T>(i + 1);
  random::fill_normal(normal.data(), all, key, 0.5, 2.0);
  random::fill_uniform(uniform.data(), all, key, -1.0, 3.0);
  random::dropout(input.data(), nullptr, dropped.data(), all, key, 0.3);
  struct part {
    std::vector<std::size_t> begin, count, extent;
  };
  part const parts[] = {{{0, 0, 0}, {5, 7, 9}, {5, 7, 9}}, {{2, 0, 0}, {3, 7, 9}, {3, 7, 9}},
                        {{0, 3, 0}, {5, 2, 9}, {5, 2, 9}}, {{1, 2, 5}, {2, 3, 1}, {2, 3, 1}},
                        {{0, 0, 4}, {5, 7, 5}, {5, 7, 6}}, {{4, 4, 3}, {1, 3, 3}, {2, 4, 4}},
                        {{5, 0, 0}, {0, 7, 9}, {2, 7, 9}}};
  for (part const& p : parts) {
    index_map const map = block_of(global, p.begin, p.count, p.extent);
    std::size_t const n = map.size();
    std::vector<T> a(n, T(9)), b(n, T(9)), c(n, T(9)), local(n, T(0)), expected_a(n, T(0)), expected_b(n, T(0)),
        expected_c(n, T(0));
    for (std::size_t i = 0; i < p.count[0]; ++i)
      for (std::size_t j = 0; j < p.count[1]; ++j)
        for (std::size_t k = 0; k < p.count[2]; ++k) {
          std::size_t const at = (i * p.extent[1] + j) * p.extent[2] + k;
          std::size_t const from = ((p.begin[0] + i) * 7 + p.begin[1] + j) * 9 + p.begin[2] + k;
          local[at] = input[from];
          expected_a[at] = normal[from];
          expected_b[at] = uniform[from];
          expected_c[at] = dropped[from];
        }
    random::fill_normal(a.data(), map, key, 0.5, 2.0);
    random::fill_uniform(b.data(), map, key, -1.0, 3.0);
    random::dropout(local.data(), nullptr, c.data(), map, key, 0.3);
    CHECK(a == expected_a);
    CHECK(b == expected_b);
    CHECK(c == expected_c);
    // Onto a base, whose padding stays; also where y is the base, or x.
    std::vector<T> const base(n, T(8));
    std::vector<T> onto(n, T(9)), both = base;
    random::dropout(local.data(), base.data(), onto.data(), map, key, 0.3);
    random::dropout(local.data(), both.data(), both.data(), map, key, 0.3);
    CHECK(onto == both);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) wrong += onto[i] != base[i] + expected_c[i];
    CHECK(wrong == 0);
    std::vector<T> in_place = local;
    random::dropout(in_place.data(), nullptr, in_place.data(), map, key, 0.3);
    CHECK(in_place == expected_c);
    std::vector<T> const zeros(n, T(0));
    random::dropout(local.data(), zeros.data(), local.data(), map, key, 0.3);
    CHECK(local == expected_c);
  }
  index_map scalar;  // rank 0: one element
  scalar.origin = 100;
  T one{};
  random::fill_normal(&one, scalar, key, 0.5, 2.0);
  CHECK(one == normal[100]);
}

TEST_CASE("float draws are the double draws, rounded; the values themselves are pinned") {
  index_map const map = whole({2000});
  std::vector<float> f(2000);
  std::vector<double> d(2000);
  random::fill_normal(f.data(), map, key, 0.0, 0.02);
  random::fill_normal(d.data(), map, key, 0.0, 0.02);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 2000; ++i) wrong += f[i] != static_cast<float>(d[i]);
  CHECK(wrong == 0);
  CHECK(mask_of<float>(map, 0.37) == mask_of<double>(map, 0.37));
  // Not from elsewhere: this implementation's bits, the same at every optimisation level of g++ and clang. A change
  // here changes every initial weight.
  CHECK(d[0] == 0x1.19452ef70c218p-9);
  CHECK(d[1999] == -0x1.4c6737cc45433p-7);
}

TEST_CASE("moments of the normals lie within 3 sigma") {
  std::size_t const n = 1u << 20;
  std::vector<double> x(n);
  random::fill_normal(x.data(), whole({n}), key, 0.0, 1.0);
  double sum[5]{}, neighbours = 0, inside = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double power = 1;
    for (double& s : sum) {
      s += power;
      power *= x[i];
    }
    if (i > 0) neighbours += x[i] * x[i - 1];
    inside += std::fabs(x[i]) < 1.0;
  }
  double const count = static_cast<double>(n);
  CHECK(std::fabs(sum[1] / count) < 3 / std::sqrt(count));
  CHECK(std::fabs(sum[2] / count - 1) < 3 * std::sqrt(2 / count));
  CHECK(std::fabs(sum[3] / count) < 3 * std::sqrt(15 / count));
  CHECK(std::fabs(sum[4] / count - 3) < 3 * std::sqrt(96 / count));
  CHECK(std::fabs(neighbours / count) < 3 / std::sqrt(count));
  double const p = 0.682689492137;  // erf(1/sqrt 2)
  CHECK(std::fabs(inside / count - p) < 3 * std::sqrt(p * (1 - p) / count));
}

TEST_CASE_TEMPLATE("dropout scales what it keeps, its backward has the same mask", T, float, double) {
  index_map const map = whole({3, 333});
  std::vector<T> x(map.size()), y(map.size()), dy(map.size()), dx(map.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>(i) - T(400.5);
    dy[i] = T(1);
  }
  for (double p : {0.1, 0.5, 0.9}) {
    random::dropout(x.data(), nullptr, y.data(), map, key, p);
    random::dropout(dy.data(), nullptr, dx.data(), map, key, p);
    T const scale = static_cast<T>(1 / (1 - p));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      wrong += !((dx[i] == T(0) && y[i] == T(0)) || (dx[i] == scale && y[i] == x[i] * scale));
    CHECK(wrong == 0);
    std::vector<bool> kept(x.size());
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = dx[i] != T(0);
    CHECK(std::fabs(share(kept) - (1 - p)) < 3 * std::sqrt(p * (1 - p) / 999));
  }
  random::dropout(x.data(), nullptr, y.data(), map, key, 0.0);
  CHECK(y == x);
  random::dropout(x.data(), x.data(), y.data(), map, key, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == x[i] + x[i]);
  x[0] = std::numeric_limits<T>::infinity();
  std::vector<bool> const mask = mask_of<T>(map, 0.5);
  x.assign(x.size(), std::numeric_limits<T>::infinity());
  random::dropout(x.data(), nullptr, y.data(), map, key, 0.5);
  for (std::size_t i = 0; i < 8; ++i) CHECK(y[i] == (mask[i] ? x[i] : T(0)));
  for (double p : {-0.1, 1.0, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    std::string text;
    try {
      random::dropout(x.data(), nullptr, y.data(), map, key, p);
    } catch (heddle::error const& e) {
      text = e.what();
    }
    CHECK(text.find("probability must be in [0, 1)") != std::string::npos);
  }
}

TEST_CASE("steps, sites and seeds have independent masks") {
  index_map const map = whole({65536});
  std::vector<bool> const mask = mask_of<float>(map, 0.5);
  for (random_key other : {random_key{12, 5, 3}, random_key{11, 6, 3}, random_key{11, 5, 4}}) {
    std::vector<bool> const second = mask_of<float>(map, 0.5, other);
    std::vector<bool> same(mask.size());
    for (std::size_t i = 0; i < same.size(); ++i) same[i] = mask[i] == second[i];
    CHECK(std::fabs(share(same) - 0.5) < 3 * 0.5 / 256);
  }
}

}  // namespace random_test
