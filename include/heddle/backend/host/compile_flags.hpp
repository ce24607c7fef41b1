// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace heddle {

/// What the flags that this program was compiled with cost on the host backend: a line each, or nothing. Only what the
/// compiler's own macros tell can be found here.
inline std::string describe_host_flags() {
  std::string out;
  [[maybe_unused]] auto const warn = [&](char const* text) { out += std::string("warning: ") + text + "\n"; };
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__OPTIMIZE__)
  warn("compiled without optimization, which costs two orders of magnitude; add -O3");
#endif
#if defined(__x86_64__) && !defined(__AVX__)
  warn("compiled for the oldest x86-64, with vectors of 4 floats; add -march=native");
#endif
#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX__) && \
    (defined(__tune_znver2__) || defined(__tune_znver3__))
  warn("g++ tunes for a Zen, which makes products 1.3 times slower; add -mtune=generic");
#endif
  return out;
}

}  // namespace heddle
