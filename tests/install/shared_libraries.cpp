// SPDX-License-Identifier: Apache-2.0
// Loads shared libraries into one process, each where the others' symbols are seen, and prints what each one says.
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    void* const library = dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) return std::puts(dlerror()), 1;
    auto const said = reinterpret_cast<char const* (*)()>(dlsym(library, "said_of_a_mismatch"));
    if (said == nullptr) return std::puts(dlerror()), 1;
    std::puts(said());
  }
}
